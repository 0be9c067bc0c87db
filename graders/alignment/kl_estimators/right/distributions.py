import torch
from torch.distributions import Categorical


def _same(a, b):
    if a.shape != b.shape:
        raise ValueError(f"{tuple(a.shape)} is not {tuple(b.shape)}")


def _up(x):
    return x if x.dtype == torch.float64 else x.float()


def token_logprobs(logits, token_ids):
    _same(logits[..., 0], token_ids)
    n = logits.size(-1)
    if (token_ids < 0).any() or (token_ids >= n).any():
        raise ValueError(f"ids {token_ids.min().item()} to {token_ids.max().item()} for {n} classes")
    return Categorical(logits=_up(logits), validate_args=False).log_prob(token_ids).to(logits.dtype)


def kl_estimates(logp, ref_logp):
    """With the ratio of probabilities, as in Schulman's note."""
    _same(logp, ref_logp)
    logr = _up(ref_logp) - _up(logp)
    r = logr.exp()
    return tuple(k.to(logp.dtype) for k in (-logr, logr**2 / 2, (r - 1) - logr))


def kl_exact(logits, ref_logits):
    _same(logits, ref_logits)
    policy, ref = (Categorical(logits=_up(each), validate_args=False) for each in (logits, ref_logits))
    surprise = policy.logits - ref.logits
    surprise = surprise.masked_fill(policy.logits == -torch.inf, 0)
    return (policy.probs * surprise).sum(-1).to(logits.dtype)
