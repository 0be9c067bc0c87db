"""Formulas as MathML: all of them convert, and no Markdown changes what is in them."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

import pytest

from dojo.content import mathml
from dojo.content.catalog import Kata, katas
from dojo.content.cells import read_text, split

pytest.importorskip("latex2mathml", reason="latex2mathml is part of the test extra")

CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "mover": 2, "munder": 2, "mroot": 2, "msubsup": 3, "munderover": 3}


def formulas(kata: Kata) -> list[re.Match[str]]:
    """Every formula of a master's prose, hints and answers too."""
    prose = "\n\n".join(cell.prose for cell in split(read_text(kata.master))[1] if cell.markdown)
    found = re.finditer(mathml.MATH, prose, flags=re.M | re.S)
    return [each for each in found if not each["code"]]


@pytest.mark.parametrize("kata", katas().values(), ids=lambda kata: kata.name)
def test_every_formula_of_every_master_converts(kata: Kata) -> None:
    for found in formulas(kata):
        made = mathml.of(found["display"] or found["inline"], display=bool(found["display"]))
        tree = ElementTree.fromstring(made)
        assert tree.tag == "math"
        for element in tree.iter():
            assert len(element) == CHILDREN.get(element.tag, len(element)), f"<{element.tag}> in {found[0]}"
        shown = "".join(tree.itertext())
        assert shown.strip()
        assert not re.search(r"[\\$]|mathrm|frac\b|qquad", shown), f"TeX is left of {found[0]}: {shown}"


def test_a_word_is_one_element_and_not_its_letters() -> None:
    assert "<mi>softmax</mi>" in mathml.of(r"\mathrm{softmax}(x)")
    assert "<mi>x</mi><mi>y</mi>" in mathml.of("xy")


@pytest.mark.parametrize(
    ("latex", "spaces"), [(r"\ln 3", 1), (r"\log\pi_\theta", 1), (r"\sin(x)", 0), (r"\log_2 x", 0), (r"\cos^2 x", 0)]
)
def test_a_function_stands_apart_from_a_bare_argument(latex: str, spaces: int) -> None:
    assert mathml.of(latex).count("<mspace") == spaces


def test_nothing_in_a_formula_is_markdown_or_markup() -> None:
    made = mathml.of(r"\text{head\_dim} * a' < b [c] | d")
    text = re.sub(r"<[^>]*>", "", made)
    assert not re.search(r"[*_<>\[\]|`\\]", text)
    assert html.unescape(text).replace(" ", "") == "head_dim*a′<b[c]|d"


def test_code_stays_code_and_what_is_set_apart_is_a_region() -> None:
    text = "Cost `$a$ or $b$`, and $x$:\n\n$$y =\n1$$\n\n```\n$z$\n```"
    made = mathml.with_mathml(text + f"\n\nWide: ${' + '.join('abcdefghijklmno')}$.")
    assert "`$a$ or $b$`" in made
    assert "```\n$z$\n```" in made
    assert made.count("<math ") == 3
    assert made.count('class="formula in-line" role="group"') == 1  # a phone may have no room for it
    assert re.search(r'\n\n<span class="formula" [^\n]*tabindex="0"><math display="block">.*</math></span>\n\n', made)


@pytest.mark.parametrize("latex", [r"\unheardof{x}", r"\frac{a", "a}", r"\begin{cases} 1"])
def test_what_cannot_be_read_is_told_with_the_formula(latex: str) -> None:
    with pytest.raises(mathml.BadFormula, match=re.escape(repr(latex))):
        mathml.of(latex)
