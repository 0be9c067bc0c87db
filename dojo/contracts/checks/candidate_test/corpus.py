"""The right and wrong attempts at a kata that the project holds, and what is taken of them to judge a test.

A right attempt is a file `tests/attempts/TRACK/KATA/STYLE.py`. It may build on another one, as a candidate pastes what
was written before: a line `# with TRACK/KATA/STYLE` stands for that file's text. Where styles differ in a line or two
they are rows of `tests/attempts/TRACK/KATA.txt`: edits of the solution, in the form of a grader's table of bugs. Where
the kata asks for a test, files without one are no attempts, but right programs that every test must accept: they may
have other parameters than the program that is to be mended.

A mistake is a row of `tests/mistakes/TRACK/KATA.txt`: edits of the solution, in the form of a grader's table of bugs,
or of a right attempt that the note names (`[of STYLE]`). The few that are no edit of either are files beside it,
`tests/mistakes/TRACK/KATA/NAME.py`.
"""

from __future__ import annotations

import ast
import difflib
import re
from pathlib import Path

from dojo.content.catalog import Kata
from dojo.content.master import definitions, names, read_text
from dojo.contracts.checks.known_bugs import Bug, table

TEST = "test"  # what an attempt calls it
KINDS = {  # of mistakes, by words of their names; the first that fits
    "masking": r"mask|causal|attend to|triangle|diagonal|padding|later token|\bdead\b",
    "caching": r"cache|prefill",
    "positions": r"position|rotat|pairs?\b|angle|frequenc|offset|theta|slope|distance",
    "scaling": r"scale|square root|sqrt|head_dim instead|temperature|width of",
    "softmax": r"softmax|exponent|maximum|logit",
    "norms": r"norm|\beps|mean|varian|deviation|square",
    "training": r"gradient|detach|graph|dropout|\bdrop|loss|label|step|evaluat|training",
    "heads": r"\bheads?\b|group",
    "projections": r"project|weight|bias|stored|transpose|context|keys|values|queries|gate|hidden|activation|gelu|silu",
}


def right_attempts(kata: Kata) -> dict[str, str]:
    """The right attempts at a kata, by style."""
    asked = TEST in names(kata)
    return {style: source for style, source in _right(kata).items() if not asked or _has_test(source)}


def right_programs(kata: Kata) -> dict[str, str]:
    """The right programs that a test must accept, by style."""
    return {style: source for style, source in _right(kata).items() if not _has_test(source)}


def _has_test(source: str) -> bool:
    return re.search(rf"^def {TEST}\(", source, re.MULTILINE) is not None


def _right(kata: Kata) -> dict[str, str]:
    folder = kata.root / "tests" / "attempts"
    found = {path.stem: _whole(path, folder) for path in sorted((folder / kata.track / kata.name).glob("*.py"))}
    rows = _rows(folder, kata)
    return found | {row.name.replace(" ", "_"): row.plant(read_text(kata.master)) for row in rows}


def mistakes(kata: Kata) -> dict[str, str]:
    """Wrong attempts at a kata, by what is wrong with them."""
    folder, attempts = kata.root / "tests" / "mistakes", kata.root / "tests" / "attempts"
    files = sorted((folder / kata.track / kata.name).glob("*.py"))
    found = {path.stem.replace("_", " "): _whole(path, attempts) for path in files}
    for row in _rows(folder, kata):
        style = row.note.removeprefix("of ")
        found[row.name] = row.plant(right_attempts(kata)[style] if style else read_text(kata.master))
    return found


def _rows(folder: Path, kata: Kata) -> list[Bug]:
    path = folder / kata.track / f"{kata.name}.txt"
    return table(path.read_text("utf-8")) if path.exists() else []


def _whole(path: Path, attempts: Path) -> str:
    """A candidate's file with what it builds on."""
    return re.sub(
        r"^# with (\S+)$",
        lambda line: _whole(attempts / f"{line[1]}.py", attempts),
        path.read_text("utf-8"),
        flags=re.MULTILINE,
    )


def kind_of(mistake: str) -> str:
    """What a mistake is about, in the field's word for it."""
    return next((kind for kind, words in KINDS.items() if re.search(words, mistake)), "other")


def program(source: str, test: str = TEST) -> str:
    """A source as a test meets it: without the test itself, comments and docstrings."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if getattr(node, "name", "") != test] or [ast.Pass()]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    return ast.unparse(tree)


def changed_lines(before: str, after: str, names: list[str]) -> int:
    """How many lines of what these names need were changed, added or taken out."""
    old, new = (_lines(source, names) for source in (before, after))
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for word, i1, i2, j1, j2 in blocks if word != "equal")


def _lines(source: str, names: list[str]) -> list[str]:
    found = definitions(names, [program(source)])[1]
    return [line for _, node in found.values() for line in ast.unparse(node).split("\n")]
