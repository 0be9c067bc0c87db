"""Gradings on a device that is not the CPU, for machines that have no other.

`judge.worker.readings` makes a second device up: its tensors live on the CPU, say that they do not, and refuse to meet
those that do. There it is `meta`, which every build of torch knows. Here it is a backend of its own, for a
whole grading with values and gradients, in the process that grades:

    python -m tests.fake_device KATA ...

It wants a process of its own: nothing takes a backend back, and the first gradient fixes what devices there are.
"""

from __future__ import annotations

import pdb
import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from dojo.content import catalog, master
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge.fork_server import FreshStarts
from dojo.judge.worker.readings import instrumentation
from dojo.judge.worker.session import Session
from dojo.verdict.types import Verdict

NAME = "fake"
SEED = 20261120
# What these ask of another device float16 asks too, with gradients; with them it would take twice as long.
LEFT_OUT = "gradients_match", "memory_layout", "any_leading", "any_shape", "float64", "bfloat16"
OF_A_TEST = "Testtest"  # which is judged on the CPU alone, by a fork server
CHECKS = " and ".join(f"not {each}" for each in (*LEFT_OUT, OF_A_TEST))


class _Factories(TorchFunctionMode):
    """`torch.tensor` makes its result where no dispatch mode sees it, so it is moved afterwards."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and torch.device(kwargs.get("device") or "cpu").type == NAME:
            return func(*args, **kwargs | {"device": None}).to(kwargs["device"])
        return func(*args, **kwargs)


def settle() -> None:
    """Make this process know the device, for good."""
    _setup_privateuseone_for_python_backend(NAME)
    instrumentation.FAKE_DEVICE = torch.device(f"{NAME}:0")
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    pdb.post_mortem = lambda *_: None  # a grading in our own process is one for a debugger
    plain = Session.outgoing

    def outgoing(session: Session, result: Any) -> Any:
        return result.detach() if isinstance(result, instrumentation.FakeDeviceTensor) else plain(session, result)

    Session.outgoing = outgoing


def graded(name: str) -> Verdict:
    """The solution of this kata, graded on that device."""
    kata = catalog.katas()[name]
    entry = Entry(kata, master.read_text(kata.master), "attempt.py", "")
    with _Factories(), instrumentation.FakeDeviceMode():
        options = Options(SEED, None, NAME, CHECKS, debug=True, diagnose=False)
        return run([entry], options, FreshStarts())[0]


def main() -> int:
    """Grade the solutions of these katas; returns 1 if a check failed, or if there was none."""
    settle()
    failed = False
    for name in sys.argv[1:]:
        verdict = graded(name)
        wrong = [
            f"{check.name} {check.outcome}: {check.message}" for check in verdict.checks if not check.outcome.harmless
        ]
        print(f"{name}: {len(verdict.checks)} checks on {verdict.device}", *wrong, sep="\n")
        failed |= bool(wrong) or not verdict.checks
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
