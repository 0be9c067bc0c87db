import torch
import torch.nn.functional as F


def token_logprobs(logits, token_ids):
    if token_ids.dim() + 1 != logits.dim() or token_ids.shape != logits.shape[:-1]:
        raise ValueError("shapes %s, %s" % (tuple(logits.shape), tuple(token_ids.shape)))
    wrong = token_ids[(token_ids < 0) | (token_ids > logits.shape[-1] - 1)]
    if wrong.numel():
        raise ValueError("wrong ids: %s" % wrong.tolist())
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    flat = F.cross_entropy(wide.reshape(-1, wide.shape[-1]), token_ids.reshape(-1), reduction="none")
    return flat.neg().reshape(token_ids.shape).to(logits.dtype)


class _K3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.special.expm1(x).sub(x)

    @staticmethod
    def backward(ctx, grad):
        return torch.expm1(ctx.saved_tensors[0]) * grad


def kl_estimates(logp, ref_logp):
    if logp.shape != ref_logp.shape:
        raise ValueError("shapes %s, %s" % (tuple(logp.shape), tuple(ref_logp.shape)))
    x = torch.sub(ref_logp.to(torch.promote_types(logp.dtype, torch.float32)), logp)
    return x.neg().type_as(logp), x.pow(2).mul(0.5).type_as(logp), _K3.apply(x).type_as(logp)


class _KL(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        log_p, log_q = x - x.logsumexp(-1, keepdim=True), y - y.logsumexp(-1, keepdim=True)
        p, q = log_p.exp(), log_q.exp()
        apart = torch.where(x == -torch.inf, torch.zeros_like(x), log_p - log_q)
        kl = torch.einsum("...v,...v->...", p, apart)
        ctx.save_for_backward(p, q, apart, kl)
        return kl

    @staticmethod
    def backward(ctx, grad):
        p, q, apart, kl = ctx.saved_tensors
        grad = grad.unsqueeze(-1)
        return grad * p * (apart - kl.unsqueeze(-1)), grad * (q - p)


def kl_exact(logits, ref_logits):
    """The gradients written out: p (log p - log q - KL), and q - p."""
    if logits.shape != ref_logits.shape:
        raise ValueError("shapes %s, %s" % (tuple(logits.shape), tuple(ref_logits.shape)))
    wide = torch.promote_types(logits.dtype, torch.float32)
    return _KL.apply(logits.to(wide), ref_logits.to(wide)).to(logits.dtype)
