# robust: Half precision: moments have the dtype of the parameter, which is rounded after decay and after the update.
# Errors: nothing is looked at.
"""In the style of PyTorch's own loop over single tensors, and of the many that are modeled on it."""

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for param in (p for p in group["params"] if p.grad is not None):
                state = self.state[param]
                if len(state) == 0:
                    state["step"] = torch.tensor(0.0, dtype=torch.float32)
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
                state["step"] += 1
                step = state["step"].item()
                param.mul_(1 - group["lr"] * group["weight_decay"])
                state["exp_avg"].lerp_(param.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(param.grad, param.grad, value=1 - beta2)
                denom = (state["exp_avg_sq"].sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
                param.addcdiv_(state["exp_avg"], denom, value=-group["lr"] / (1 - beta1**step))
