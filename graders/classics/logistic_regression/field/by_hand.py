# robust: Large logits: the logarithm of a rounded probability is -inf. Labels: bool is not subtracted. Errors: none.
"""As courses derive it: a sigmoid by hand, gradients by formula, the loss by its logarithms."""

import torch


def sigmoid(z):
    return 1 / (1 + torch.exp(-z))


def fit(x, y, steps, lr, l2=0.0):
    m, n = x.shape
    w = torch.zeros(n, dtype=x.dtype)
    b = torch.zeros((), dtype=x.dtype)
    for _ in range(steps):
        a = sigmoid(x @ w + b)
        dz = a - y
        dw = x.T @ dz / m + l2 * w
        db = dz.sum() / m
        w = w - lr * dw
        b = b - lr * db
    return w, b


def loss(x, y, weight, bias, l2=0.0):
    a = sigmoid(x @ weight + bias)
    return -(y * torch.log(a) + (1 - y) * torch.log(1 - a)).mean() + l2 / 2 * (weight**2).sum()
