"""Shows Markdown: on a terminal as a page in the terminal's own colours, elsewhere as it is written.

Formulas are Unicode in both. Rich is imported only where it will be used.
"""

from __future__ import annotations

import os
import pydoc
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content.master import ARXIV, linked
from dojo.content.mathml import MATH
from dojo.verdict.screen.formulas import in_unicode

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

PAGED = "DOJO_PAGED"  # names a file that is made once a pager has shown something, and was left
WIDTH = 100  # of a page: longer lines are hard to read
FORMULAS = "formulas"  # as the language of a code block: in it nothing is Markdown
# Of the eight colours that every terminal has, magenta alone can be read on black and on white.
STYLES = {
    "markdown.h1": "bold underline",
    "markdown.h2": "bold underline",
    "markdown.h3": "bold",
    "markdown.code": "magenta",
    "markdown.code_block": "none",
    "markdown.item.bullet": "bold",
    "markdown.item.number": "bold",
    "markdown.link_url": "underline",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}


def plain(text: str, encoding: str = "utf-8") -> str:
    """The same Markdown with its formulas in Unicode, as far as an encoding goes; those set apart are indented."""

    def rendered(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        if found["display"]:
            formula = textwrap.indent("\n".join(_lines(found["display"])), found["before"] + 4 * " ")
        else:
            formula = in_unicode(found["inline"])
        return formula if formula == formula.encode(encoding, "ignore").decode(encoding) else found[0]

    return re.sub(MATH, rendered, text, flags=re.M | re.S)


def show(text: str, console: Console, width: int, paged: bool = False, code: str = "") -> None:
    """Print a page, above it code as it is to be copied; with `paged` in a pager, if it is longer than the screen."""
    from rich.theme import Theme

    styles = STYLES | ({"markdown.code": "italic"} if console.no_color else {})
    with console.use_theme(Theme(styles)), console.capture() as printed:
        if code:
            console.print(highlighted(code), "", sep="\n", soft_wrap=True)  # lines that the terminal breaks are whole
        console.print(_page(text), width=min(width, WIDTH))
    text = re.sub(r" +$", "", printed.get(), flags=re.M)
    if paged:
        page(text, console)
    else:
        console.file.write(text)
        console.file.flush()


def page(text: str, console: Console) -> None:
    """Write a text, in the user's pager if it is longer than the screen: who called may ask whether it was."""
    if text.count("\n") < console.height:
        console.file.write(text)
        console.file.flush()
        return
    os.environ.setdefault("LESS", "FRX")  # as git has it: colours, and the page stays when less ends
    pydoc.pager(text)
    if os.environ.get(PAGED) and os.environ.get("PAGER") != "cat":
        Path(os.environ[PAGED]).touch()


def highlighted(code: str, language: str = "python") -> Text:
    """Code in weights, slopes and one colour, without a background."""
    from pygments.token import Comment, Keyword, Name, Operator, String
    from rich.style import Style
    from rich.syntax import ANSISyntaxTheme, Syntax

    word, name, aside = Style(color="magenta"), Style(bold=True), Style(italic=True)
    theme = {Keyword: word, Operator.Word: word, Name.Class: name, Name.Function: name, String: aside, Comment: aside}
    text = Syntax("", language, theme=ANSISyntaxTheme(theme)).highlight(code.rstrip())
    text.rstrip()
    return text


def _lines(display: str) -> list[str]:
    """The formulas of a display, one a line: a comma and a wide space part them."""
    return [in_unicode(part) for part in re.split(r",\s*\\q?quad\b", display)]


def _page(text: str) -> RenderableType:
    from rich.markdown import CodeBlock, Heading, Markdown
    from rich.padding import Padding
    from rich.text import Text

    class Block(CodeBlock):
        """A code block, or formulas: neither has a background."""

        def __rich_console__(self, console, options):
            code = str(self.text).rstrip()
            formulas = self.lexer_name == FORMULAS
            shown = Text(code) if formulas else highlighted(code, self.lexer_name)
            shown.no_wrap, shown.overflow = False, "fold"  # nothing of a line is lost where the terminal is narrow
            yield Padding(shown, (0, 0, 0, 4))

    class Title(Heading):
        """A heading at the left, without a frame."""

        def __rich_console__(self, console, options):
            yield self.text

    class Page(Markdown):
        elements = Markdown.elements | {"fence": Block, "code_block": Block, "heading_open": Title}

    def rendered(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        if found["display"]:
            block = ["```" + FORMULAS, *_lines(found["display"]), "```"]
            return textwrap.indent("\n".join(block), found["before"])
        if found["inline"]:  # nothing in a formula is Markdown
            return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", in_unicode(found["inline"]))
        return linked(found[0])

    return Page(re.sub(f"{MATH}|{ARXIV.pattern}", rendered, text, flags=re.M | re.S))
