import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self, ignore_index, smoothing, z):
        super().__init__()
        if not 0 <= smoothing <= 1:
            raise ValueError("label_smoothing out of [0, 1]: %s" % smoothing)
        if z < 0:
            raise ValueError("negative z_loss: %s" % z)
        self.ignore_index, self.smoothing, self.z = ignore_index, smoothing, z

    def forward(self, x, y):
        if x.shape[:-1] != y.shape:
            raise ValueError(f"x {tuple(x.shape)}, y {tuple(y.shape)}")
        mask = y != self.ignore_index
        classes = y.clone()
        classes[~mask] = 0
        wrong = classes[(classes < 0) | (classes >= x.shape[-1])]
        if len(wrong):
            raise ValueError(f"classes {wrong.tolist()} do not exist")
        x = x if x.dtype == torch.float64 else x.float()
        m = x.amax(-1, keepdim=True)
        log_z = (x - m).exp().sum(-1, keepdim=True).log() + m
        hit = -(x - log_z).gather(-1, classes.long().unsqueeze(-1)).squeeze(-1)
        if self.smoothing:
            spread = (log_z - x).mean(-1)
            hit = hit + self.smoothing * (spread - hit)
        per_token = hit + self.z * log_z.squeeze(-1).square()
        weights = mask.to(x.dtype) / mask.sum().clamp(min=1)
        return torch.where(mask, per_token * weights, 0).sum()


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    return Loss(ignore_index, label_smoothing, z_loss)(logits, targets).to(logits.dtype)
