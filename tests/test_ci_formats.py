"""What a CI is told: JUnit XML, a GitHub workflow's annotations and the summary of its job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dojo.cli import main
from dojo.content import catalog, proofs
from dojo.content.catalog import ROOT
from dojo.content.master import read_text
from dojo.verdict.page import github, junit
from dojo.verdict.page.findings import Finding, findings
from dojo.verdict.types import Check, Label, Outcome, Section, Tier, Verdict
from tests.conftest import Grade

# Of junit-10.xsd, which Jenkins and pytest hold such files to: an element's children, and its attributes, those that it
# must have marked by an exclamation mark.
JUNIT = {
    "testsuites": ("testsuite", "name time tests failures errors"),
    "testsuite": (
        "testsuite properties testcase system-out system-err",
        "name! tests! failures! errors! group time skipped timestamp hostname id package file log url version",
    ),
    "properties": ("property", ""),
    "property": ("", "name! value!"),
    "testcase": ("skipped error failure system-out system-err", "name! time classname group"),
    "failure": ("", "type message"),
    "error": ("", "type message"),
    "skipped": ("", "type message"),
}

RAISED = Outcome.CRASHED
HEAD = "import torch\nfrom torch import Tensor\n\n\n"
ATTEMPTS = {
    "raises": ("def help(x):\n    return x.foo()\n\n\ndef softmax(x, dim=-1):\n    return help(x)\n", 6, RAISED),
    "forbidden": ("def softmax(x, dim=-1):\n    x = x * 1\n    return torch.softmax(x, dim)\n", 7, Outcome.FORBIDDEN),
    "wrong": ("def other():\n    pass\n\n\ndef softmax(x, dim=-1):\n    return x.exp() * 2\n", 9, Outcome.WRONG),
    "no Python": ("def softmax(x\n    return x\n", 5, None),
    "raises at import": ("a = 1\n1 / 0\n", 6, None),
    "lacks a name": ("def soft_max(x, dim=-1):\n    return x\n", 1, None),
}  # fmt: skip


def held_to_junit(text: str) -> ElementTree.Element:
    """The root of a file that is what the schema asks for."""
    root = ElementTree.fromstring(text)
    for element in root.iter():
        children, attributes = (words.split() for words in JUNIT[element.tag])
        assert {child.tag for child in element} <= set(children), element.tag
        assert set(element.keys()) <= {name.strip("!") for name in attributes}, element.keys()
        assert all(name.strip("!") in element.attrib for name in attributes if name.endswith("!"))
        if element.tag == "testsuite":
            cases = element.findall("testcase")
            assert element.get("tests") == str(len(cases))
            assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    return root


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_fault_is_found_at_its_line(graded: Grade, name: str) -> None:
    source, line, outcome = ATTEMPTS[name]
    source = HEAD + source if name != "lacks a name" else source
    verdict = graded("softmax", source, "class/my file.py", tier="core")
    found = findings(verdict, source)
    assert (line, outcome) in [(each.line, each.outcome) for each in found]
    assert all(each.path == "class/my file.py" and each.message for each in found)
    suite = held_to_junit(junit.of_run([verdict]))[0]
    assert int(suite.get("failures", 0)) >= 1


def test_what_a_module_computes_is_in_its_forward_and_one_mistake_is_one_finding(graded: Grade) -> None:
    kata = catalog.katas()["rmsnorm"]
    source = proofs.bugs(kata)[0].plant(read_text(kata.master))
    found = findings(graded("rmsnorm", source, tier="core"), source)
    assert len(found) == 1
    assert source.splitlines()[(found[0].line or 0) - 1].strip().startswith("def forward")
    assert found[0].message.startswith("equals “")
    assert "the same cause fails" in found[0].message


def made_up(outcome: Outcome, *said: str, verdict: str = "failed", attempt: str = "a.py", message: str = "") -> Verdict:
    sections = [Section(Label.EVENT, each) for each in said]
    checks = [
        Check("TestIt::test_a[x]", Tier.CORE, outcome, 0.5, sections),
        Check("TestIt::test_b", Tier.FAST, Outcome.PASSED),
    ]
    return Verdict("softmax", attempt, verdict, checks if verdict == "failed" else [], "cpu", "2.13.0", 1.0, 7, message)


def test_a_notebook_has_no_lines_and_a_stub_no_faults() -> None:
    (found,) = findings(made_up(Outcome.WRONG, attempt="a.ipynb"), "def It(): pass")
    assert found.line is None
    assert ",line=" not in github.annotated([found])[0]
    empty = made_up(Outcome.WRONG, verdict="empty", message="write your answer in a.py")
    assert findings(empty, "") == []
    assert held_to_junit(junit.of_run([empty])).find(".//skipped") is not None


def test_a_grader_error_is_told_of_the_run_and_of_no_line() -> None:
    verdict = made_up(Outcome.GRADER_ERROR, "our fault")
    assert findings(verdict, "") == []
    assert held_to_junit(junit.of_run([verdict])).find(".//error") is not None


def test_anything_that_an_attempt_says_can_be_written() -> None:
    verdict = made_up(Outcome.CRASHED, "a\x00b\x1b[31m\ud800 ]]> <&> ::error::")
    assert findings(verdict, "(" * 100_000)
    root = held_to_junit(junit.of_run([verdict]).encode("utf-8").decode())
    assert "]]> <&>" in (root.findtext(".//failure") or "")


def test_an_annotation_is_one_line_that_nothing_in_it_ends() -> None:
    found = Finding("a,b:c.py", 3, "100 %: it\nis", "one\r\ntwo 5 %", Outcome.SLOW)
    assert github.annotated([found]) == [
        "::warning file=a%2Cb%3Ac.py,line=3,title=100 %25%3A it%0Ais::one%0D%0Atwo 5 %25"
    ]
    assert len(github.annotated([found] * 30)) == 10, "a step shows no more"


def test_a_summary_is_a_table_and_the_causes() -> None:
    verdict = made_up(Outcome.CRASHED, "raised <b> ```")
    told = github.summary([verdict, made_up(Outcome.PASSED, verdict="empty")], findings(verdict, ""))
    assert "| softmax | ❌ wrong | 0 of 1 |  | 1 of 1 |" in told
    assert "| softmax |  not started |  |  |  |" in told
    assert "<summary>softmax: It: a (x): crashed</summary>" in told
    assert "````text\nraised <b> ```\n````" in told


def test_a_folder_is_graded_for_a_workflow(tmp_path: Path) -> None:
    """As in a template repository: by kata folders, and no attempt prints a workflow command."""
    folder, summary = tmp_path / "katas" / "basics", tmp_path / "summary.md"
    folder.mkdir(parents=True)
    (folder / "softmax.py").write_text("print('::add-mask::e')\nprint('::error::I passed')\n1 / 0\n")
    mask = read_text(catalog.katas()["causal_mask"].master).replace("def causal_mask(", "def mask(")
    (tmp_path / "sdpa.py").write_text(mask)  # what another of the folder's files may import
    (tmp_path / "causal_mask.py").write_text("from katas.sdpa import mask as causal_mask\n")
    words = [
        "grade",
        "softmax",
        "causal_mask",
        "--attempt",
        ".",
        "--tier",
        "core",
        "--github",
        "--junit",
        "j.xml",
    ]
    environment = os.environ | {"DOJO_ROOT": str(ROOT), "PYTHONPATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(summary)}
    command = [sys.executable, "-m", "dojo", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    token = lines[0].removeprefix("::stop-commands::")
    end = lines.index(f"::{token}::")
    assert not any(line.lstrip().startswith("::") for line in lines[1:end])
    assert lines[end + 1].startswith("::error file=katas/basics/softmax.py,line=3,title=softmax%3A cannot be graded::")
    assert "| causal_mask | ☑️ right |" in summary.read_text("utf-8")
    assert {suite.get("name") for suite in held_to_junit((tmp_path / "j.xml").read_text("utf-8"))} == {
        "softmax",
        "causal_mask",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--github", "--json", "-"], "--github prints to standard output"),
        (["rope", "--attempt", "."], "holds no attempt at rope: put it at katas/positions/rope.py, or at rope.py"),
    ],
)
def test_what_cannot_be_is_told(words: list[str], said: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = main.main(["grade", *words])
    except SystemExit as left:
        status = left.code
    assert status == 2
    assert said in capsys.readouterr().err
