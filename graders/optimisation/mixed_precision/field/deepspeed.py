"""In the style of the loss scalers of Apex and DeepSpeed: the last overflow is remembered, and each sum is looked at."""

import torch


def _has_inf_or_nan(x):
    cpu_sum = float(x.float().sum())
    return cpu_sum in (float("inf"), -float("inf")) or cpu_sum != cpu_sum


class LossScaler:
    def __init__(self, init_scale=2**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.cur_scale = float(init_scale)
        self.cur_iter, self.last_overflow_iter = 0, -1
        self.growth_factor, self.backoff_factor, self.scale_window = growth_factor, backoff_factor, growth_interval
        self.overflow = self.unscaled = False

    def get_scale(self):
        return self.cur_scale

    def scale(self, loss):
        return loss.float() * self.cur_scale

    def unscale_(self, optimizer):
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        self.overflow = any(_has_inf_or_nan(grad) for grad in grads)
        self.unscaled = True
        if not self.overflow:
            for grad in grads:
                grad.mul_(1.0 / self.cur_scale)

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.overflow:
            optimizer.step()

    def update(self):
        if self.overflow:
            self.cur_scale *= self.backoff_factor
            self.last_overflow_iter = self.cur_iter
        elif (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
            self.cur_scale *= self.growth_factor
        self.cur_iter += 1
        self.unscaled = self.overflow = False


def train_step(loss, optimizer, scaler, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if not scaler.overflow:
        params = [p for group in optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
