"""In the style of TRL: selective_log_softmax in float32, the per-token KL of GRPO, and kl_div as in its distillation."""

import torch
import torch.nn.functional as F


def selective_log_softmax(logits, index):
    logps = logits.float().log_softmax(-1)
    return torch.gather(logps, dim=-1, index=index.unsqueeze(-1)).squeeze(-1).to(logits.dtype)


token_logprobs = selective_log_softmax


def kl_estimates(per_token_logps, ref_per_token_logps):
    logr = ref_per_token_logps.float() - per_token_logps.float()
    per_token_kl = torch.exp(logr) - logr - 1
    return tuple(k.to(per_token_logps.dtype) for k in (-logr, (logr**2) / 2, per_token_kl))


def kl_exact(logits, ref_logits):
    mask = torch.isneginf(logits)
    log_probs, ref_log_probs = (F.log_softmax(x.float(), dim=-1).masked_fill(mask, 0.0) for x in (logits, ref_logits))
    kl = F.kl_div(ref_log_probs, log_probs, reduction="none", log_target=True)
    return kl.sum(-1).to(logits.dtype)
