"""Dies of a stack overflow in C."""

import sys


def softmax(x, dim=-1):
    sys.setrecursionlimit(10**9)
    nested = []
    for _ in range(3 * 10**5):
        nested = [nested]
    return repr(nested)
