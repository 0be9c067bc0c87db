# robust: Half precision: directions and logits stay in it. Errors: cross_entropy names no shape, or none are seen.
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
    return ClipLoss()(F.normalize(image, dim=-1), F.normalize(text, dim=-1), log_scale.exp())
