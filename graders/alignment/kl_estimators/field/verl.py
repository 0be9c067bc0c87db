# robust: Extremes: k3 is clamped at 10. A reviewer would ask for what the formula gives, since the mean of what is clamped
# is no longer the KL.
"""In the style of verl: log-probabilities from logits, and its three penalties, low_var_kl clamped."""

import torch


def token_logprobs(logits, labels):
    logits_labels = torch.gather(logits, dim=-1, index=labels.unsqueeze(-1)).squeeze(-1)
    return (logits_labels.float() - torch.logsumexp(logits.float(), dim=-1)).type_as(logits)


def low_var_kl(logprob, ref_logprob):
    kl = torch.clamp(ref_logprob - logprob, min=-20, max=20)
    return torch.clamp(torch.exp(kl) - kl - 1, min=-10, max=10)


def kl_estimates(logprob, ref_logprob):
    dtype, logprob, ref_logprob = logprob.dtype, logprob.float(), ref_logprob.float()
    kl = logprob - ref_logprob
    return kl.to(dtype), (0.5 * kl.square()).to(dtype), low_var_kl(logprob, ref_logprob).to(dtype)


def kl_exact(logits, ref_logits):
    log_probs, ref_log_probs = (torch.log_softmax(x.float(), dim=-1) for x in (logits, ref_logits))
    kl = (log_probs - ref_log_probs).masked_fill(torch.isneginf(logits), 0.0)
    return torch.sum(log_probs.exp() * kl, dim=-1).type_as(logits)
