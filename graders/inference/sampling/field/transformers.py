"""In the style of transformers' logits warpers, one after the other, and a draw in float32."""

import torch


def top_k_warper(scores, top_k, filter_value=-float("inf")):
    top_k = min(top_k, scores.size(-1))
    indices_to_remove = scores < torch.topk(scores, top_k)[0][..., -1, None]
    return scores.masked_fill(indices_to_remove, filter_value)


def top_p_warper(scores, top_p, filter_value=-float("inf")):
    if not 0 < top_p <= 1.0:
        raise ValueError(f"`top_p` has to be a float > 0 and <= 1, but is {top_p}")
    if top_p == 1.0:
        return scores
    sorted_logits, sorted_indices = torch.sort(scores, descending=False)
    cumulative_probs = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
    sorted_indices_to_remove = cumulative_probs <= (1 - top_p)
    sorted_indices_to_remove[..., -1:] = 0
    indices_to_remove = sorted_indices_to_remove.scatter(-1, sorted_indices, sorted_indices_to_remove)
    return scores.masked_fill(indices_to_remove, filter_value)


def min_p_warper(scores, min_p, filter_value=-float("inf")):
    probs = torch.softmax(scores, dim=-1)
    top_probs = probs.amax(dim=-1, keepdim=True)
    return scores.masked_fill(probs < min_p * top_probs, filter_value)


def next_token_logprobs(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    if temperature < 0:
        raise ValueError(f"`temperature` has to be a positive float, but is {temperature}")
    if temperature == 0:  # greedy
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.size(-1)).to(logits.dtype).log()
    scores = logits.to(dtype=torch.float32, copy=True) / temperature
    if top_k is not None:
        scores = top_k_warper(scores, top_k)
    if top_p is not None:
        scores = top_p_warper(scores, top_p)
    if min_p is not None:
        scores = min_p_warper(scores, min_p)
    return scores.log_softmax(-1).to(logits.dtype)


def sample(logprobs, uniform):
    cdf = torch.softmax(logprobs.float(), dim=-1).cumsum(-1)
    cdf = cdf / cdf[..., -1:]
    return torch.searchsorted(cdf, uniform.float().unsqueeze(-1).contiguous(), right=True).squeeze(-1)
