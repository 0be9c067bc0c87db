# robust: Formula: eps is added before the correction, and decay comes last. Half precision: moments are half as well.
# Errors: none.
"""The form of Stanford's CS336: the step size holds both corrections, as in Kingma and Ba's own paper."""

import math

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, grad = self.state[p], p.grad.data
                t = state.get("t", 1)
                m = beta1 * state.get("m", torch.zeros_like(p.data)) + (1 - beta1) * grad
                v = beta2 * state.get("v", torch.zeros_like(p.data)) + (1 - beta2) * grad**2
                lr_t = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
                p.data -= lr_t * m / (torch.sqrt(v) + group["eps"])
                p.data -= lr * group["weight_decay"] * p.data
                state["m"], state["v"], state["t"] = m, v, t + 1
