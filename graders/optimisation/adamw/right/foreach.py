"""All tensors of a group that are at the same step at once."""

import math

# with optimisation/adamw


class AdamW(AdamW):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            active = {}
            for p in group["params"]:
                if p.grad is not None:
                    t = self.state[p]["t"] = self.state[p].get("t", 0) + 1
                    active.setdefault(t, []).append(p)
            for t, params in active.items():
                self.together(params, t, **{k: v for k, v in group.items() if k != "params"})

    def together(self, params, t, lr, betas, eps, weight_decay, **_):
        work = [p if p.dtype == torch.float64 else p.float() for p in params]
        grads = [p.grad.to(w.dtype) for p, w in zip(params, work)]
        m, v = ([self.state[p].setdefault(name, torch.zeros_like(w)) for p, w in zip(params, work)] for name in "mv")
        torch._foreach_lerp_(m, grads, 1 - betas[0])
        torch._foreach_mul_(v, betas[1])
        torch._foreach_addcmul_(v, grads, grads, 1 - betas[1])
        size = torch._foreach_sqrt(v)
        torch._foreach_div_(size, math.sqrt(1 - betas[1] ** t))
        torch._foreach_add_(size, eps)
        moved = torch._foreach_mul(work, 1 - lr * weight_decay)
        torch._foreach_addcdiv_(moved, m, size, -lr / (1 - betas[0] ** t))
        torch._foreach_copy_(params, moved)
