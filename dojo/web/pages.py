"""Which pages there are."""

from __future__ import annotations

from dojo.grading.resident_process import ResidentProcess
from dojo.web import (
    frame,
    history_page,
    home_page,
    interviews_page,
    kata_page,
    leaving,
    paths_page,
    plan_page,
    report_page,
    rules_page,
    session_page,
)

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#2453b5"/>'
    '<path d="M8 9h16M10 9v15M22 9v15M8 14h16" stroke="#fff" stroke-width="2.6" fill="none"/></svg>'
)


def add(judge: ResidentProcess) -> None:
    """Add every page; what is graded on them is graded by this judge."""
    frame.install()
    leaving.install()
    for each in (home_page, paths_page, plan_page, history_page, report_page, rules_page):
        each.add()
    kata_page.add(judge)
    interviews_page.add()
    session_page.add(judge)
