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
TEXT = re.compile(r"(?<=>)[^<]+(?=<)")


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
    made = made.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")  # which HTML does not want
    return TEXT.sub(lambda found: _inert(found[0], source), made)


def with_mathml(markdown: str) -> str:
    """Markdown with each `$…$` and `$$…$$` outside of code as MathML; one that is set apart can be scrolled by itself.

    Raises BadFormula.
    """

    def made(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        if found["display"]:
            # a region that scrolls must be reached by the keyboard, and then says what it is
            box = '<span class="formula" role="group" aria-label="Formula" tabindex="0">'
            return f"{found['before']}{box}{of(found['display'], display=True)}</span>"
        return of(found["inline"])

    return re.sub(MATH, made, markdown, flags=re.M | re.S)


def _inert(text: str, source: str) -> str:
    """The text of an element with its punctuation as character references."""
    plain = html.unescape(text).replace(r"\_", "_")  # as \text{head\_dim} comes
    if "\\" in plain:
        raise BadFormula(f"the formula {source!r} holds {plain!r}, which is not known: write it in other commands")
    return re.sub(r"[!-/:-@\[-`{-~]", lambda found: f"&#{ord(found[0])};", plain)
