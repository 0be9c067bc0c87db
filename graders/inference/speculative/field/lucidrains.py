"""In the style of lucidrains' speculative decoding: the first rejection, and p and q padded so that each has a bonus."""

import torch
import torch.nn.functional as F


def find_first_true_index(bool_tensor, dim=-1):
    return (bool_tensor.cumsum(dim=dim) == 0).sum(dim=dim)


def speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform):
    batch, gamma = draft_tokens.shape
    padded_draft_probs = F.pad(draft_probs, (0, 0, 0, 1))
    if target_probs.shape != padded_draft_probs.shape:
        raise ValueError(f"target_probs {tuple(target_probs.shape)} must be {tuple(padded_draft_probs.shape)}")
    batch_range = torch.arange(batch, device=draft_tokens.device)
    q = draft_probs.gather(-1, draft_tokens[..., None]).squeeze(-1)
    p = target_probs[:, :-1].gather(-1, draft_tokens[..., None]).squeeze(-1)
    accepted = find_first_true_index(accept_uniform >= (p / q))

    prob = target_probs[batch_range, accepted]
    adjusted_prob = F.relu(prob - padded_draft_probs[batch_range, accepted])
    adjusted_prob = torch.where(adjusted_prob.any(dim=-1, keepdim=True), adjusted_prob, prob)
    cum_prob = adjusted_prob.cumsum(dim=-1)
    next_token = (cum_prob <= sample_uniform[:, None] * cum_prob[:, -1:]).sum(dim=-1)

    out = F.pad(draft_tokens, (0, 1))
    out[batch_range, accepted] = next_token
    seq = torch.arange(gamma + 1, device=out.device)
    return out.masked_fill(seq > accepted[:, None], -1), accepted + 1
