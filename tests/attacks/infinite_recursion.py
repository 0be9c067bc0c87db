"""Recurses without end."""


def softmax(x, dim=-1):
    return softmax(x, dim)
