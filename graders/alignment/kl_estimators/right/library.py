import torch
import torch.nn.functional as F


def token_logprobs(logits, token_ids):
    """As TRL's selective_log_softmax."""
    if logits.shape[:-1] != token_ids.shape:
        raise ValueError(f"index of shape {tuple(token_ids.shape)} for logits of shape {tuple(logits.shape)}")
    bad = [i for i in (token_ids.min().item(), token_ids.max().item()) if not 0 <= i < logits.shape[-1]]
    if bad:
        raise ValueError(f"index {bad} out of range")
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    selected = torch.gather(wide, dim=-1, index=token_ids.unsqueeze(-1)).squeeze(-1)
    return (selected - torch.logsumexp(wide, dim=-1)).to(logits.dtype)


def kl_estimates(logp, ref_logp):
    if logp.shape != ref_logp.shape:
        raise ValueError(f"logp {tuple(logp.shape)}, ref_logp {tuple(ref_logp.shape)}")
    dtype = logp.dtype
    logp, ref_logp = logp.float(), ref_logp.float()
    k3 = torch.exp(ref_logp - logp) - (ref_logp - logp) - 1
    return (logp - ref_logp).to(dtype), (0.5 * (logp - ref_logp).pow(2)).to(dtype), k3.to(dtype)


def kl_exact(logits, ref_logits):
    if logits.shape != ref_logits.shape:
        raise ValueError(f"logits {tuple(logits.shape)}, ref_logits {tuple(ref_logits.shape)}")
    dead = torch.isneginf(logits)
    log_p, log_q = (F.log_softmax(each, -1, dtype=torch.float32) for each in (logits, ref_logits))
    kl = F.kl_div(log_q.masked_fill(dead, 0), log_p.masked_fill(dead, -200), reduction="none", log_target=True)
    return kl.sum(-1).to(logits.dtype)
