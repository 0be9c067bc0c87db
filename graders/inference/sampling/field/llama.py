# robust: Greedy, Id order, Ends, Half precision, Errors: as it is run, on float32 logits and settings of its own.
"""nanoGPT's top-k and Llama's sample_top_p, which drops and draws in sorted order."""

import torch
import torch.nn.functional as F


def next_token_logprobs(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    logits = logits / temperature
    if top_k is not None:
        v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
        logits = torch.where(logits < v[..., [-1]], -float("Inf"), logits)
    probs = F.softmax(logits, dim=-1)
    if top_p is not None:
        probs_sort, probs_idx = torch.sort(probs, dim=-1, descending=True)
        probs_sum = torch.cumsum(probs_sort, dim=-1)
        mask = probs_sum - probs_sort > top_p
        probs_sort[mask] = 0.0
        probs_sort.div_(probs_sort.sum(dim=-1, keepdim=True))
        probs = torch.zeros_like(probs).scatter(-1, probs_idx, probs_sort)
    if min_p is not None:
        probs = torch.where(probs < min_p * probs.max(dim=-1, keepdim=True)[0], 0.0, probs)
        probs = probs / probs.sum(dim=-1, keepdim=True)
    return torch.log(probs)


def sample(logprobs, uniform):
    probs_sort, probs_idx = torch.sort(torch.exp(logprobs), dim=-1, descending=True)
    probs_sum = torch.cumsum(probs_sort, dim=-1)
    next_token = (probs_sum <= uniform.unsqueeze(-1)).sum(dim=-1, keepdim=True)
    return torch.gather(probs_idx, -1, next_token).squeeze(-1)
