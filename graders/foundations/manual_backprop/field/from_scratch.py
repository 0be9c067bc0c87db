# robust: Dtype: the rows of `np.eye` are float64, and so is the gradient. Errors: shapes are not checked.
"""As a language model in NumPy is written: sequences flattened to rows, one-hot targets."""

import numpy as np


def linear_forward(x, weight, bias):
    return np.matmul(x, weight.T) + bias


def linear_backward(x, weight, grad_out):
    g = grad_out.reshape(-1, grad_out.shape[-1])
    return (g @ weight).reshape(x.shape), g.T @ x.reshape(-1, x.shape[-1]), g.sum(0)


def normalize(x, eps):
    mean = x.mean(-1, keepdims=True)
    rstd = (((x - mean) ** 2).mean(-1, keepdims=True) + eps) ** -0.5
    return (x - mean) * rstd, rstd


def layernorm_forward(x, weight, bias, eps=1e-5):
    return normalize(x, eps)[0] * weight + bias


def layernorm_backward(x, weight, grad_out, eps=1e-5):
    norm, rstd = normalize(x, eps)
    dweight = (grad_out * norm).reshape(-1, x.shape[-1]).sum(0)
    dbias = grad_out.reshape(-1, x.shape[-1]).sum(0)
    dnorm = grad_out * weight
    dx = dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)
    return dx * rstd, dweight, dbias


def log_softmax(logits):
    z = logits - logits.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def cross_entropy_forward(logits, targets):
    logprobs = log_softmax(logits).reshape(-1, logits.shape[-1])
    return -logprobs[np.arange(len(logprobs)), targets.reshape(-1)].mean()


def cross_entropy_backward(logits, targets, grad_out=1.0):
    onehot = np.eye(logits.shape[-1])[targets]
    return grad_out * (np.exp(log_softmax(logits)) - onehot) / targets.size
