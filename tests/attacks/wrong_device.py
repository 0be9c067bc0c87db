"""Gives back a tensor without data."""


def softmax(x, dim=-1):
    return x.to("meta")
