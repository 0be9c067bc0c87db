import torch


class AdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        params = list(params)
        if not isinstance(params[0], dict):
            params = [{"params": params}]
        base = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        self.param_groups = [{**base, **g, "params": list(g["params"])} for g in params]
        for g in self.param_groups:
            numbers = {k: g[k] for k in ("lr", "eps", "weight_decay")}
            if min(numbers.values()) < 0:
                raise ValueError(f"negative setting among {numbers}")
            if min(g["betas"]) < 0 or max(g["betas"]) >= 1:
                raise ValueError(f"betas must be in [0, 1): {g['betas'][0]}, {g['betas'][1]}")
        self.m, self.v, self.t = {}, {}, {}

    def zero_grad(self):
        for g in self.param_groups:
            for p in g["params"]:
                p.grad = None

    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is None:
                    continue
                x = p.data if p.dtype == torch.float64 else p.data.float()
                d, key, (b1, b2) = p.grad.data.to(x.dtype), id(p), g["betas"]
                t = self.t[key] = self.t.get(key, 0) + 1
                m = self.m[key] = b1 * self.m.get(key, 0.0) + (1 - b1) * d
                v = self.v[key] = b2 * self.v.get(key, 0.0) + (1 - b2) * d * d
                update = (m / (1 - b1**t)) / (torch.sqrt(v / (1 - b2**t)) + g["eps"])
                p.data[...] = x - g["lr"] * g["weight_decay"] * x - g["lr"] * update
