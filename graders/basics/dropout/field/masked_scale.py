# robust: p is unchecked, and p = 1 divides zero by zero.
"""A mask in the dtype of x, scaled once and kept for the backward pass, as CS231n writes it."""


def dropout(x, uniform, p=0.5, training=True):
    if not training:
        return x
    mask = (uniform >= p).to(x.dtype) / (1 - p)
    return x * mask
