"""A verdict as a piece of HTML for a notebook: tiers as a table, failures with words and pictures, no script."""

from __future__ import annotations

from dojo.verdict.page.html import by_cause, css_class, render
from dojo.verdict.types import Tier, Verdict


def verdict_html(verdict: Verdict) -> str:
    """The whole verdict."""
    seen = verdict.selected
    failed = [check for check in seen if not check.outcome.harmless]
    tiers = {tier: [check for check in seen if check.tier is tier] for tier in Tier}
    return render(
        "notebook/verdict.html",
        verdict=verdict,
        css=css_class(verdict.state),
        helped=f" {verdict.help}" if verdict.help and verdict.verdict == "passed" else "",
        counted=f", {len(seen) - len(failed)} of {len(seen)} checks" if seen else "",
        tiers={tier: checks for tier, checks in tiers.items() if checks},
        failed=by_cause([check.to_json(pictures=True) for check in failed]),
    )
