"""An object for each tensor, sums unnormalised: m and v as weighted sums of all gradients, divided by their weights."""

import torch


class Slot:
    def __init__(self, like):
        self.first = self.second = torch.zeros_like(like)
        self.weight1 = self.weight2 = 0.0

    def mean(self, g, beta1, beta2):
        self.first = torch.lerp(g, self.first, beta1)
        self.second = torch.lerp(torch.square(g), self.second, beta2)
        self.weight1 = beta1 * self.weight1 + (1 - beta1)
        self.weight2 = beta2 * self.weight2 + (1 - beta2)
        return self.first / self.weight1, torch.sqrt(self.second / self.weight2)


def checked(name, value, low=0.0, high=float("inf")):
    if not low <= value < high:
        raise ValueError("%s=%s is not in [%s, %s)" % (name, value, low, high))


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01):
        self.slots = {}
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        for g in self.param_groups:
            [checked(k, g[k]) for k in ("lr", "eps", "weight_decay")]
            [checked("beta", b, high=1) for b in g["betas"]]

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in filter(lambda q: q.grad is not None, g["params"]):
                grad = p.grad.double() if p.dtype is torch.float64 else p.grad.float()
                slot = self.slots.setdefault(p, Slot(grad))
                mean, size = slot.mean(grad, *g["betas"])
                wide = p.to(grad.dtype)
                p.copy_(wide - g["lr"] * (g["weight_decay"] * wide + mean / (size + g["eps"])))
