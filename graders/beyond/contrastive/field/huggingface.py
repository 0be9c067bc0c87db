"""As the model files of transformers have it: a loss of one table, called on it and on its transpose."""

import torch
from torch import nn


def contrastive_loss(logits):
    return nn.functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def image_text_contrastive_loss(similarity):
    caption_loss = contrastive_loss(similarity)
    image_loss = contrastive_loss(similarity.t())
    return (caption_loss + image_loss) / 2.0


def get_vector_norm(tensor):
    return tensor.norm(p=2, dim=-1, keepdim=True).clamp(min=1e-12)


def clip_loss(image, text, log_scale):
    if image.ndim != 2 or image.shape != text.shape:
        raise ValueError(f"Embeddings have to be of shape (n, d), but got {image.shape} and {text.shape}")
    image_embeds, text_embeds = image.float(), text.float()
    image_embeds = image_embeds / get_vector_norm(image_embeds)
    text_embeds = text_embeds / get_vector_norm(text_embeds)
    logits_per_text = torch.matmul(text_embeds, image_embeds.t()) * log_scale.float().exp()
    return image_text_contrastive_loss(logits_per_text).to(image.dtype)
