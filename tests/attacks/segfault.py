"""Dies of a stack overflow in C."""

import sys


def softmax(x, dim=-1):
    sys.setrecursionlimit(10**9)
    one, other = [], []
    for _ in range(2 * 10**5):
        one, other = [one], [other]
    return one == other
