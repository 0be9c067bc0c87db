# robust: a query that may attend to nothing gets nan, and products of float16 overflow.
"""In the style of CS336: einsum over named axes, -inf for what is hidden, a softmax of one's own."""

import math

import torch
from einops import einsum


def softmax(x, dim=-1):
    exps = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return exps / exps.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(Q, K, V, mask=None):
    scores = einsum(Q, K, "... query d_k, ... key d_k -> ... query key") / math.sqrt(K.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores, dim=-1)
    return einsum(weights, V, "... query key, ... key d_v -> ... query d_v")
