import torch


class _TwoWays(torch.autograd.Function):
    """The gradient written out: the mean of two softmaxes minus the identity."""

    @staticmethod
    def forward(ctx, logits):
        rows, columns = logits.softmax(1), logits.softmax(0)
        ctx.save_for_backward(rows, columns)
        shifted_rows = logits - logits.max(1, keepdim=True).values
        shifted_columns = logits - logits.max(0, keepdim=True).values
        lost = shifted_rows.exp().sum(1).log() - shifted_rows.diagonal()
        lost = lost + shifted_columns.exp().sum(0).log() - shifted_columns.diagonal()
        return lost.mean() / 2

    @staticmethod
    def backward(ctx, grad):
        rows, columns = ctx.saved_tensors
        pull = rows + columns
        pull.diagonal().sub_(2.0)
        return grad * pull / (2 * len(rows))


def clip_loss(image, text, log_scale):
    if image.dim() != 2 or text.dim() != 2 or image.size(0) != text.size(0) or image.size(1) != text.size(1):
        raise ValueError(f"shapes {tuple(image.shape)} and {tuple(text.shape)}")
    if log_scale.numel() != 1 or log_scale.dim() != 0:
        raise ValueError(f"log_scale has shape {tuple(log_scale.shape)}")
    a, b = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (image, text))
    a = a * torch.rsqrt((a * a).sum(1, keepdim=True).clamp_min(1e-24))
    b = b * torch.rsqrt((b * b).sum(1, keepdim=True).clamp_min(1e-24))
    temperature = torch.exp(-log_scale.to(a.dtype))
    return _TwoWays.apply(a @ b.mT / temperature).to(image.dtype)
