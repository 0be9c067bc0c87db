import torch
import torch.nn.functional as F


class ClipLoss(torch.nn.Module):
    """Cosines of all pairs by broadcasting, two log-softmaxes in place of labels."""

    def forward(self, image, text, log_scale):
        wide = torch.float64 if image.dtype == torch.float64 else torch.float32
        cosine = F.cosine_similarity(image.to(wide)[:, None], text.to(wide)[None], dim=-1, eps=1e-12)
        logits = cosine.mul(log_scale.to(wide).exp())
        both = F.log_softmax(logits, 1) + F.log_softmax(logits, 0)
        return -both.diag().sum().div(2 * len(image)).to(image.dtype)


def clip_loss(image, text, log_scale):
    shapes = [list(image.shape), list(text.shape)]
    if shapes[0] != shapes[1] or len(shapes[0]) != 2:
        raise ValueError("expected two (n, d), got %s and %s" % tuple(shapes))
    if log_scale.dim() > 0:
        raise ValueError(f"log_scale {list(log_scale.shape)} is no scalar")
    return ClipLoss()(image, text, log_scale)
