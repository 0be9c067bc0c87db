"""Katas speak as a PyTorch engineer in America does, in all that a learner reads."""

from __future__ import annotations

import ast
import re

import pytest

from dojo.content import catalog, master

KATAS = catalog.katas()
INSTEAD = {
    r"turn(s|ed|ing)? (by|through)": "rotate",
    r"behind": "after",
    r"the way back|backwards pass": "backward",
    r"makes? room|room for": "allocates, a buffer",
    r"limited by (bandwidth|memory|launches|arithmetic)": "memory-bound, launch-bound, compute-bound",
    r"told|tells? apart": "named, reported",
    r"\w*(normal|initial|optim|general|summar|regular|vector|quant)is(e|ed|es|er|ers|ing|ation)": "-ize, -ization",
    r"\w*(behav|col|fav|neighb|harb)our\w*": "-or",
    r"centre[ds]?|centring": "center",
}


def texts(kata: catalog.Kata) -> str:
    """The prose of a master and the docstrings of its code."""
    source = master.read_text(kata.master)
    prose = [cell.prose for cell in master.split(source)[1] if cell.markdown]
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    code = re.compile(r"`[^`]*`|^```.*?^```|^Source: .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
    return code.sub("", "\n\n".join([*prose, *filter(None, map(ast.get_docstring, nodes))]))


@pytest.mark.parametrize("name", KATAS)
def test_a_kata_uses_the_words_of_the_field(name: str) -> None:
    text = texts(KATAS[name])
    found = {
        match[0]: word for odd, word in INSTEAD.items() for match in re.finditer(rf"\b({odd})\b", text, re.IGNORECASE)
    }
    assert not found, f"in {KATAS[name].say(KATAS[name].master)} say instead: {found}"
