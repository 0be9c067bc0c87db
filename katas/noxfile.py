"""`nox` typed in this folder is that of the project, one folder up."""

from pathlib import Path

__file__ = str(Path(__file__).resolve().parents[1] / "noxfile.py")
exec(compile(Path(__file__).read_text("utf-8"), __file__, "exec"))
