"""As the model files of transformers have it: a loss of one table, called on it and on its transpose."""

import torch
from torch import nn


def contrastive_loss(logits):
    return nn.functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def image_text_contrastive_loss(similarity):
    return (contrastive_loss(similarity) + contrastive_loss(similarity.t())) / 2.0


def clip_loss(image, text, log_scale):
    if image.ndim != 2 or text.ndim != 2 or image.shape != text.shape:
        raise ValueError(
            f"image_embeds {tuple(image.shape)} and text_embeds {tuple(text.shape)} must be the same (n, d)"
        )
    if log_scale.ndim:
        raise ValueError(f"logit_scale must be a scalar, got {tuple(log_scale.shape)}")
    dtype = image.dtype
    if dtype in (torch.float16, torch.bfloat16):
        image, text, log_scale = image.float(), text.float(), log_scale.float()
    image_embeds = image / image.norm(p=2, dim=-1, keepdim=True).clamp(min=1e-12)
    text_embeds = text / text.norm(p=2, dim=-1, keepdim=True).clamp(min=1e-12)
    logits_per_text = torch.matmul(text_embeds, image_embeds.t()) * log_scale.exp()
    return image_text_contrastive_loss(logits_per_text).to(dtype)
