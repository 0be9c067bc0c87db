# robust: Leading axes: rows are counted by the first axis, as for a batch of vectors. Errors: shapes are not checked.
"""In the manner of CS231n's assignments: a batch of rows, and the gradients of mean and variance by themselves."""

import numpy as np


def linear_forward(x, weight, bias):
    return x.dot(weight.T) + bias


def linear_backward(x, weight, grad_out):
    return grad_out.dot(weight), grad_out.T.dot(x), np.sum(grad_out, axis=0)


def layernorm_forward(x, weight, bias, eps=1e-5):
    mu = np.mean(x, axis=-1, keepdims=True)
    var = np.var(x, axis=-1, keepdims=True)
    x_norm = (x - mu) / np.sqrt(var + eps)
    return weight * x_norm + bias


def layernorm_backward(x, weight, grad_out, eps=1e-5):
    N, D = x.shape
    mu = x.mean(axis=1, keepdims=True)
    var = x.var(axis=1, keepdims=True)
    inv_std = 1.0 / np.sqrt(var + eps)
    x_norm = (x - mu) * inv_std
    dx_norm = grad_out * weight
    dvar = np.sum(dx_norm * (x - mu) * -0.5 * inv_std**3, axis=1, keepdims=True)
    dmu = np.sum(-dx_norm * inv_std, axis=1, keepdims=True) + dvar * np.mean(-2.0 * (x - mu), axis=1, keepdims=True)
    dx = dx_norm * inv_std + dvar * 2.0 * (x - mu) / D + dmu / D
    return dx, np.sum(grad_out * x_norm, axis=0), np.sum(grad_out, axis=0)


def cross_entropy_forward(logits, targets):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_probs = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(log_probs[np.arange(len(logits)), targets])


def cross_entropy_backward(logits, targets, grad_out=1.0):
    N = logits.shape[0]
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    probs = np.exp(shifted) / np.sum(np.exp(shifted), axis=1, keepdims=True)
    probs[np.arange(N), targets] -= 1
    return probs / N * grad_out
