"""A card to share: one verdict as an SVG of its own, which says nothing about its owner."""

from __future__ import annotations

from html import escape

from dojo.verdict.types import PASSED, Check, Tier, Verdict

WIDTH, HEIGHT, MARGIN, GAP = 640, 336, 40, 16
TILE = (WIDTH - 2 * MARGIN - 2 * GAP) / 3
STYLE = """
svg { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
.card { fill: #fdfcf9; stroke: #d9d4c7 } .tile { fill: #f1eee6 } .rail { fill: #d9d4c7 }
.strong { fill: #1d2430 } .quiet { fill: #5b6472 } .good { fill: #17703c } .part { fill: #8a5a00 }
@media (prefers-color-scheme: dark) {
  .card { fill: #161b22; stroke: #3d444d } .tile { fill: #212830 } .rail { fill: #3d444d }
  .strong { fill: #f0f3f6 } .quiet { fill: #aab4c0 } .good { fill: #4cc978 } .part { fill: #e3a73f }
}
"""  # each colour on its ground has a contrast of 4.5 and more


def worth_sharing(verdict: Verdict) -> bool:
    """Whether there is something to show: a pass, or a core tier that is right."""
    return verdict.verdict in ("passed", "failed") and verdict.tiers.get(Tier.CORE) == "passed"


def of(verdict: Verdict, title: str, level: int, par: int, minutes: float | None) -> str:
    """The card of a verdict, the help that it had included.

    `minutes` is what the kata took its user, None when nobody has seen it begin.
    """
    lacking = [tier for tier, word in verdict.tiers.items() if word != "passed"]
    said, css = verdict.state, "good" if verdict.standing == PASSED else "part"
    if lacking:
        said += f"; not yet {' and '.join(lacking)}"
    if verdict.help:
        said, css = f"{said}{',' * bool(lacking)} {verdict.help}", "part"
    time = f"{minutes:.0f} min, par {par} min" if minutes is not None else f"par {par} min"
    tiles = [_tile(tier, i, verdict.checks) for i, tier in enumerate(Tier)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title">',
        f'<title id="title">{escape(f"{title}: {said}, {time}")}</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="18" stroke-width="2"/>',
        _text(MARGIN, 58, 17, "quiet", f"dojo · {verdict.kata}"),
        _text(WIDTH - MARGIN, 58, 17, "quiet", f"level {level} of 5", anchor="end"),
        _text(MARGIN, 108, min(34, 860 // max(1, len(title))), "strong", title, weight=700),
        _text(
            MARGIN,
            144,
            min(21, 1080 // len(said)),
            css,
            f"✓ {said}" if verdict.standing == PASSED else said,
            weight=600,
        ),
        *tiles,
        _text(MARGIN, 302, 19, "strong", time, weight=600),
        _text(WIDTH - MARGIN, 302, 17, "quiet", "katas of the language model", anchor="end"),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _tile(tier: Tier, place: int, checks: list[Check]) -> str:
    """A tier: how many of its checks hold, and a bar of as much."""
    mine = [check for check in checks if check.tier is tier]
    held, x, room = sum(check.outcome.harmless for check in mine), MARGIN + place * (TILE + GAP), TILE - 32
    whole = held == len(mine)
    return "\n".join(
        [
            f'<rect class="tile" x="{x:.0f}" y="168" width="{TILE:.0f}" height="92" rx="10"/>',
            _text(x + 16, 196, 17, "quiet", tier.value),
            _text(x + 16, 226, 21, "good" if whole else "part", f"{held} of {len(mine)}", weight=700),
            f'<rect class="rail" x="{x + 16:.0f}" y="238" width="{room:.0f}" height="6" rx="3"/>',
            f'<rect class="{"good" if whole else "part"}" x="{x + 16:.0f}" y="238" '
            f'width="{room * held / max(1, len(mine)):.0f}" height="6" rx="3"/>',
        ]
    )


def _text(x: float, y: int, size: int, css: str, words: str, weight: int = 400, anchor: str = "start") -> str:
    return (
        f'<text class="{css}" x="{x:.0f}" y="{y}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )
