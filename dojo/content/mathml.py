"""Formulas for pages: TeX as MathML, which browsers show without a script and screen readers read.

`MATH` says what a formula is in our Markdown; a terminal goes by it too (`verdict.screen.markdown`).
"""

from __future__ import annotations

import html
import re

CODE = r"(?P<code>^ *(```|~~~).*?^ *\2|(`+)(?!`).*?(?<!`)\3(?!`))"
LINE = r"(?:[^$\n]|\n(?!\s*\n))+?"  # of a paragraph: up to an empty line
MATH = rf"{CODE}|^(?P<before> *)\$\$(?P<display>{LINE})\$\$|\$(?P<inline>{LINE})\$"
LETTERS = re.compile(r'(?:<mi mathvariant="normal">[A-Za-z]</mi>){2,}')
FUNCTION = re.compile(r"(?<!<msub>)(?<!<msup>)<mi>(?:cos|exp|ln|log|sin|tanh)</mi>(?=<m(?!o))")  # of a bare argument
TEXT = re.compile(r"(?<=>)[^<]+(?=<)")
WIDE = 28  # characters of a formula within a line that a phone may have no room for


class BadFormula(ValueError):
    """TeX of which something would be left in the page as it stands."""


def of(latex: str, display: bool = False) -> str:
    """A formula as a `<math>` element in one line, in which no character means anything to Markdown.

    Raises BadFormula where a command is not known or a brace has no partner.
    """
    from latex2mathml.converter import convert

    source = " ".join(latex.split())
    braces = re.sub(r"\\.", "", source)
    if braces.count("{") != braces.count("}"):
        raise BadFormula(f"the formula {source!r} has a brace without its partner")
    try:
        made = convert(source, display="block" if display else "inline")
    except Exception as error:  # its own of many kinds, and IndexError
        raise BadFormula(f"the formula {source!r} cannot be read: {type(error).__name__} {error}") from error
    made = LETTERS.sub(lambda found: f"<mi>{''.join(TEXT.findall(found[0]))}</mi>", made)  # one word, not its letters
    made = FUNCTION.sub(r'\g<0><mspace width="0.167em" />', made)
    made = made.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")  # which HTML does not want
    return TEXT.sub(lambda found: _inert(found[0], source), made)


def with_mathml(markdown: str) -> str:
    """Markdown with each `$…$` and `$$…$$` outside of code as MathML; one that may be too wide scrolls by itself.

    Raises BadFormula.
    """

    def made(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        formula = of(found["display"] or found["inline"], display=bool(found["display"]))
        if found["inline"] and len(html.unescape("".join(TEXT.findall(formula)))) < WIDE:
            return formula
        # a region that scrolls must be reached by the keyboard, and then says what it is
        kind = "formula" if found["display"] else "formula in-line"
        box = f'<span class="{kind}" role="group" aria-label="Formula" tabindex="0">{formula}</span>'
        return (found["before"] or "") + box

    return re.sub(MATH, made, markdown, flags=re.M | re.S)


def _inert(text: str, source: str) -> str:
    """The text of an element with its punctuation as character references."""
    plain = html.unescape(text).replace(r"\_", "_")  # as \text{head\_dim} comes
    if "\\" in plain:
        raise BadFormula(f"the formula {source!r} holds {plain!r}, which is not known: write it in other commands")
    return re.sub(r"[!-/:-@\[-`{-~]", lambda found: f"&#{ord(found[0])};", plain)
