"""As transformers' warpers, one after the other, with exactly k at ties."""

import torch


def warp_k(scores, k):
    k = min(k, scores.size(-1))
    keep = torch.argsort(scores, dim=-1, descending=True, stable=True)[..., :k]
    remove = torch.ones_like(scores, dtype=torch.bool).scatter_(-1, keep, False)
    return scores.masked_fill(remove, -float("inf"))


def warp_p(scores, p):
    if p >= 1.0:
        return scores
    sorted_logits, sorted_indices = torch.sort(scores.flip(-1), descending=False, stable=True)
    cumulative_probs = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
    sorted_indices_to_remove = cumulative_probs <= (1 - p)
    sorted_indices_to_remove[..., -1:] = 0
    remove = sorted_indices_to_remove.scatter(-1, sorted_indices, sorted_indices_to_remove).flip(-1)
    return scores.masked_fill(remove, -float("inf"))


def warp_min(scores, m):
    probs = torch.softmax(scores, dim=-1)
    top_probs, _ = probs.max(dim=-1, keepdim=True)
    return scores.masked_fill(probs < m * top_probs, -float("inf"))


@torch.no_grad()
def next_token_logprobs(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    if temperature < 0:
        raise ValueError(f"`temperature` has to be a non-negative float, but is {temperature}")
    if top_k is not None and top_k <= 0:
        raise ValueError(f"`top_k` has to be a strictly positive integer, but is {top_k}")
    if top_p is not None and (top_p <= 0 or top_p > 1.0):
        raise ValueError(f"`top_p` has to be a float > 0 and <= 1, but is {top_p}")
    if min_p is not None and not (0 <= min_p <= 1.0):
        raise ValueError(f"`min_p` has to be a float in the [0, 1] interval, but is {min_p}")
    if temperature == 0.0:
        greedy = torch.full_like(logits, -float("inf"))
        return greedy.scatter_(-1, logits.max(-1, keepdim=True).indices, 0.0)
    scores = (logits if logits.dtype == torch.float64 else logits.float()) / temperature
    if top_k is not None:
        scores = warp_k(scores, top_k)
    if top_p is not None:
        scores = warp_p(scores, top_p)
    if min_p is not None:
        scores = warp_min(scores, min_p)
    return scores.log_softmax(-1).to(logits.dtype)


@torch.no_grad()
def sample(logprobs, uniform):
    if uniform.lt(0).any() or uniform.ge(1).any():
        raise ValueError(f"uniform must lie in [0, 1): {uniform.flatten().tolist()}")
    probs = (logprobs if logprobs.dtype == torch.float64 else logprobs.float()).softmax(-1)
    cdf = probs.cumsum(-1)
    cdf = cdf / cdf[..., -1:]
    u = uniform.to(cdf.dtype).unsqueeze(-1).contiguous()
    return torch.searchsorted(cdf, u, right=True).squeeze(-1)
