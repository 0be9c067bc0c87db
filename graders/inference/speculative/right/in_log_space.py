# Style: logarithms for the acceptance, an einsum with a one-hot place for the row's distributions, in-place writes.
import torch
import torch.nn.functional as F


def fail(what):
    raise ValueError(what)


def speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform):
    (B, K), V = draft_tokens.shape, draft_probs.size(-1)
    shapes = [tuple(t.shape) for t in (draft_probs, target_probs, accept_uniform, sample_uniform)]
    if shapes != [(B, K, V), (B, K + 1, V), (B, K), (B,)]:
        fail(f"shapes do not fit {(B, K)} draft tokens: {shapes}")
    if not bool(((draft_tokens >= 0) & (draft_tokens < V)).all()):
        fail(f"a draft token outside of [0, {V}): {draft_tokens.tolist()}")
    for name, u in (("accept_uniform", accept_uniform), ("sample_uniform", sample_uniform)):
        if not bool(((u >= 0) & (u < 1)).all()):
            fail(f"{name} outside of [0, 1): {u.tolist()}")
    at = draft_tokens.unsqueeze(-1)
    log_q = torch.take_along_dim(draft_probs, at, -1).squeeze(-1).log()
    log_p = torch.take_along_dim(target_probs[:, :K], at, -1).squeeze(-1).log()
    ok = (accept_uniform.log() < log_p - log_q).logical_and(log_p > -torch.inf)
    n = ok.to(torch.int32).cummin(dim=1).values.sum(dim=1)
    place = F.one_hot(n.long(), K + 1).to(target_probs.dtype)
    target = torch.einsum("bk,bkv->bv", place, target_probs)
    draft = torch.einsum("bk,bkv->bv", place[:, :K], draft_probs)
    # What both have is taken off; nothing is left where they are alike.
    weight = target - torch.minimum(target, draft)
    weight = torch.where((weight > 0).any(-1, keepdim=True), weight, target)
    weight = weight / weight.sum(-1, keepdim=True)
    exceeds = (weight.cumsum(-1) > sample_uniform.unsqueeze(-1)) & (weight > 0)
    last = (weight > 0).long() * torch.arange(V, device=weight.device)
    new = torch.where(exceeds.any(-1), exceeds.int().argmax(-1), last.amax(-1))
    out = torch.full((B, K + 1), -1, dtype=torch.int64, device=draft_tokens.device)
    out[:, :K] = torch.where(torch.arange(K, device=n.device) < n[:, None], draft_tokens, -1)
    out.scatter_(1, n[:, None].long(), new[:, None])
    return out, n.long() + 1
