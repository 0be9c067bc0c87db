"""Waits without using the processor."""

import time


def softmax(x, dim=-1):
    time.sleep(3600)
