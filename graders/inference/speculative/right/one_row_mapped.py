# Style: one row written down, torch.vmap for the batch; first rejection as a minimum of places; float64 inside.
import torch
from torch import vmap


def _pick(weights, u):
    total = weights.cumsum(0)
    hit = (total > u * total[-1]) & (weights > 0)
    ids = torch.arange(weights.shape[0], device=weights.device)
    n = weights.shape[0]
    first = torch.where(hit, ids, n).min()
    last = torch.where(weights > 0, ids, 0).max()
    return torch.where(first < n, first, last)


def _one(x, q, p, u, v):
    k = x.shape[0]
    at = torch.arange(k, device=x.device)
    ok = u * torch.take_along_dim(q, x[:, None], 1)[:, 0] < torch.take_along_dim(p[:-1], x[:, None], 1)[:, 0]
    stop = torch.where(ok, k, at).min()
    at = torch.arange(k + 1, device=x.device)
    here = (at == stop).to(p.dtype)
    target = here @ p
    rest = torch.relu(target - here[:-1] @ q)
    rest = torch.where(rest.max() > 0, rest, target)
    row = torch.cat([x, x.new_zeros(1)])
    row = torch.where(at < stop, row, torch.where(at == stop, _pick(rest, v), -1))
    return row, stop + 1


def speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform):
    b, k, vocab = draft_probs.shape
    if target_probs.shape[1] != k + 1:
        raise ValueError(f"expected {k + 1} target places, got {target_probs.shape[1]}")
    if target_probs.shape[2] != vocab:
        raise ValueError(f"draft vocabulary {vocab} != target vocabulary {target_probs.shape[2]}")
    sizes = [each.shape[0] for each in (draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform)]
    if len(set(sizes)) != 1:
        raise ValueError(f"batch sizes differ: {sizes}")
    bad = draft_tokens[(draft_tokens < 0) | (draft_tokens >= vocab)]
    if len(bad):
        raise ValueError(f"draft tokens {bad.tolist()} are not among {vocab}")
    numbers = torch.cat([accept_uniform.flatten(), sample_uniform.flatten()])
    bad = numbers[(numbers < 0) | (numbers >= 1)]
    if len(bad):
        raise ValueError(f"{bad.tolist()} are not in [0, 1)")
    floats = [each.double() for each in (draft_probs, target_probs, accept_uniform, sample_uniform)]
    return vmap(_one)(draft_tokens.long(), *floats)
