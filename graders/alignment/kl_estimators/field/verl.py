# robust: Extremes, Ruled-out classes, Half precision: k3 is clamped at 10, 0 · nan is nan where both rule a class out,
# and estimates stay in the dtype they come in.
"""In the style of verl: log-probabilities from logits, and its three penalties, low_var_kl clamped."""

import torch


def token_logprobs(logits, labels):
    logits_labels = torch.gather(logits, dim=-1, index=labels.unsqueeze(-1)).squeeze(-1)
    return logits_labels - torch.logsumexp(logits, dim=-1)


def low_var_kl(logprob, ref_logprob):
    kl = torch.clamp(ref_logprob - logprob, min=-20, max=20)
    return torch.clamp(torch.exp(kl) - kl - 1, min=-10, max=10)


def kl_estimates(logprob, ref_logprob):
    kl = logprob - ref_logprob
    return kl, 0.5 * kl.square(), low_var_kl(logprob, ref_logprob)


def kl_exact(logits, ref_logits):
    log_probs, ref_log_probs = torch.log_softmax(logits, dim=-1), torch.log_softmax(ref_logits, dim=-1)
    return torch.sum(log_probs.exp() * (log_probs - ref_log_probs), dim=-1)
