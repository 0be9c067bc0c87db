"""Verdicts as HTML: the one environment of all templates, and the page about one grading.

Whatever a template is given comes out as text: it may be what an attempt has printed or a student's name. No template
marks anything as safe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dojo.verdict.causes import shared_by
from dojo.verdict.page import heatmap
from dojo.verdict.screen.text import readable
from dojo.verdict.types import HARMLESS, UNSHOWN, Verdict, state_in


def render(template: str, **values: object) -> str:
    """The text of a template, which is named by its path in the package, as in `verdict/page/run.html`.

    A value that the template asks for and does not get is an error.
    """
    return TEMPLATES.get_template(template).render(values)


def title_of_run(verdicts: Sequence[Verdict]) -> str:
    """The title of a page about one grading."""
    if len(verdicts) == 1:
        return f"dojo: {verdicts[0].kata} {verdicts[0].state}"
    return f"dojo: {sum(verdict.verdict == 'passed' for verdict in verdicts)} of {len(verdicts)} katas passed"


def of_run(verdicts: Sequence[Verdict]) -> str:
    """The page about one grading."""
    details = shown(verdict.to_json(pictures=True) for verdict in verdicts)
    return render("verdict/page/run.html", title=title_of_run(verdicts), verdicts=details)


def shown(verdicts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Verdicts as `Verdict.to_json` writes them, with what a page says of each.

    The first has a legend if any has pictures. One of which nothing is remembered is left out.
    """
    found = [_shown(details) for details in verdicts if details]
    if any(check.get("picture") for details in found for check, _ in details["failures"]):
        found[0]["legend"] = True
    return found


def _shown(details: dict[str, Any]) -> dict[str, Any]:
    checks = details.get("checks", [])
    bad = [check for check in checks if check["outcome"] not in HARMLESS]
    state = state_in(details)
    helped = f" {details['help']}" if details.get("help") and state == "passed" else ""
    return details | {
        "title": f"{details['kata']}: {state}{helped}, {len(checks) - len(bad)} of {len(checks)} checks passed",
        "css": css_class(state),
        "message": details.get("message") or "Every check passed.",
        "failures": by_cause(bad),
        "legend": False,
    }


def by_cause(checks: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Failed checks, as `Check.to_json` writes them: each that tells a cause, and those that share it."""
    tellers = {check["name"]: check for check in checks if check.get("cause") in (None, check["name"])}
    return [
        (teller, [check for check in checks if check.get("cause") == name and check is not teller])
        for name, teller in tellers.items()
    ]


def css_class(state: str) -> str:
    """The class that colours a verdict or its state."""
    return {"passed": "ok", "wrong": "bad", "broken": "bad"}.get(state, "none")


def _laid_out(picture: dict[str, Any]) -> dict[str, Any]:
    """A picture as `heatmap.picture` makes it, to be shown; the worst element in words, for who cannot see them."""
    rows, columns = (name or "" for name in picture["axes"])
    at = ", ".join(f"{name} {index}" for name, index in picture["at"].items())
    r, c = (at - first for at, first in zip(picture["worst"], picture["first"], strict=True))
    height, width = len(picture["error"]), len(picture["error"][0])
    size = max(8, min(22, 280 // width))
    return {
        "axes": f"{rows or 'one row'} ↓ {columns} →" + (f", {at}" if at else ""),
        "worst": f"worst element: expected {picture['expected'][r][c]}, got {picture['got'][r][c]}",
        "beyond": heatmap.beyond(picture),
        "images": heatmap.images(picture),
        "width": width * size,
        "height": height * size,
        "json": json.dumps(picture),
    }


def _without_controls(value: object) -> object:
    """What a template puts out: of a text, control characters as their escapes. Markup of a macro has been here."""
    return value.translate(UNSHOWN) if type(value) is str else value


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[2]),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_without_controls,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "css_class": css_class,
    "laid_out": _laid_out,
    "percent": "{:.0%}".format,
    "readable": readable,
    "shared_by": shared_by,
    "tenths": "{:.1f}".format,
}
TEMPLATES.globals |= {
    "NOT_FINITE": heatmap.NOT_FINITE,
    "WITHIN": heatmap.WITHIN,
    "now": lambda: datetime.now().strftime("%Y-%m-%d %H:%M"),
}
