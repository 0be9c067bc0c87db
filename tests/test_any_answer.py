"""Whatever an attempt gives back, the verdict on it is in words: no answer, at no place, is a fault of the grader.

An attempt here is the solution, with what one place of an answer holds replaced: a result, one of several, what a
method or an operator gives, an attribute that is read.
"""

from __future__ import annotations

import inspect

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from dojo.content import catalog, master
from dojo.grading.kill_matrix import kill_matrix
from dojo.grading.options import Options
from dojo.judge.fork_server import ForkServer
from dojo.verdict.failures import Fault, described
from dojo.verdict.types import Outcome
from tests.conftest import SEED, Grade, on_core, told

KATAS = catalog.katas()
PLAIN = """
    None True False 0 1 -1 3 10**30 10**5000 0.5 -0.0 1e400 -1e400 1e400-1e400 2**63 '' 'text' '\\ud800' '\\0' b'bytes'
    () [] {} (None,) [[]] [()] {'a':1} {1:2} set() {1} frozenset() range(3) slice(1) object() ... NotImplemented print
    int 1j bytearray(2) iter([]) (i*i*for*i) Exception('text') 'x'*5000000
"""
TENSORS = """
    torch.zeros(()) torch.zeros(0) torch.zeros(2,3) torch.zeros(1,1,1) torch.ones(2,dtype=torch.int64)
    torch.ones(2,dtype=torch.bool) torch.ones(2,dtype=torch.complex64) torch.ones(2,dtype=torch.float64)
    torch.ones(2,dtype=torch.bfloat16) torch.ones(2,dtype=torch.uint16) torch.ones(2,dtype=torch.float8_e4m3fn)
    torch.full((2,),torch.nan) torch.zeros(2,3,device='meta') torch.zeros(2,3).to_sparse()
    torch.nn.Parameter(torch.ones(2)) torch.nn.Linear(2,2) torch.nn.ParameterList() torch.float32 torch.device('cpu')
    torch.Size([2]) torch.zeros(2,3,requires_grad=True) torch.zeros(3,2).T torch.zeros(1).expand(1000)
    torch.ones(2).as_subclass(_Sub) torch.Generator() torch.ones(2)[0].item torch.zeros(0,3).expand(5,0,3)
    torch.nested.nested_tensor([torch.ones(2),torch.ones(3)]) torch.quantize_per_tensor(torch.ones(2),1.0,0,torch.qint8)
    result.double() result.int() result[None] result[:1] result.tolist() result.item() result.to('meta') result.T
    result.expand(2,*result.shape) (result,) [result] (result,result) {'a':result} str(result) result.numpy() -result
    result.cfloat() type(result)() list(result) dict(result) iter(result) result.as_subclass(_Sub) result.detach()
"""
VALUES = st.sampled_from([each.replace("(i*i*for*i)", "(i for i in result)") for each in (PLAIN + TENSORS).split()])
NESTED = st.recursive(
    VALUES, lambda inner: st.one_of(inner.map("[{}]".format), st.builds("({}, {})".format, inner, inner)), max_leaves=3
)
TOGETHER = 12  # attempts that are graded side by side
SLOW = list(HealthCheck)  # an example takes seconds
WHERE = st.sampled_from([None, None, 0, 1, -1])  # the whole answer, or one of several
FROM = st.sampled_from([0, 0, 0, 1, 7])  # the calls before that are answered rightly
PLACES = st.tuples(NESTED, WHERE, FROM)


class _Sub:
    """Stands for the subclass of a tensor that an attempt makes."""


def spoiled(value, where, right, namespace):
    """Put `value(result)` into what every function, method and attribute of this namespace gives, at one place."""
    import functools
    import sys

    import torch

    file, counts = spoiled.__code__.co_filename, {}

    def answer(name, result):
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= right:
            return result
        several = isinstance(result, (tuple, list)) and result and not hasattr(result, "_fields")
        if where is None or not several:
            return made(result)
        place = where % len(result)
        return type(result)([made(each) if n == place else each for n, each in enumerate(result)])

    def made(result):
        try:
            return value(result)
        except (TypeError, AttributeError, ValueError, RuntimeError, IndexError):
            return object()

    def wrapped(name, function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            return result if sys._getframe(1).f_code.co_filename == file else answer(name, result)

        return call

    def read(self, name):
        found = object.__getattribute__(self, name)
        outside = sys._getframe(1).f_code.co_filename != file
        return answer(name, found) if outside and not name.startswith("_") and not callable(found) else found

    for name, found in list(namespace.items()):
        if isinstance(found, type) and found.__module__ == namespace["__name__"]:
            for each, function in list(vars(found).items()):
                special = each.startswith("__") and each not in (
                    "__call__",
                    "__add__",
                    "__mul__",
                    "__getitem__",
                    "__len__",
                )
                if callable(function) and not isinstance(function, type) and not special:
                    setattr(found, each, wrapped(f"{name}.{each}", function))
            if not issubclass(found, (torch.nn.Module, torch.optim.Optimizer, torch.autograd.Function)):
                found.__getattribute__ = read
        elif callable(found) and getattr(found, "__module__", "") == namespace["__name__"] and name != "spoiled":
            namespace[name] = wrapped(name, found)


def attempt(kata: catalog.Kata, value: str, where: int | None, right: int) -> str:
    """The solution with its answers spoiled in this way."""
    subclass = "class _Sub(torch.Tensor):\n    pass\n"
    around = f"spoiled(lambda result: {value}, {where}, {right}, globals())\n"
    return "\n".join([master.read_text(kata.master), "import torch", subclass, inspect.getsource(spoiled), around])


def faults_of_ours(kata: catalog.Kata, sources: dict[str, str], server: ForkServer) -> list[str]:
    """What the checks of a kata cannot put into words, by what was given back."""
    outcomes, _ = kill_matrix(kata, sources, Options(SEED), server.warm())
    return [
        f"{row} in {check}: {type(found).__name__}: {found}"
        for row, checks in outcomes.items()
        for check, found in checks.items()
        if found is not None and not isinstance(found, Fault)
    ]


def hold(kata: catalog.Kata, examples: int, server: ForkServer, core: int | None) -> None:
    """Draw attempts, some at a time, and grade them side by side."""

    @seed(SEED)
    @settings(max_examples=examples, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=SLOW)
    @given(st.lists(PLACES, min_size=TOGETHER, max_size=TOGETHER, unique=True))
    def is_told(places: list[tuple[str, int | None, int]]) -> None:
        with on_core(core):
            found = faults_of_ours(kata, {str(place): attempt(kata, *place) for place in places}, server)
        assert not found, "\n".join(found)

    is_told()


@pytest.mark.parametrize("name", ["gradients", "bpe_train", "autograd", "kv_cache"])
def test_whatever_comes_back_is_told_in_words(name: str, server: ForkServer, core: int | None) -> None:
    hold(KATAS[name], 1, server, core)


@pytest.mark.proof
@pytest.mark.parametrize("name", KATAS, ids=lambda name: f"kata_{name}_")
def test_whatever_comes_back_from_any_kata_is_told_in_words(name: str, server: ForkServer, core: int | None) -> None:
    hold(KATAS[name], 4, server, core)


def test_what_a_check_cannot_use_is_told_by_its_kind(graded: Grade) -> None:
    kata = KATAS["softmax"]
    verdict = graded("softmax", attempt(kata, "(result[0].tolist(), [None, {}], torch.zeros(2, 0))", None, 0))
    assert verdict.verdict == "failed"
    assert "the result is a tuple, not a torch.Tensor" in told(verdict)


def test_a_number_for_the_norm_is_no_fault_of_the_grader(graded: Grade) -> None:
    kata = KATAS["gradients"]
    verdict = graded("gradients", attempt(kata, "result.item()", 1, 0), keyword="clip_by_global_norm")
    assert verdict.verdict == "failed"
    assert "the result is a float, not a torch.Tensor" in told(verdict)
    assert not [check for check in verdict.checks if check.outcome is Outcome.GRADER_ERROR]


def test_the_kind_of_an_answer_is_told_in_words() -> None:
    assert described(([torch.zeros(2, 3), None], 0.5, [])) == (
        "a tuple of (a list of (a float32 tensor of shape (2, 3), None), a float, an empty list)"
    )
    assert described(torch.zeros(2, device="meta")) == "a float32 tensor of shape (2,) on meta"
    assert described(dict.fromkeys("ab")) == "a dict"
