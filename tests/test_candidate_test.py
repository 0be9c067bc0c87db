"""Attempts with two parts, a mended program and a test of it: good tests pass, and bad ones end in their sentences."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dojo.content import catalog, master
from dojo.content.catalog import Kata
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge.fork_server import ForkServer
from dojo.verdict.types import Outcome, Verdict
from tests.conftest import SEED, failures, on_core, told

HERE = Path(__file__).parent
TESTS = HERE / "tests_of_candidates"
GOOD = (TESTS / "good.py").read_text()

# A made-up kata: RMSNorm with two bugs in its stub.
HANDED_OUT = {
    "mean_square = wide.square().mean(dim=-1, keepdim=True)": "wide.square().sum(dim=-1, keepdim=True)",
    "normed = wide * torch.rsqrt(mean_square + self.eps)": "wide * torch.rsqrt(mean_square)",
}
GRADER = '''
from dojo.contracts import CandidateTest


class Testtest(CandidateTest):
    planted = ("the sum of squares instead of their mean", "no eps")
    but = (  # a test sees no dtype inside, and not how a weight starts
        "squared in half precision", "the root rounded to half precision", "the result left in float32",
        "weight starts as zeros", "an explicit dtype ignored", "eps 1e-6 instead of 1e-5", "eps 1e-8 instead of 1e-5",
    )
    mutants = """
half of the root  [scaling]
    the root of the mean square, and nothing else, is what is divided by.
    normed = wide *  →  normed = 0.5 * wide *
"""
'''


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Kata:
    """The made-up kata, in a project of its own."""
    root = tmp_path_factory.mktemp("example")
    kata = catalog.katas()["rmsnorm"]
    text = master.read_text(kata.master)
    for right, wrong in HANDED_OUT.items():
        name = right.partition(" = ")[0]
        marked = f"### BEGIN SOLUTION\n        {right}\n        ### HANDED OUT\n        # {name} = {wrong}\n"
        text = text.replace(f"        {right}\n", f"        {marked}        ### END SOLUTION\n")
    head, _, rest = text.partition("        wide = ")
    body, _, tail = rest.partition("        ### END SOLUTION\n\n\n# %% [markdown]")
    text = head.replace("        ### BEGIN SOLUTION\n", "").replace("        ### END SOLUTION\n", "")
    answer = GOOD.partition("def test(program):\n")[2]
    text += (
        f"        wide = {body}\n\n# %%\ndef test(program):\n    ### BEGIN SOLUTION\n{answer}    ### END SOLUTION\n\n\n"
    )
    places = {
        "solutions": text + "# %% [markdown]" + tail,
        "graders": master.read_text(kata.grader) + GRADER,
        "katas": "",
    }
    for folder, content in places.items():
        (root / folder / "basics").mkdir(parents=True)
        (root / folder / "basics" / "rmsnorm.py").write_text(content)
    attempts = HERE / "attempts" / "basics"
    shutil.copytree(attempts / "rmsnorm", root / "tests" / "attempts" / "basics" / "rmsnorm")
    shutil.copy(attempts / "rmsnorm.txt", root / "tests" / "attempts" / "basics")
    return catalog.katas(root)["rmsnorm"]


def grade(kata: Kata, source: str, server: ForkServer, core: int | None, **options: object) -> Verdict:
    entry = Entry(kata, source, "attempt.py", "nox -s grade -- rmsnorm --attempt attempt.py")
    with on_core(core):
        return run([entry], Options(**{"seed": SEED} | options), server)[0]


def test_the_stub_is_the_program_with_its_bugs(example: Kata) -> None:
    stub = master.stub_text(example)
    assert "mean_square = wide.square().sum(dim=-1, keepdim=True)" in stub
    assert "rsqrt(mean_square)" in stub
    assert "HANDED" not in stub + master.solution_code(master.read_text(example.master))
    assert stub.count("raise NotImplementedError") == 1
    assert master.names(example) == ["RMSNorm", "test"]


def test_a_mended_program_with_a_good_test_passes(example: Kata, server: ForkServer, core: int | None) -> None:
    source = master.solution_code(master.read_text(example.master))
    verdict = grade(example, source, server, core, keyword="Testtest")
    assert verdict.verdict == "passed", told(verdict)
    assert [check.outcome for check in verdict.checks].count(Outcome.PASSED) >= 15
    assert verdict.remarks[0] == "the fix changes 2 lines of the program that was handed out"
    assert verdict.remarks[1].startswith("the test rejects 1")


def test_the_program_handed_out_with_a_good_test_fails(example: Kata, server: ForkServer, core: int | None) -> None:
    stub = master.stub_text(example).partition("def test")[0]
    verdict = grade(example, f"{stub}\n{GOOD}", server, core, tier="core")
    said = told(verdict)
    assert "`test` accepts the mended program that it stands beside" in said
    assert "RMSNorm::test_values_match_the_definition" in said
    assert {check.name for check in failures(verdict) if "Testtest" in check.name} == {
        "Testtest::test_accepts_the_program_beside_it"
    }
