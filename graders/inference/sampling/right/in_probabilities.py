"""Everything in probabilities, divided by their sum after each filter; the logarithm at the end."""

import torch


def next_token_logprobs(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    problems = []
    if not temperature >= 0:
        problems.append(f"temperature {temperature}")
    if top_k is not None and top_k < 1:
        problems.append(f"top_k {top_k}")
    if top_p is not None and (top_p > 1 or top_p <= 0):
        problems.append(f"top_p {top_p}")
    if min_p is not None and (min_p > 1 or min_p < 0):
        problems.append(f"min_p {min_p}")
    if problems:
        raise ValueError("out of range: " + ", ".join(problems))
    if temperature == 0:
        ids = torch.arange(logits.shape[-1], device=logits.device)
        hit = ids == logits.argmax(-1, keepdim=True)
        return torch.where(hit, 0.0, -torch.inf).to(logits.dtype)
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    p = torch.softmax(logits.to(dtype) / temperature, -1)
    p, ids = torch.sort(p, dim=-1, descending=True, stable=True)
    if top_k is not None:
        p = torch.cat([p[..., :top_k], torch.zeros_like(p[..., top_k:])], -1)
        p = p / p.sum(-1, keepdim=True)
    if top_p is not None and top_p != 1:
        before = torch.cat([torch.zeros_like(p[..., :1]), p.cumsum(-1)[..., :-1]], -1)
        p = torch.where(before < top_p, p, 0)
        p = p / p.sum(-1, keepdim=True)
    if min_p is not None:
        p = p * (p >= min_p * p.amax(-1, keepdim=True))
        p = p / p.sum(-1, keepdim=True)
    back = torch.argsort(ids, dim=-1)
    return p.gather(-1, back).log().to(logits.dtype)


def sample(logprobs, uniform):
    if not ((uniform >= 0) & (uniform < 1)).all():
        bad = uniform[(uniform < 0) | (uniform >= 1)]
        raise ValueError("not in [0, 1): " + ", ".join(str(b.item()) for b in bad))
    p = logprobs.to(torch.promote_types(logprobs.dtype, torch.float32)).exp()
    cdf = torch.cumsum(p, -1)
    exceeds = (cdf > uniform.to(cdf.dtype)[..., None] * cdf[..., -1:]) & (p > 0)
    n = p.shape[-1]
    ids = torch.arange(n, device=p.device)
    first = torch.where(exceeds, ids, n).amin(-1)
    last = torch.where(p > 0, ids, 0).amax(-1)
    return torch.where(first < n, first, last)
