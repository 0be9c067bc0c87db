import math

import torch


class AdamW(torch.optim.Optimizer):
    """All tensors of a group and of one count at once."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def add_param_group(self, group):
        super().add_param_group(group)
        group = self.param_groups[-1]
        bad = {k: group[k] for k in ("lr", "eps", "weight_decay") if group[k] < 0}
        bad.update({"beta": b for b in group["betas"] if b < 0 or b >= 1})
        if bad:
            raise ValueError(f"out of range: {bad}")

    def step(self, closure=None):
        loss = None if closure is None else closure()
        with torch.no_grad():
            for group in self.param_groups:
                active = [p for p in group["params"] if p.grad is not None]
                for p in active:
                    state = self.state[p]
                    state.setdefault("t", 0)
                    state["t"] += 1
                for t in sorted({self.state[p]["t"] for p in active}):
                    self.together(
                        [p for p in active if self.state[p]["t"] == t],
                        t,
                        **{k: v for k, v in group.items() if k != "params"},
                    )
        return loss

    def together(self, params, t, lr, betas, eps, weight_decay, **_):
        work = [p if p.dtype == torch.float64 else p.float() for p in params]
        grads = [p.grad.to(w.dtype) for p, w in zip(params, work)]
        for p, g in zip(params, grads):
            if "m" not in self.state[p]:
                self.state[p].update(m=torch.zeros_like(g), v=torch.zeros_like(g))
        m, v = ([self.state[p][name] for p in params] for name in "mv")
        torch._foreach_lerp_(m, grads, 1 - betas[0])
        torch._foreach_mul_(v, betas[1])
        torch._foreach_addcmul_(v, grads, grads, 1 - betas[1])
        size = torch._foreach_sqrt(v)
        torch._foreach_div_(size, math.sqrt(1 - betas[1] ** t))
        torch._foreach_add_(size, eps)
        moved = torch._foreach_mul(work, 1 - lr * weight_decay)
        torch._foreach_addcdiv_(moved, m, size, -lr / (1 - betas[0] ** t))
        torch._foreach_copy_(params, moved)
