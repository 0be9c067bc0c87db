"""What is said of attempts in NumPy alone, on a made-up kata: right ones pass, wrong ones end in their sentence."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch

from dojo.content import catalog
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge.fork_server import ForkServer
from dojo.judge.worker.drivers import ADAPTERS
from dojo.verdict.types import Verdict
from tests.conftest import SEED, failures, told

MASTER = '''\
# ---
# jupyter:
#   dojo:
#     title: Made up
#     level: 1
#     minutes: 5
# ---

# %% [markdown]
# # Made up
#
# **Write** two things.

# %%
import numpy as np
from jaxtyping import Float


# %%
def softplus(x: Float[np.ndarray, "*batch n"], scale: float = 1.0) -> Float[np.ndarray, "*batch n"]:
    """scale · ln(1 + exp(x))."""
    ### BEGIN SOLUTION
    return scale * np.logaddexp(np.zeros((), x.dtype), x)
    ### END SOLUTION


def extremes(x: Float[np.ndarray, "*batch n"]) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, ""]]:
    """The largest of each row, and the smallest of all."""
    ### BEGIN SOLUTION
    return x.max(axis=-1), x.min()
    ### END SOLUTION
'''

GRADER = """\
import torch.nn.functional as F

from dojo.contracts import NumpyContract


def library(x, scale):
    return scale * F.softplus(x)


def both(x):
    return x.sort(-1).values[..., -1], x.flatten().sort().values[0]


class TestSoftplus(NumpyContract):
    name = "softplus"
    oracle, variants = library, (library,)
    cases = {"rows": {}, "scaled": {"scale": 0.5}}
    hard_cases = {"far out": {"values": 1000.0}}

    @classmethod
    def call(cls, d, shape=(3,), n=5, values=1.0, **more):
        from dojo.contracts import Call
        return Call({"x": d.normal(*shape, n, scale=values), **more})


class TestExtremes(NumpyContract):
    name = "extremes"
    results = ("largest", "smallest")
    oracle, variants = both, (both,)
    cases = {"rows": {"shape": (3,)}}
"""

RIGHT = {
    "in float64, rounded at the end": "    return (scale * np.logaddexp(0.0, x.astype(np.float64))).astype(x.dtype)",
    "by parts": "    return (np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))) * scale",
    "in an array of its own": "    out = np.empty_like(x)\n    np.logaddexp(0, x, out=out, dtype=x.dtype)\n"
    "    out *= scale\n    return out",
    "warnings that are of no account": "    with np.errstate(over='ignore'):\n        naive = np.log1p(np.exp(x))\n"
    "    return scale * np.where(x > 30, x, naive)",
}
WRONG = {
    "scale ignored": ("    return np.logaddexp(np.zeros((), x.dtype), x)", "result matches the definition"),
    "overflow": ("    return scale * np.log(1 + np.exp(x))", "overflow encountered in exp"),
    "float64": ("    return scale * np.logaddexp(np.zeros(x.shape), x)", "got float64 for float32"),
    "x written": (
        "    x *= 1.0 + 1e-3\n    return scale * np.logaddexp(np.zeros((), x.dtype), x / 1.001)",
        "inputs are not",
    ),
    "memory reinterpreted": (
        "    flat = np.lib.stride_tricks.as_strided(x, (x.size,), (x.itemsize,))\n"
        "    return scale * np.logaddexp(np.zeros((), x.dtype), flat).reshape(x.shape)",
        "any_memory_layout_gives",
    ),
    "kept for the same array": (
        "    if id(x) not in KEPT:\n        KEPT[id(x)] = x, scale * np.logaddexp(np.zeros((), x.dtype), x)\n"
        "    return KEPT[id(x)][1]\nKEPT = {}",
        "test_each_call_stands_alone",
    ),
    "errors silenced for good": (
        "    np.seterr(all='ignore')\n    return scale * np.logaddexp(np.zeros((), x.dtype), x)",
        "NumPy's floating-point error handling",
    ),
    "a loop over rows": (
        "    rows = x.reshape(-1, x.shape[-1])\n"
        "    return np.stack([scale * np.logaddexp(np.zeros((), x.dtype), r) for r in rows]).reshape(x.shape)",
        "the number of lines of Python does not grow with",
    ),
    "torch": (
        "    import torch\n    torch.zeros(1)\n    return scale * np.logaddexp(np.zeros((), x.dtype), x)",
        "is not allowed",
    ),
    "a tensor": (
        "    import torch\n    return torch.tensor((scale * np.logaddexp(np.zeros((), x.dtype), x)).tolist())",
        "is not allowed",
    ),
    "another library": ("    import scipy.special\n    return x", "`scipy` is imported"),
    "a list": (
        "    return (scale * np.logaddexp(np.zeros((), x.dtype), x)).tolist()",
        "the result is a list, not a numpy.ndarray",
    ),
    "nothing": ("    pass", "is there no `return`?"),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Callable[[str], Verdict]:
    """The verdict on the made-up kata's master, with another body of `softplus`."""
    root = tmp_path_factory.mktemp("made-up")
    for folder, file, text in (("solutions", "arrays.py", MASTER), ("graders", "arrays/contract.py", GRADER)):
        path = root / folder / "basics" / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
    kata = catalog.katas(root)["arrays"]

    def judge(body: str) -> Verdict:
        line = "    return scale * np.logaddexp(np.zeros((), x.dtype), x)"
        assert line in MASTER
        source = MASTER.replace(line, body) if body else MASTER
        return run([Entry(kata, source, "arrays.py", "")], Options(SEED, diagnose=False), server)[0]

    return judge


def test_the_master_passes(judged: Callable[[str], Verdict]) -> None:
    verdict = judged("")
    assert not failures(verdict), told(verdict)


@pytest.mark.parametrize("form", RIGHT)
def test_right_attempts_pass(form: str, judged: Callable[[str], Verdict]) -> None:
    verdict = judged(RIGHT[form])
    assert not failures(verdict), told(verdict)


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_attempts_end_in_their_sentence(mistake: str, judged: Callable[[str], Verdict]) -> None:
    body, sentence = WRONG[mistake]
    assert sentence in told(judged(body))


def test_a_function_that_draws_is_given_a_generator_of_the_seed() -> None:
    drawing = ADAPTERS["in_arrays_drawing"](lambda x, rng: {"moved": x + rng.normal(size=x.shape)})
    found = drawing(torch.ones(2, 3, dtype=torch.float64), 7).as_tensors()["moved"]
    assert found.tolist() == (1 + numpy.random.default_rng(7).normal(size=(2, 3))).tolist()
