import torch


def sequence_logprobs(logits, token_ids, response_mask):
    """In float64, the logits of the tokens minus their logsumexp, each summed for itself."""
    if tuple(logits.shape[:-1]) != tuple(token_ids.shape):
        raise ValueError(f"token_ids: {tuple(token_ids.shape)}")
    if tuple(response_mask.shape) != tuple(token_ids.shape):
        raise ValueError(f"response_mask: {tuple(response_mask.shape)}")
    mask = torch.cat([response_mask[:, 1:], torch.zeros_like(response_mask[:, :1])], 1)
    hit = torch.nn.functional.one_hot(token_ids.roll(-1, 1), logits.shape[-1]).bool() & mask[..., None]
    wide = logits.double()
    taken = torch.where(hit, wide, torch.zeros_like(wide)).sum((1, 2))
    return (taken - torch.where(mask, wide.logsumexp(-1), 0.0).sum(1)).to(logits.dtype)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, margin, smoothing):
        ctx.save_for_backward(margin)
        ctx.smoothing = smoothing
        tail = torch.log1p(torch.exp(-margin.abs()))
        return ((1 - smoothing) * (tail - margin.clamp(max=0)) + smoothing * (tail + margin.clamp(min=0))).mean()

    @staticmethod
    def backward(ctx, grad):
        (margin,) = ctx.saved_tensors
        pull = ctx.smoothing * torch.sigmoid(margin) - (1 - ctx.smoothing) * torch.sigmoid(-margin)
        return grad * pull / len(margin), None


def dpo_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=0.1, label_smoothing=0.0):
    """The gradient written out: ε σ(m) - (1 - ε) σ(-m)."""
    if beta <= 0:
        raise ValueError(f"beta={beta}")
    if label_smoothing < 0 or label_smoothing >= 0.5:
        raise ValueError(f"label_smoothing={label_smoothing}")
    pi_c, pi_r = policy_chosen.double(), policy_rejected.double()
    margin = (pi_c - ref_chosen.detach().double()) - (pi_r - ref_rejected.detach().double())
    return _Loss.apply(beta * margin, label_smoothing).to(policy_chosen.dtype)
