# robust: the mask is float32 whatever x is, an entry at p is dropped, p is unchecked, and p = 1 has no gradient.
"""In the manner of Dive into Deep Learning."""

import torch


def dropout(X, uniform, p=0.5, training=True):
    if not training:
        return X
    if p == 1:
        return torch.zeros_like(X)
    mask = (uniform > p).float()
    return mask * X / (1.0 - p)
