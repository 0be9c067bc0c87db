"""As OpenCLIP has it: a module of a loss, with a product of its own for each direction."""

import torch
import torch.nn.functional as F
from torch import nn


class ClipLoss(nn.Module):
    def forward(self, image_features, text_features, logit_scale):
        logits_per_image = logit_scale * image_features @ text_features.T
        logits_per_text = logit_scale * text_features @ image_features.T
        labels = torch.arange(logits_per_image.shape[0], device=image_features.device, dtype=torch.long)
        return (F.cross_entropy(logits_per_image, labels) + F.cross_entropy(logits_per_text, labels)) / 2


def clip_loss(image, text, log_scale):
    if image.ndim != 2 or image.shape != text.shape:
        raise ValueError(f"Expected paired features [N, D], got {list(image.shape)} and {list(text.shape)}")
    image_features, text_features = (F.normalize(features.float(), dim=-1) for features in (image, text))
    return ClipLoss()(image_features, text_features, log_scale.float().exp()).to(image.dtype)
