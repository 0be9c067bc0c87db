"""Defines something else."""


def soft_max(x, dim=-1):
    return x
