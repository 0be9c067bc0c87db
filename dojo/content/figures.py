"""Draws the figures of lessons and explanations with matplotlib, which only who works on the project needs.

One picture serves a light page and a dark one: it has no background, lines and words are a gray that both show, and the
colors are the four of Okabe and Ito that have a contrast of 3 to white and to black.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from dojo.content import files, lessons
from dojo.content.catalog import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.typing import RcKeyType

    from dojo.content.catalog import Kata

GRAY = "#7a7a7a"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
STYLE: dict[RcKeyType, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GRAY),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"), "none"),
    "font.size": 11,
    "lines.linewidth": 2.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "path",  # the same everywhere
}


def draw_all(katas: Iterable[Kata], named: bool) -> int:
    """Draw what is stale, or all that is named, and say so."""
    drawn = 0
    for kata in katas:
        for figure in lessons.figures(kata):
            if named or figure.stale:
                files.write_atomic(figure.path, draw(kata, figure))
                print(f"drew {kata.say(figure.path)}", flush=True)
                drawn += 1
    print(f"{drawn} drawn; `build` puts them into the notebooks" if drawn else "no figure is stale")
    return 0


def draw(kata: Kata, figure: lessons.Figure) -> str:
    """A figure as SVG; the same code gives the same bytes. Raises Trouble without matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise Trouble("figures are drawn with matplotlib, and there is none here: `nox -s lab` installs it") from None
    matplotlib.use("agg")
    from matplotlib import pyplot, rcsetup

    style = STYLE | {"axes.prop_cycle": rcsetup.cycler(color=COLORS), "svg.hashsalt": kata.name}
    with matplotlib.rc_context(style):
        names = {"__name__": kata.name}
        for code in (figure.before, figure.code):  # the project's own
            exec(compile(code, figure.place, "exec"), names)
        written = io.StringIO()
        pyplot.gcf().savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        pyplot.close("all")
    text = re.sub(r"^.*?(?=<svg)", "", written.getvalue(), flags=re.DOTALL)  # what only a file by itself wants
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return text.replace(">", f">\n {figure.mark}", 1)
