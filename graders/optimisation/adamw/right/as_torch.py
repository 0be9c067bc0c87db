import torch
from torch.optim import Optimizer


class AdamW(Optimizer):
    """In place, with the counter a tensor and the corrections in float32, as torch's own can."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, defaults)

    def add_param_group(self, group):
        super().add_param_group(group)
        g = self.param_groups[-1]
        if not 0.0 <= g["lr"]:
            raise ValueError(f"Invalid learning rate: {g['lr']}")
        if not 0.0 <= g["eps"]:
            raise ValueError(f"Invalid epsilon value: {g['eps']}")
        for i in (0, 1):
            if not 0.0 <= g["betas"][i] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {g['betas'][i]}")
        if not 0.0 <= g["weight_decay"]:
            raise ValueError(f"Invalid weight_decay value: {g['weight_decay']}")

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = torch.tensor(0.0, device=p.device)
                    state["exp_avg"] = torch.zeros_like(p, dtype=torch.float32, memory_format=torch.preserve_format)
                    state["exp_avg_sq"] = torch.zeros_like(state["exp_avg"])
                param = p if p.dtype == torch.float32 else p.to(torch.float32)
                grad = p.grad.to(torch.float32)
                state["step"] += 1
                param.mul_(1 - group["lr"] * group["weight_decay"])
                state["exp_avg"].lerp_(grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                bias_correction1 = 1 - beta1 ** state["step"]
                bias_correction2 = 1 - beta2 ** state["step"]
                denom = (state["exp_avg_sq"].sqrt() / bias_correction2.sqrt()).add_(group["eps"])
                param.sub_(state["exp_avg"] / denom * (group["lr"] / bias_correction1))
                if param is not p:
                    p.copy_(param)
        return loss
