# Style: as serving engines write it; a token is recovered at every place, then masks choose. searchsorted to draw.
import torch

PLACEHOLDER_TOKEN_ID = -1


def _check(draft_token_ids, draft_probs, target_probs, accept_uniform, sample_uniform):
    batch_size, k = draft_token_ids.shape
    vocab_size = draft_probs.shape[-1]
    if draft_probs.shape[:2] != (batch_size, k) or accept_uniform.shape[0] != batch_size:
        raise ValueError(f"{tuple(draft_token_ids.shape)}, {tuple(draft_probs.shape)}, {tuple(accept_uniform.shape)}")
    if target_probs.shape[0] != batch_size or sample_uniform.shape[0] != batch_size:
        raise ValueError(f"batches differ: {batch_size}, {target_probs.shape[0]}, {sample_uniform.shape[0]}")
    if target_probs.shape[1] != k + 1:
        raise ValueError(f"target_probs has {target_probs.shape[1]} places for {k} draft tokens")
    if target_probs.shape[2] != vocab_size:
        raise ValueError(f"vocabularies of {vocab_size} and {target_probs.shape[2]}")
    if (draft_token_ids < 0).any() or (draft_token_ids >= vocab_size).any():
        raise ValueError(f"draft tokens {draft_token_ids.min().item()} to {draft_token_ids.max().item()}")
    for u in (accept_uniform, sample_uniform):
        if u.min() < 0 or u.max() >= 1:
            raise ValueError(f"uniform numbers from {u.min().item()} to {u.max().item()}")


@torch.no_grad()
def _draw(weights, u):
    probs = weights / weights.sum(-1, keepdim=True)
    cdf = probs.cumsum(-1).masked_fill(probs == 0, -1.0).cummax(-1).values.contiguous()
    ids = torch.searchsorted(cdf, u.to(cdf.dtype).contiguous(), right=True)
    last = weights.shape[-1] - 1 - (weights.flip(-1) > 0).int().argmax(-1)
    return torch.minimum(ids.squeeze(-1), last)


@torch.no_grad()
def speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform):
    _check(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform)
    batch_size, k = draft_tokens.shape
    index = draft_tokens.long().unsqueeze(-1)
    selected_draft = draft_probs.gather(2, index).squeeze(2)
    selected_target = target_probs[:, :k].gather(2, index).squeeze(2)
    capped_ratio = torch.minimum(selected_target / selected_draft, torch.ones_like(selected_target))
    accepted = accept_uniform < capped_ratio

    difference = torch.clamp(target_probs[:, :k] - draft_probs, min=0.0)
    empty = difference.sum(-1, keepdim=True) == 0
    difference = torch.where(empty, target_probs[:, :k], difference)
    recovered = _draw(difference, sample_uniform[:, None, None].expand(-1, k, 1))
    bonus = _draw(target_probs[:, -1], sample_uniform[:, None])

    limits = torch.where(accepted.all(1), k, (~accepted).int().argmax(1))
    indices = torch.arange(k, device=draft_tokens.device)[None]
    output = torch.full((batch_size, k + 1), PLACEHOLDER_TOKEN_ID, dtype=torch.long, device=draft_tokens.device)
    output[:, :-1] = torch.where(indices < limits[:, None], draft_tokens, output[:, :-1])
    output[:, :-1] = torch.where(indices == limits[:, None], recovered, output[:, :-1])
    output[:, -1] = torch.where(accepted.all(1), bonus, -1)
    return output, limits + 1
