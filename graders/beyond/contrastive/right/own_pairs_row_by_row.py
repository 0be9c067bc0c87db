import torch
import torch.nn.functional as F


def clip_loss(image, text, log_scale):
    if image.ndim != 2 or text.ndim != 2 or image.shape != text.shape:
        raise ValueError(f"image {tuple(image.shape)} and text {tuple(text.shape)} must be of one shape (n, d)")
    if log_scale.ndim != 0:
        raise ValueError(f"log_scale must have no dimensions, got {tuple(log_scale.shape)}")
    dtype = image.dtype
    work = torch.promote_types(dtype, torch.float32)
    image, text = F.normalize(image.to(work), dim=-1), F.normalize(text.to(work), dim=-1)
    scale = log_scale.to(work).exp()
    logits = scale * (image @ text.T)
    positive = scale * (image * text).sum(-1)
    loss = (logits.logsumexp(1) - positive).mean() / 2 + (logits.logsumexp(0) - positive).mean() / 2
    return loss.to(dtype)
