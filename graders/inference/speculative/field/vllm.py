"""In the style of vLLM's rejection sampler: a token is recovered at every place, then masks choose."""

import torch


def _get_accepted(target_probs, draft_probs, draft_token_ids, uniform_rand):
    selected_draft_probs = draft_probs.gather(-1, draft_token_ids.unsqueeze(-1)).squeeze(-1)
    selected_target_probs = target_probs.gather(-1, draft_token_ids.unsqueeze(-1)).squeeze(-1)
    capped_ratio = torch.minimum(
        selected_target_probs / selected_draft_probs, torch.full((1,), 1, device=target_probs.device)
    )
    return uniform_rand < capped_ratio


def _get_recovered_probs(target_probs, draft_probs):
    f = torch.clamp(target_probs - draft_probs, min=0)
    return torch.where(f.sum(dim=-1, keepdim=True) > 0, f, target_probs)


def _draw(probs, uniform):
    cdf = probs.cumsum(-1)
    return (cdf <= uniform * cdf[..., -1:]).sum(-1)


def speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform):
    batch_size, k, vocab_size = draft_probs.shape
    if target_probs.shape != (batch_size, k + 1, vocab_size):
        raise ValueError(f"target_probs is {tuple(target_probs.shape)}, draft_probs {tuple(draft_probs.shape)}")
    accepted = _get_accepted(target_probs[:, :-1], draft_probs, draft_tokens, accept_uniform)
    recovered = _draw(_get_recovered_probs(target_probs[:, :-1], draft_probs), sample_uniform[:, None, None])
    bonus = _draw(target_probs[:, -1], sample_uniform[:, None])

    limits = (accepted == 0).max(1).indices
    limits[~(accepted == 0).any(1)] = k
    indices = torch.arange(k, device=limits.device).unsqueeze(0)
    output = -torch.ones((batch_size, k + 1), dtype=torch.long, device=limits.device)
    output[:, :k] = torch.where(indices < limits.unsqueeze(1), draft_tokens, -torch.ones_like(draft_tokens))
    output[:, -1] = torch.where(output[:, -2] != -1, bonus, -1)
    output[:, :k] = torch.where(indices == limits.unsqueeze(1), recovered, output[:, :k])
    return output, limits + 1
