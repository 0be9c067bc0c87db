"""What a call must leave as it found it: dtype, grad mode, random generators, threads, precision."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dojo.judge import precision


def settle() -> None:
    """Undo what earlier calls may have done to global state, so that a call that does it again is seen to."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    torch.default_generator.manual_seed(20_261_121)  # `torch.manual_seed` looks for GPUs each time
    random.seed(20_261_121)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    torch.set_anomaly_enabled(False)
    precision.full()
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
    if torch.get_default_device().type != "cpu":
        torch.set_default_device(None)


def global_state() -> dict[str, Any]:
    """What a call must leave as it found it, NumPy's where it is loaded."""
    numpy = sys.modules.get("numpy")
    of_numpy = {"NumPy's floating-point error handling": numpy.geterr()} if numpy is not None else {}
    return of_numpy | {
        "the default dtype": torch.get_default_dtype(),
        "the grad mode": torch.is_grad_enabled(),
        "the inference mode": torch.is_inference_mode_enabled(),
        "the seed of torch's random generator": torch.initial_seed(),
        "torch's random generator": torch.get_rng_state().view(torch.int64).tolist(),
        "Python's random generator": random.getstate(),
        "the number of threads": torch.get_num_threads(),
        "the default device": str(torch.get_default_device()),
        "the use of deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "the precision of matrix products": precision.setting(),
    }


LASTING = (
    "the default dtype",
    "the number of threads",
    "the default device",
    "the use of deterministic algorithms",
    "anomaly detection",
)


@contextmanager
def watched(loaded: dict[str, Any]) -> Iterator[list[str]]:
    """The names of what is no longer as it was, once the block has ended.

    What lasts is held against its state when the attempt was loaded, as though no earlier call had changed it for good.
    """
    settle()
    torch.rand(()), random.random()  # generators that were seeded before do not look as if just seeded
    before = global_state() | {name: loaded[name] for name in LASTING}
    changed: list[str] = []
    yield changed
    after = global_state()
    changed += [name for name in before if after[name] != before[name]]
