"""Commands in a pseudo-terminal: what a user types, and what the screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

PATIENCE = 60.0
OTHER_SCREEN_LEFT, EMPTIED = b"\x1b[?1049l", b"\x1b[2J\x1b[H"  # pyte has one screen, which a terminal would bring back
KEYS = {"down": b"\x1b[B", "up": b"\x1bOA", "end": b"\x1b[F", "page down": b"\x1b[6~"}

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
            time.sleep(0.1)
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


class Terminal:
    """`dojo WORDS` of a project in a terminal of rows and columns: what its screen shows, and what scrolled off."""

    def __init__(
        self, folder: Path, rows: int, columns: int, *words: str, program: tuple[str, ...] = (), **environment: str
    ) -> None:
        self.process, self.end = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for name in ("COLUMNS", "LINES", "NO_COLOR", "VISUAL", "EDITOR"):
                os.environ.pop(name, None)
            os.environ.update({"TERM": "xterm-256color", "PYTHONPATH": str(folder)} | environment)
            script = "import sys; from dojo.cli.main import script; sys.exit(script())"
            command = [*(program or (sys.executable, "-c", script)), *words]
            # readline has put LINES and COLUMNS where os.environ does not see them
            os.execve(command[0], command, dict(os.environ))
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self.stream = pyte.ByteStream(self.screen)
        self.bytes = b""
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, *keys: str) -> None:
        for key in keys:
            os.write(self.end, KEYS.get(key, key.encode()))

    def shows(self, words: str, without: str = "any key") -> list[str]:
        """The screen's lines once it shows these words, and not the others."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if select.select([self.end], [], [], 0.05)[0]:
                try:
                    self._read()
                except OSError:  # the process has ended
                    break
            elif words in (shown := "\n".join(self.screen.display)) and without not in shown:
                break
        lines = [line.rstrip() for line in self.screen.display]
        shown = "\n".join(lines)
        assert words in shown, shown
        assert without not in shown, shown
        return lines

    def status(self) -> int:
        """How the process ended, which it must before patience does."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if select.select([self.end], [], [], 0.05)[0]:
                try:
                    self._read()
                except OSError:
                    break
        else:
            os.kill(self.process, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def close(self) -> None:
        try:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.end)

    def _read(self) -> None:
        piece = os.read(self.end, 1 << 16)
        self.bytes += piece
        self.stream.feed(piece.replace(OTHER_SCREEN_LEFT, OTHER_SCREEN_LEFT + EMPTIED))

    def written(self) -> str:
        """What came, less what a terminal obeys: its lines are as long as they were written."""
        return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b.", "", self.bytes.decode())

    def all(self) -> list[str]:
        """Every line since the start, those that scrolled off first."""
        gone = ["".join(line[n].data for n in range(self.screen.columns)) for line in self.screen.history.top]
        return [line.rstrip() for line in (*gone, *self.screen.display)]
