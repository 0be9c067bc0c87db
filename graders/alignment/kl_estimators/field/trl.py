# robust: Ruled-out classes, Half precision: kl_div gives nan where both rule a class out, and nothing is widened.
"""In the style of TRL: selective_log_softmax, the per-token KL of GRPO, and kl_div as in its distillation."""

import torch
import torch.nn.functional as F


def token_logprobs(logits, index):
    return torch.gather(logits.log_softmax(-1), dim=-1, index=index.unsqueeze(-1)).squeeze(-1)


def kl_estimates(per_token_logps, ref_per_token_logps):
    logr = ref_per_token_logps - per_token_logps
    per_token_kl = torch.exp(logr) - logr - 1
    return -logr, (logr**2) / 2, per_token_kl


def kl_exact(logits, ref_logits):
    log_probs, ref_log_probs = F.log_softmax(logits, dim=-1), F.log_softmax(ref_logits, dim=-1)
    return F.kl_div(ref_log_probs, log_probs, reduction="none", log_target=True).sum(-1)
