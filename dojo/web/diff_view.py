"""A change line by line: a sign and a shade tell what came and what went."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui import ui

from dojo.practice.hunt.refactoring import Line
from dojo.web.controls import text

KINDS = {"+": "came", "-": "went"}


def diff(lines: Sequence[Line], pick: Callable[[int], object] | None = None) -> dict[int, ui.element]:
    """Show a change; returns the place below each numbered line.

    With `pick` each number is a button for the pointer; the keyboard has the field that the number goes to.
    """
    below, numbered = dict[int, ui.element](), any(number for number, _, _ in lines)
    with ui.element("div").classes("diff").props('role=group tabindex=0 aria-label="The change, line by line"'):
        for number, sign, code in lines:
            with ui.element("div").classes(f"diffline {KINDS.get(sign, '')}{' numbered' * numbered}"):
                if numbered:
                    _number(number, pick)
                ui.label(sign.strip()).classes("sign")
                ui.label(code).classes("code")
            if number:
                below[number] = ui.element("div").classes("beside")
    return below


def _number(number: int | None, pick: Callable[[int], object] | None) -> None:
    if number is None or pick is None:
        ui.label(str(number or "")).classes("number")
        return
    button = text("button", str(number), "number").on("click", lambda: pick(number))
    button.props(f'type=button tabindex=-1 aria-label="Remark on line {number}"')
