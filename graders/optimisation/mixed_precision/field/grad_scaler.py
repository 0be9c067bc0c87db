"""In the style of PyTorch's GradScaler: scale and count are tensors, and what a step found is kept by optimizer."""

import torch


class LossScaler:
    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self._scale = torch.full((), init_scale, dtype=torch.float32)
        self._growth_tracker = torch.full((), 0, dtype=torch.int32)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._found_inf_per_optimizer = {}

    def get_scale(self):
        return self._scale.item()

    def scale(self, outputs):
        return outputs * self._scale.to(outputs.device)

    def unscale_(self, optimizer):
        inv_scale = self._scale.double().reciprocal().float()
        found_inf = torch.full((), 0.0)
        with torch.no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    if param.grad is None:
                        continue
                    found_inf = torch.maximum(found_inf, (~torch.isfinite(param.grad)).any().float())
                    param.grad = param.grad * inv_scale
        self._found_inf_per_optimizer[id(optimizer)] = found_inf

    def step(self, optimizer, *args, **kwargs):
        if id(optimizer) not in self._found_inf_per_optimizer:
            self.unscale_(optimizer)
        if not self._found_inf_per_optimizer[id(optimizer)].item():
            return optimizer.step(*args, **kwargs)

    @torch.no_grad()
    def update(self):
        if max(found.item() for found in self._found_inf_per_optimizer.values()):
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.zero_()
        else:
            successful = int(self._growth_tracker) + 1
            if successful == self._growth_interval:
                self._scale.mul_(self._growth_factor)
                successful = 0
            self._growth_tracker.fill_(successful)
        self._found_inf_per_optimizer = {}


def train_step(loss, optimizer, scaler, max_norm):
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
