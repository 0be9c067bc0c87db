"""The GPU of a worker: begun before the worker is confined, and waited for after each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dojo.judge.worker.readings import instrumentation

SHARE = 0.4  # of its memory for a worker: an attempt's, the reference's, and some for the judge
CACHE = 128 << 20  # bytes, more than the second-level cache has: after they are written, inputs come from memory


def begin() -> None:
    """Make what the driver opens sockets and files for: CUDA's context, the handle of its products, its profiler."""
    torch.cuda.set_per_process_memory_fraction(SHARE)
    with instrumentation.watching([]):
        some = torch.ones(8, 8, device="cuda", requires_grad=True)
        (some @ some).sum().backward()  # also the thread of the backward
        synchronize()


def synchronize(used: Callable[[], bool] = torch.cuda.is_initialized, wait: Any = torch.cuda.synchronize) -> None:
    """Wait for the GPU, if it is used; an attempt could patch what torch calls so."""
    if used():
        wait()


def flush_cache() -> None:
    """Have what the next kernels read come from memory."""
    torch.empty(CACHE, dtype=torch.uint8, device="cuda").zero_()
