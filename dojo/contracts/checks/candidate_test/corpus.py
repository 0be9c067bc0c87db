"""What a test is judged by: programs as it meets them, the kinds of mistakes, and how many lines a fix changed."""

from __future__ import annotations

import ast
import difflib
import re
from functools import lru_cache

from dojo.content.master import definitions
from dojo.content.proofs import TEST

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


def kind_of(mistake: str) -> str:
    """What a mistake is about, in the field's word for it."""
    return next((kind for kind, words in KINDS.items() if re.search(words, mistake)), "other")


@lru_cache(maxsize=256)
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
