"""The commands, in the order in which the overview names them. The noxfile reads this: it needs no dependency."""

from __future__ import annotations

import textwrap

from dojo.cli.commands import notebooks, practise, project, solve, teach  # noqa: F401  # each declares its own
from dojo.cli.commands.declared import DECLARED, HEADINGS, MAINTAIN, NOTEBOOKS
from dojo.content.catalog import typed

COMMANDS = dict(sorted(DECLARED.items(), key=lambda item: HEADINGS.index(item[1].heading)))

# Sessions for those who work on the project.
NOX_ALONE = ("tests", "proof", "lessons", "attacks", "lint", "bench", "mutants", "soak", "pictures")


def overview() -> str:
    """What there is to do, what a learner needs first at the top."""
    lines = [
        f"usage: {typed('COMMAND [WORDS]')}",
        "",
        "Katas of the modern language model, with graders whose verdict is right.",
        "Begin with the first:",
        "",
        f"  {typed('grade softmax')}",
    ]
    width = max(map(len, COMMANDS))
    for heading in dict.fromkeys(command.heading for command in COMMANDS.values() if command.heading != MAINTAIN):
        entries = {name: command.help for name, command in COMMANDS.items() if command.heading == heading}
        entries |= {"lab": "open them in JupyterLab: nox -s lab"} if heading == NOTEBOOKS else {}
        lines += ["", heading, *(f"  {name:{width}}  {what}" for name, what in entries.items())]
    hidden = [name for name, command in COMMANDS.items() if command.heading == MAINTAIN]
    sessions = f"`nox --list` explains {', '.join([*hidden, *NOX_ALONE])}"
    lines += ["", MAINTAIN, *textwrap.wrap(sessions, 78, initial_indent="  ", subsequent_indent="  "), ""]
    return "\n".join([*lines, f"`{typed('COMMAND --help')}` explains one."])
