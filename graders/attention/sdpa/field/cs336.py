# robust: Masked rows, Half precision: -inf makes such a row nan, and exponentials are summed in half precision. One
# padded row spoils a whole batch's gradients, and weights that do not sum to 1 scale every value.
"""In the style of CS336: einsum over named axes, -inf for what is hidden, a softmax of one's own."""

import math

import torch
from einops import einsum


def softmax(x, dim=-1):
    exps = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return exps / exps.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(q, k, v, mask=None):
    scores = einsum(q, k, "... query d_k, ... key d_k -> ... query key") / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores, dim=-1)
    return einsum(weights, v, "... query key, ... key d_v -> ... query d_v")
