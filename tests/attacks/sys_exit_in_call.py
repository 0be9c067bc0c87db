"""Leaves politely in the middle of a call."""

import sys


def softmax(x, dim=-1):
    sys.exit(0)
