"""float64 throughout; ranks by sorting twice, so that nothing needs to be brought back."""

import math

import torch


def next_token_logprobs(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    if temperature < 0:
        raise ValueError("temperature must be >= 0, got %r" % temperature)
    if top_k is not None and top_k < 1:
        raise ValueError("top_k must be >= 1, got %r" % top_k)
    if top_p is not None and not (0.0 < top_p <= 1.0):
        raise ValueError("top_p must be in (0, 1], got %r" % top_p)
    if min_p is not None and not (0.0 <= min_p <= 1.0):
        raise ValueError("min_p must be in [0, 1], got %r" % min_p)
    x = logits.double()
    order = torch.argsort(x, dim=-1, descending=True, stable=True)
    rank = torch.argsort(order, dim=-1)
    keep = torch.ones_like(x, dtype=torch.bool)
    if temperature == 0:
        out = torch.zeros_like(x)
        keep = rank == 0
    else:
        out = x / temperature
        if top_k is not None:
            keep &= rank < top_k
        if top_p is not None and top_p < 1.0:
            lp = torch.log_softmax(out.masked_fill(~keep, -math.inf), -1)
            cum = torch.logcumsumexp(lp.gather(-1, order), -1)
            before = torch.cat([torch.full_like(cum[..., :1], -math.inf), cum[..., :-1]], -1).gather(-1, rank)
            keep &= before < math.log(top_p)
        if min_p is not None and min_p > 0:
            keep &= out >= out.max(-1, keepdim=True).values + math.log(min_p)
    out = out.masked_fill(~keep, -math.inf)
    return (out - out.logsumexp(-1, keepdim=True)).to(logits.dtype)


def sample(logprobs, uniform):
    u = uniform.double()
    if (u < 0).any() or (u >= 1).any():
        raise ValueError(f"uniform from {u.min().item()} to {u.max().item()} leaves [0, 1)")
    lp = logprobs.double()
    cdf = (lp - lp.logsumexp(-1, keepdim=True)).exp().cumsum(-1)
    seen = cdf > u.unsqueeze(-1)
    possible = lp > -math.inf
    seen[..., -1] = True
    first = seen.int().argmax(-1)
    last = possible.shape[-1] - 1 - possible.flip(-1).int().argmax(-1)
    return torch.minimum(first, last)
