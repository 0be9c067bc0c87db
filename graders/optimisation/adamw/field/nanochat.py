"""In nanochat's manner: one function for the step of a tensor, which a compiler fuses, and a class that calls it."""

import torch


def adamw_step_fused(p, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, wd):
    grad, wide = grad.to(exp_avg.dtype), p.to(exp_avg.dtype)
    exp_avg.lerp_(grad, 1 - beta1)
    exp_avg_sq.lerp_(grad.square(), 1 - beta2)
    bias1, bias2 = 1 - beta1**step, 1 - beta2**step
    denom = (exp_avg_sq / bias2).sqrt() + eps
    p.copy_(wide * (1 - lr * wd) - (lr / bias1) * (exp_avg / denom))


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def add_param_group(self, group):
        lr, betas, eps, weight_decay = ((self.defaults | group)[name] for name in self.defaults)
        if min(lr, eps, weight_decay) < 0 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"out of range: {lr=}, {betas=}, {eps=}, {weight_decay=}")
        super().add_param_group(group)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32))
                    state["exp_avg_sq"] = torch.zeros_like(state["exp_avg"])
                state["step"] += 1
                moments = state["exp_avg"], state["exp_avg_sq"], state["step"]
                adamw_step_fused(p, p.grad, *moments, group["lr"], *group["betas"], group["eps"], group["weight_decay"])
