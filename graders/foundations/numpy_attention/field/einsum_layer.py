# robust: Dtype: `np.sqrt` of an integer is float64, and so are the scores. Errors: widths are not checked.
"""A layer as interview guides write it: transposes spelled out, a boolean mask, the scale of `np.sqrt`."""

import numpy as np


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def causal_attention(x, w_q, w_k, w_v, w_o, num_heads):
    B, T, C = x.shape
    D = C // num_heads
    Q = (x @ w_q).reshape(B, T, num_heads, D).transpose(0, 2, 1, 3)
    K = (x @ w_k).reshape(B, T, num_heads, D).transpose(0, 2, 1, 3)
    V = (x @ w_v).reshape(B, T, num_heads, D).transpose(0, 2, 1, 3)
    scores = np.einsum("bhid,bhjd->bhij", Q, K) / np.sqrt(D)
    mask = np.triu(np.ones((T, T), dtype=bool), k=1)
    scores[:, :, mask] = -np.inf
    out = np.einsum("bhij,bhjd->bhid", softmax(scores), V)
    out = out.transpose(0, 2, 1, 3).reshape(B, T, C)
    return out @ w_o
