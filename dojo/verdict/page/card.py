"""A card to share: one verdict as an SVG of its own, which says nothing about its owner."""

from __future__ import annotations

from dojo.verdict.page.html import render
from dojo.verdict.types import PASSED, Tier, Verdict


def worth_sharing(verdict: Verdict) -> bool:
    """Whether there is something to show: a pass, or a core tier that is right."""
    return verdict.verdict in ("passed", "failed") and verdict.tiers.get(Tier.CORE) == "passed"


def svg(verdict: Verdict, title: str, level: int, par: int, minutes: float | None) -> str:
    """The card of a verdict, the help that it had included.

    `minutes` is what the kata took its user, None when nobody has seen it begin.
    """
    lacking = [tier for tier, word in verdict.tiers.items() if word != "passed"]
    text, css = verdict.state, "good" if verdict.standing == PASSED else "part"
    if lacking:
        text += f"; not yet {' and '.join(lacking)}"
    if verdict.help:
        text, css = f"{text}{',' * bool(lacking)} {verdict.help}", "part"
    time = f"{minutes:.0f} min, par {par} min" if minutes is not None else f"par {par} min"
    return render(
        "verdict/page/card.svg",
        kata=verdict.kata,
        title=title,
        level=level,
        message=f"✓ {text}" if verdict.standing == PASSED else text,
        label=f"{title}: {text}, {time}",
        css=css,
        time=time,
        tiers=[(tier.value, *_held(verdict, tier)) for tier in Tier],
    )


def _held(verdict: Verdict, tier: Tier) -> tuple[int, int]:
    """How many of a tier's checks hold, and how many there are."""
    mine = [check for check in verdict.checks if check.tier is tier]
    return sum(check.outcome.harmless for check in mine), len(mine)
