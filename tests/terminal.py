"""Commands in a pseudo-terminal: what a user types, and what the screen shows."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

Step = tuple[str, Callable[[int, int], None]]  # wait for these words, then do this with (terminal, process)


def run(
    words: list[str], steps: list[Step], project: Path, patience: float = 60.0, rows: int = 24, columns: int = 100
) -> tuple[str, int]:
    """Run `python -m dojo WORDS` of a project in a terminal; returns what it showed and its exit status.

    The tests of other processes have projects of their own, so that nobody takes another's folder for his.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(project)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in a terminal, even if these tests run in the background
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)}
        os.execv(sys.executable, [sys.executable, "-m", "dojo", *words])
    shown, steps, deadline, seen = b"", list(steps), time.monotonic() + patience, 0
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                piece = os.read(terminal, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        if steps and steps[0][0].encode() in shown[seen:]:
            seen = len(shown)
            time.sleep(0.3)
            steps.pop(0)[1](terminal, process)
    else:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    return shown.decode(errors="replace"), os.waitstatus_to_exitcode(status)


def press(keys: bytes) -> Callable[[int, int], None]:
    """Type something."""
    return lambda terminal, process: os.write(terminal, keys) and None


def after(seconds: float, act: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Do something a while later."""

    def wait_and_act(terminal: int, process: int) -> None:
        time.sleep(seconds)
        act(terminal, process)

    return wait_and_act


def kill(terminal: int, process: int) -> None:
    """End the process as a power cut would."""
    os.kill(process, signal.SIGKILL)
