"""Records docs/first_session.md, a first session: each command run in a terminal of 80 columns.

`python docs/first_session.py` writes it anew; it needs the project's environment with what its tests need.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.conftest import copy_of_project  # noqa: E402
from tests.terminal import Terminal  # noqa: E402

MISTAKE = "    e = torch.exp(x - x.max(dim=dim, keepdim=True).values)\n    return e / e.sum(dim=dim)\n"
MENDED = MISTAKE.replace("sum(dim=dim)", "sum(dim=dim, keepdim=True)")
ROBUST = """\
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    e = torch.exp(wide - wide.max(dim=dim, keepdim=True).values)
    return (e / e.sum(dim=dim, keepdim=True)).to(x.dtype)
"""
STEPS = (  # what is said, the body that is written first, the command
    (
        "Nothing is written yet, so the first command tells what the kata asks for and where to write.",
        "",
        "grade softmax",
    ),
    ("The whole statement, as a page.", "", "show softmax"),
    ("A first try, with a slip that most of us have made.", MISTAKE, "grade softmax --seed 7"),
    ("`keepdim=True` was missing. Mended:", MENDED, "grade softmax --seed 7"),
    ("Right, and not yet robust: half precision wants float32 inside.", ROBUST, "grade softmax --seed 7"),
    ("Passed. What now?", "", "next"),
)


def main() -> None:
    """Play the session and write it down."""
    made = (__doc__ or "").partition("\n\n")[2].strip()
    typed = "After `source .nox/dojo/bin/activate`; `nox -s grade -- softmax` is `dojo grade softmax`."
    told = ["# A first session", "", made, "", typed, ""]
    with tempfile.TemporaryDirectory() as folder:
        project = copy_of_project(Path(folder) / "dojo")
        os.environ["DOJO_HOME"] = str(Path(folder) / "home")
        stub = project / "katas" / "basics" / "softmax.py"
        empty = stub.read_text("utf-8")
        for said, body, command in STEPS:
            told += [said, ""]
            if body:
                stub.write_text(empty.replace("    raise NotImplementedError\n", body), "utf-8")
                told += ["```python", body.rstrip(), "```", ""]
            terminal = Terminal(project, 60, 80, *command.split(), PAGER="cat")
            terminal.status()
            shown = "\n".join(terminal.all()).strip("\n")
            os.close(terminal.end)
            told += ["```console", f"$ dojo {command}", shown, "```", ""]
    (ROOT / "docs" / "first_session.md").write_text("\n".join(told).rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    main()
