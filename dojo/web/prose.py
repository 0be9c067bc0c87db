"""The Markdown of masters and docs as HTML: formulas as MathML, and no markup but what Markdown itself makes."""

from __future__ import annotations

import html
from functools import cache
from typing import TYPE_CHECKING, Any

from dojo.content import mathml

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def of(markdown: str) -> str:
    """Markdown as HTML; what looks like markup in it is shown as text."""
    made: str = _converter().render(markdown)
    return made


def inline(markdown: str) -> str:
    """One line of Markdown as HTML without a paragraph around it."""
    made: str = _converter().renderInline(markdown)
    return made


@cache
def _converter() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    def formula(content: str, how: dict[str, Any]) -> str:
        try:
            made = mathml.of(content, display=how["display_mode"])
        except mathml.BadFormula:  # for the project's tests to find; a reader sees its source
            return f"<code>{html.escape(content)}</code>"
        # a region that scrolls must be reached by the keyboard, and then says what it is
        box = '<span class="formula" role="group" aria-label="Formula" tabindex="0">'
        return f"{box}{made}</span>" if how["display_mode"] else made

    return (
        MarkdownIt("commonmark", {"html": False})
        .enable("table")
        .use(dollarmath_plugin, renderer=formula, allow_space=False, double_inline=True)
    )
