# robust: Dtype: the mask of `np.tri` and the scale of `np.sqrt` are float64. Errors: widths are not checked.
"""In the manner of a GPT in a few lines of NumPy: heads in a Python list, a mask that is added, one text at a time."""

import numpy as np


def softmax(x, axis=-1):
    exp_x = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return exp_x / np.sum(exp_x, axis=axis, keepdims=True)


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, w_q, w_k, w_v, w_o, n_head):
    qkv = [x @ w_q, x @ w_k, x @ w_v]
    qkv_heads = [np.split(each, n_head, axis=-1) for each in qkv]
    causal_mask = (1 - np.tri(x.shape[0])) * -1e10
    out_heads = [attention(q, k, v, causal_mask) for q, k, v in zip(*qkv_heads)]
    return np.hstack(out_heads) @ w_o


def causal_attention(x, w_q, w_k, w_v, w_o, num_heads):
    return np.stack([mha(each, w_q, w_k, w_v, w_o, num_heads) for each in x])
