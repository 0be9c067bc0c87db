# robust: Zero rows: a row of zeros is 0 / 0. Half precision: everything stays in it. Errors: none.
"""As the model files of transformers have it: a loss of one table, called on it and on its transpose."""

import torch
from torch import nn


def contrastive_loss(logits):
    return nn.functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def image_text_contrastive_loss(similarity):
    caption_loss = contrastive_loss(similarity)
    image_loss = contrastive_loss(similarity.t())
    return (caption_loss + image_loss) / 2.0


def clip_loss(image, text, log_scale):
    image_embeds = image / image.norm(p=2, dim=-1, keepdim=True)
    text_embeds = text / text.norm(p=2, dim=-1, keepdim=True)
    logits_per_text = torch.matmul(text_embeds, image_embeds.t()) * log_scale.exp()
    return image_text_contrastive_loss(logits_per_text)
