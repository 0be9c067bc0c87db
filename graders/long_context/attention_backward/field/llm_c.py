# robust: Causal, Split keys, Half precision: D is a sum over the keys at hand, which is right only where `out` and `lse`
# are theirs to the last digit, and it is made of weights in the dtype of the inputs.
"""As llm.c and other backward passes by hand have it: through softmax with the weights alone."""

import math

import torch


def attention_backward(q, k, v, out, lse, grad_out, causal=False):
    T, S, hs = q.size(-2), k.size(-2), q.size(-1)
    scale = 1.0 / math.sqrt(hs)
    preatt = (q @ k.mT) * scale
    if causal:
        mask = torch.tril(torch.ones(T, S, device=q.device), diagonal=S - T)
        preatt = preatt.masked_fill(mask == 0, float("-inf"))
    att = torch.exp(preatt - lse.unsqueeze(-1)).to(q.dtype)
    # backward into att and v
    datt = grad_out @ v.mT
    dv = att.mT @ grad_out
    # backward through softmax
    dpreatt = att * (datt - (att * datt).sum(dim=-1, keepdim=True))
    # backward into q and k
    dq = (dpreatt @ k) * scale
    dk = (dpreatt.mT @ q) * scale
    return dq, dk, dv
