"""In the style of PyTorch's own loop over single tensors, with the float32 states of those for half precision."""

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        for group in self.param_groups:
            if not 0.0 <= group["lr"]:
                raise ValueError(f"Invalid learning rate: {group['lr']}")
            if not 0.0 <= group["eps"]:
                raise ValueError(f"Invalid epsilon value: {group['eps']}")
            for i, beta in enumerate(group["betas"]):
                if not 0.0 <= beta < 1.0:
                    raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
            if not 0.0 <= group["weight_decay"]:
                raise ValueError(f"Invalid weight_decay value: {group['weight_decay']}")

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for param in (p for p in group["params"] if p.grad is not None):
                state = self.state[param]
                if len(state) == 0:
                    state["step"] = torch.tensor(0.0, dtype=torch.float32)
                    state["exp_avg"] = torch.zeros_like(param, dtype=torch.promote_types(param.dtype, torch.float32))
                    state["exp_avg_sq"] = torch.zeros_like(state["exp_avg"])
                state["step"] += 1
                step, grad = state["step"].item(), param.grad.to(state["exp_avg"].dtype)
                updated = param.to(grad.dtype) * (1 - group["lr"] * group["weight_decay"])
                state["exp_avg"].lerp_(grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                denom = (state["exp_avg_sq"].sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
                param.copy_(updated.addcdiv_(state["exp_avg"], denom, value=-group["lr"] / (1 - beta1**step)))
