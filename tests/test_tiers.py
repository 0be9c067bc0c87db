"""What each tier asks, seen on attempts: names are for one check, hardening is not core, and robust says why."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from dojo.content import catalog
from dojo.content.master import read_text
from dojo.grading import topics
from dojo.verdict.screen.terminal import Screen
from dojo.verdict.types import Tier
from tests.conftest import Grade, failures, told
from tests.test_build import in_two_parts, make

KATAS = catalog.katas()


def master(name: str) -> str:
    return read_text(KATAS[name].master)


def failed(verdict) -> list[str]:
    return [check.name.partition("::test_")[2] for check in failures(verdict)]


def test_other_names_fail_the_checks_of_names_and_no_other(graded: Grade) -> None:
    source = master("rmsnorm").replace("self.weight", "self.scale").replace("d_model", "dim")
    names = ["holds_exactly_the_parameters_of_the_contract", "constructor_takes_its_arguments_by_name"]
    assert failed(graded("rmsnorm", source, diagnose=False)) == names
    source = master("sdpa").replace("mask:", "attn_mask:").replace("-> Float", "-> Float", 1)
    source = source.replace("    acc = torch", "    mask = attn_mask\n    acc = torch", 1)
    assert failed(graded("sdpa", source, diagnose=False)) == ["optional_inputs_may_be_given_by_name"]


def test_parameters_of_one_shape_are_not_guessed_at(graded: Grade) -> None:
    source = master("mha").replace("k_proj", "key").replace("v_proj", "value")
    assert "values_match_the_definition" in failed(graded("mha", source, diagnose=False, keyword="values_match"))


def test_a_query_without_keys_is_no_matter_of_core(graded: Grade) -> None:
    source = master("sdpa").replace("torch.finfo(acc).min", "-torch.inf")
    source = source.replace("weights.masked_fill(~mask, 0.0)", "weights")
    verdict = graded("sdpa", source, diagnose=False)
    assert verdict.tiers == {"core": "passed", "robust": "failed", "fast": "passed"}
    assert "in practice: A padded batch turns into nan" in told(verdict)


def test_tables_may_come_from_numpy_and_the_computation_may_not(graded: Grade) -> None:
    source = master("absolute_positions")
    at_construction = source.replace(
        "        super().__init__()",
        "        import numpy\n        torch.as_tensor(numpy.ones(2))\n        super().__init__()",
    )
    assert graded("absolute_positions", at_construction).verdict == "passed"
    at_the_call = source.replace(
        "        return (x + self.table",
        "        import numpy\n        torch.as_tensor(numpy.ones(2))\n        return (x + self.table",
    )
    assert at_the_call != source
    verdict = graded("absolute_positions", at_the_call, diagnose=False)
    assert "the computation on inputs stays in PyTorch" in told(verdict)


def test_picking_by_a_boolean_mask_is_no_loop(graded: Grade) -> None:
    branches = """
import torch
def _by_sign(x):
    out = torch.empty_like(x)
    out[x >= 0] = 1 / (1 + torch.exp(-x[x >= 0]))
    out[x < 0] = torch.exp(x[x < 0]) / (1 + torch.exp(x[x < 0]))
    return out
def sigmoid(x):
    return _by_sign(x.double()).to(x.dtype)
"""
    source = master("activations").replace("\ndef sigmoid(", "\ndef _other(") + branches
    for seed in range(12):
        verdict = graded("activations", source, seed=seed, keyword="TestSigmoid and operation_count")
        assert verdict.verdict == "passed", told(verdict)


@pytest.mark.parametrize("name", KATAS)
def test_every_robust_check_says_what_goes_wrong_in_practice(name: str) -> None:
    silent = []
    for check, method in topics.checks(KATAS[name]).items():
        tiers = {mark.name for mark in getattr(method, "pytestmark", [])}
        if Tier.ROBUST in tiers and not method.__doc__:
            silent.append(check)
    assert not silent


GRADER = """
class TestDouble:
    name = "double"
    holds = {"Odd numbers": ("test_odd",)}
    def test_odd_numbers_become_even(self): ...
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", []),
        ('("test_odd",)', '("test_even",)', ["no check holds the topic 'Odd numbers'", "no topic holds", "begins so"]),
        ('"Odd numbers": (', '"Odd": (', ["no check holds the topic 'Odd numbers'", "the contract has no topic 'Odd'"]),
        (
            "    def test_odd",
            "    def test_more(self): ...\n    def test_odd",
            ["no topic holds TestDouble::test_more"],
        ),
    ],
)
def test_every_topic_has_a_check_and_every_own_check_a_topic(
    old: str, new: str, said: list[str], tmp_path: Path
) -> None:
    kata = make(tmp_path)
    kata.grader.parent.mkdir(parents=True)
    kata.grader.write_text(GRADER.replace(old, new))
    assert topics.faults(kata) == [], "a statement in one part has no topics"
    in_two_parts(kata, ["- **Odd numbers.** They become even."])
    found = topics.faults(kata)
    assert len(found) == len(said), found
    for words, fault in zip(said, found, strict=True):
        assert words in fault


def test_a_topic_is_proven_by_a_wrong_attempt_that_fails_a_check_of_it() -> None:
    softmax = KATAS["softmax"]
    check = "Testsoftmax::test_a_row_of_only_minus_infinity_gives_nan"
    unproven = topics.unproven(softmax, {"some attempt": [f"{check}[deep]"]})
    assert [fault for fault in unproven if "Empty rows" in fault] == []
    assert "graders/basics/softmax/contract.py: no wrong attempt fails a check of the topic 'Extremes'" in unproven


def test_what_fails_is_told_by_its_topic(graded: Grade) -> None:
    source = master("softmax")
    verdict = graded("softmax", source.replace("(exp / total)", "torch.nan_to_num(exp / total)"))
    (check,) = (check for check in verdict.checks if not check.outcome.harmless)
    assert (verdict.standing, verdict.lacking, check.to_json()["topic"]) == ("right", ["Empty rows"], "Empty rows")
    stream = io.StringIO()
    Screen(stream).verdict(verdict)
    assert "  ✗ robust · Empty rows · softmax: must hold: a row of only minus infinity gives nan" in stream.getvalue()
    assert "\nsoftmax: right · robust 15 of 16: Empty rows · " in stream.getvalue()


@pytest.mark.parametrize("name", KATAS)
def test_statement_and_checks_say_the_same(name: str) -> None:
    assert not topics.faults(KATAS[name])
