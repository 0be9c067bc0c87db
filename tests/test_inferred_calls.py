"""What a contract takes from its master's signature where a grader states nothing, and what formulas are given."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
import torch

from dojo.content import catalog
from dojo.contracts.checks.inputs import Draw

MASTER = '''
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def scaled(x: Float[Tensor, "*batch seq dim"], keep: Bool[Tensor, "seq"], by: float = 3.0) -> Float[Tensor, "*batch"]:
    """x times by."""


def looked_up(ids: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """The ids."""


class Wider(nn.Module):
    """A weight alone."""

    def __init__(self, dim: int, wide: int, *, device=None, dtype=None):
        super().__init__()
        self.w = nn.Linear(dim, wide, bias=False)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch wide"]:
        """w x."""
'''


@pytest.fixture
def graded(tmp_path: Path) -> object:
    """Makes a grader of this text, beside the master above."""
    for folder in ("solutions", "graders"):
        (tmp_path / folder / "losses").mkdir(parents=True)
    (tmp_path / "solutions" / "losses" / "small.py").write_text(MASTER, "utf-8")
    path = tmp_path / "graders" / "losses" / "small" / "contract.py"
    path.parent.mkdir()

    def make(text: str) -> ModuleType:
        imports = "import torch\nfrom dojo.contracts import Call, Contract, ModuleContract, RoundedOnceContract\n"
        path.write_text(imports + dedent(text), "utf-8")
        return catalog.load(path)

    return make


SCALED = """
    class TestScaled(Contract):
        name = "scaled"
        oracle = lambda x, by: x * by
        variants = ()
        cases = {"small": {}}
"""


def test_calls_have_the_axes_of_the_signature(graded) -> None:
    contract = graded(SCALED).TestScaled
    call = contract.call(Draw(0))
    assert {name: tuple(value.shape) for name, value in call.inputs.items()} == {"x": (2, 5, 5, 7), "keep": (5,)}
    assert call.inputs["keep"].dtype is torch.bool
    other = contract.call(Draw(0), (), dim=4, offset=300.0, by=2.0)
    assert other.inputs["x"].shape == (5, 4)
    assert other.inputs["x"].mean() > 290
    assert other.inputs["by"] == 2.0


def test_further_shapes_growth_and_the_timed_call_are_those_of_the_axes(graded) -> None:
    contract = graded(SCALED).TestScaled
    shapes = {name: tuple(make(Draw(0)).inputs["x"].shape) for name, make in contract.more_shapes.items()}
    one = {"seq_of_one": (2, 5, 1, 7), "dim_of_one": (2, 5, 5, 1)}
    assert shapes == one | {"no_leading_axes": (5, 7), "three_leading_axes": (2, 1, 3, 5, 7)}
    grown = {word: tuple(make(Draw(0), 9).inputs["x"].shape) for word, make in contract.growth.items()}
    assert grown == {"seq": (2, 5, 9, 7), "dim": (2, 5, 5, 9), "the leading axes": (9, 9, 5, 7)}
    assert contract.timed(Draw(0)).inputs["x"].shape == (51, 51, 51)


def test_what_a_grader_states_is_not_inferred(graded) -> None:
    stated = (
        SCALED + '        more_shapes = {"two": {"seq": 2}}\n        grows = {"length": "seq"}\n        timed = {}\n'
    )
    contract = graded(stated).TestScaled
    assert [*contract.more_shapes] == ["two"]
    assert [*contract.growth] == ["length"]


def test_a_module_has_sizes_of_its_constructor_and_scales_of_its_parameters(graded) -> None:
    contract = graded("""
        class TestWider(ModuleContract):
            name = "Wider"
            sizes = {"wide": 4}
            scales = {"w": 100.0}
            oracle = lambda params, x: x @ params["w.weight"].T
            variants = ()
            cases = {"small": {}}
    """).TestWider
    call = contract.call(Draw(0), (3,))
    assert call.init == {"dim": 5, "wide": 4}
    assert call.inputs["x"].shape == (3, 5)
    assert call.params["w.weight"].abs().mean() > 10
    assert contract.call(Draw(0), w=0.0).params["w.weight"].count_nonzero() == 0


def test_integers_are_for_the_grader_to_draw(graded) -> None:
    contract = graded("""
        class TestLookedUp(Contract):
            name = "looked_up"
            oracle = lambda ids: ids
            variants = ()
            cases = {"small": {}}
    """).TestLookedUp
    with pytest.raises(TypeError, match="state `call`, which draws `ids`"):
        contract.call(Draw(0))


def test_a_formula_takes_what_it_names_with_the_defaults_of_the_signature(graded) -> None:
    contract = graded("""
        class TestScaled(Contract):
            name = "scaled"
            oracle = lambda x, by: (x, by)
            variants = (lambda **inputs: inputs, lambda init, keep: (init, keep))
            cases = {"small": {}}
    """).TestScaled
    inputs = {"x": 1, "keep": 2}
    assert contract.oracle({}, {}, **inputs) == (1, 3.0)
    assert contract.variants[0]({}, {}, **inputs | {"by": 5}) == {"x": 1, "keep": 2, "by": 5}
    assert contract.variants[1]({"n": 4}, {}, **inputs) == ({"n": 4}, 2)


def test_what_is_rounded_once_is_computed_in_float32(graded) -> None:
    contract = graded("""
        seen = []

        class TestScaled(RoundedOnceContract):
            name = "scaled"
            oracle = lambda x, by: seen.append(x.dtype) or x * by
            variants = ()
            cases = {"small": {}}
    """)
    for dtype, inner in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        assert contract.TestScaled.oracle({}, {}, x=torch.ones(2, dtype=dtype), keep=None).dtype is dtype
        assert contract.seen.pop() is inner


def test_a_variant_that_stands_twice_is_refused(graded) -> None:
    with pytest.raises(TypeError, match="TestScaled has a variant twice: state each once"):
        graded("""
            def twice(x):
                return x

            class TestScaled(Contract):
                name = "scaled"
                oracle, variants = twice, (twice, twice)
                cases = {"small": {}}
        """)
