# robust: Masked rows, Half precision: at -1e9 such a row is the mean of what it must not see, and float16 does not hold
# -1e9, so that a masked call raises. A reviewer would ask for the dtype's own lowest number, and zeros for such rows.
"""The annotated transformer's function: masked scores at -1e9, softmax in the dtype of the inputs."""

import math

import torch


def scaled_dot_product_attention(query, key, value, mask=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value)
