# robust: Id order, Ends: it draws from the most probable down. A reviewer would ask for the vocabulary's order, in which
# one number draws the same token whatever the sort makes of ties.
"""Llama's sample_top_p, which drops and draws in sorted order; temperature 0 is an argmax, as in its generate()."""

import torch
import torch.nn.functional as F


def next_token_logprobs(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    if temperature < 0 or (top_p is not None and not 0 < top_p <= 1):
        raise ValueError(f"temperature must be >= 0 and top_p in (0, 1], got {temperature} and {top_p}")
    if temperature == 0:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.log((torch.arange(logits.size(-1), device=logits.device) == best).to(logits.dtype))
    logits_sort, probs_idx = torch.sort(logits.float() / temperature, dim=-1, descending=True)
    if top_k is not None:
        logits_sort[..., top_k:] = -float("Inf")
    if top_p is not None:
        probs_sort = F.softmax(logits_sort, dim=-1)
        probs_sum = torch.cumsum(probs_sort, dim=-1)
        logits_sort[probs_sum - probs_sort > top_p] = -float("Inf")
    if min_p is not None:
        probs_sort = F.softmax(logits_sort, dim=-1)
        logits_sort[probs_sort < min_p * probs_sort[..., :1]] = -float("Inf")
    logprobs = F.log_softmax(logits_sort, dim=-1).to(logits.dtype)
    return torch.zeros_like(logits).scatter(-1, probs_idx, logprobs)


def sample(logprobs, uniform):
    probs_sort, probs_idx = torch.sort(torch.exp(logprobs.float()), dim=-1, descending=True)
    probs_sum = torch.cumsum(probs_sort, dim=-1)
    next_token = (probs_sum <= uniform.unsqueeze(-1) * probs_sum[..., -1:]).sum(dim=-1, keepdim=True)
    return torch.gather(probs_idx, -1, next_token).squeeze(-1)
