# robust: half precision is computed in half precision, where 1 + erf cancels.
"""One-line functions in the dtype of their input: sigmoid by tanh, GELU by erf as BERT's own code has it."""

import math

import torch


def sigmoid(x):
    return 0.5 * (1.0 + torch.tanh(0.5 * x))


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
