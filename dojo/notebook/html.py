"""A verdict as a piece of HTML for a notebook: tiers as a table, failures with words and pictures, no script."""

from __future__ import annotations

from dojo.verdict.page.html import css_class, esc, failures
from dojo.verdict.screen.text import readable
from dojo.verdict.types import Check, Outcome, Tier, Verdict

STYLE = """<style>
.dojo { font-size: 14px; } .dojo table { border-collapse: collapse; } .dojo td, .dojo th { text-align: left;
  padding: 2px 10px; } .dojo .ok { color: #1a7f45; } .dojo .bad { color: #c5372c; } .dojo .none { opacity: .7; }
.dojo pre { white-space: pre-wrap; font-size: 12px; line-height: 1.35; } .dojo details { margin: 4px 0; }
.dojo summary { cursor: pointer; } .dojo .diagnosis { border-left: 3px solid #8a3ffc; padding-left: 8px; }
.dojo .maps { margin: 6px 0; } .dojo .maps > div { display: flex; flex-wrap: wrap; gap: 12px; }
</style>"""

MARKS = {True: '<span class="ok">✓</span>', False: '<span class="bad">✗</span>'}


def of(verdict: Verdict) -> str:
    """The whole verdict."""
    seen = [check for check in verdict.checks if check.outcome is not Outcome.DESELECTED]
    failed = [check for check in seen if not check.outcome.harmless]
    counted = f", {len(seen) - len(failed)} of {len(seen)} checks" if seen else ""
    helped = f" {verdict.help}" if verdict.help and verdict.verdict == "passed" else ""
    head = (
        f'<b>{esc(verdict.kata)}: <span class="{css_class(verdict.state)}">{esc(verdict.state)}</span>{helped}</b>'
        f"{counted} "
        f'<span class="none">in {verdict.seconds:.1f} s · {esc(verdict.device)} · torch {esc(verdict.torch)} · '
        f"seed {verdict.seed}</span>"
    )
    message = f"<pre>{esc(verdict.message)}</pre>" if verdict.message else ""
    tiers = [(tier, [check for check in seen if check.tier is tier]) for tier in Tier]
    rows = "".join(_tier(tier, checks) for tier, checks in tiers if checks)
    table = f'<table><tr><th scope="col">tier</th><th scope="col">passed</th></tr>{rows}</table>' if rows else ""
    details = failures([check.to_json(pictures=True) for check in failed])
    return f'{STYLE}<div class="dojo">{head}{message}{table}{details}</div>'


def _tier(tier: Tier, checks: list[Check]) -> str:
    good = [check for check in checks if check.outcome.harmless]
    names = "".join(f"<li>{MARKS[c.outcome.harmless]} {esc(readable(c.name))}{_word(c)}</li>" for c in checks)
    listed = f'<ul style="list-style: none; margin: 2px 0; padding: 0">{names}</ul>'
    return (
        f'<tr><th scope="row">{tier.value}</th><td><details><summary>{MARKS[len(good) == len(checks)]} '
        f"{len(good)} of {len(checks)}</summary>{listed}</details></td></tr>"
    )


def _word(check: Check) -> str:
    return "" if check.outcome is Outcome.PASSED else f": {esc(check.outcome.value)}"
