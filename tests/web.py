"""A served page for tests: a copy of the project, a server on it, and a tab of a browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

GRADED = "() => !/grading|Not graded/.test(document.querySelector('.verdict .line').textContent)"
PATIENCE = 60_000  # milliseconds for anything on a busy machine


class Server:
    """`dojo web` on a folder, with a history of its own; it can be killed and started again."""

    def __init__(self, folder: Path, home: Path, *words: str) -> None:
        self.folder, self.home, self.words = folder, home, words
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start it, again on the port that it had before."""
        self.log = (self.home / "web.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dojo", "web", "--no-open", "--port", str(self.port), *self.words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert "http://" in line, (self.home / "web.log").read_text()
        self.address = line.split()[-1]

    @property
    def environment(self) -> dict[str, str]:
        """That of the server, and of a terminal beside it."""
        own = {"DOJO_HOME": str(self.home), "DOJO_ROOT": str(self.folder), "PYTHONPATH": str(self.folder)}
        given = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        return given | own | {"HOME": str(self.home), "PYTHONUNBUFFERED": "1"}  # NiceGUI would go by that it is tested

    def dojo(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in a terminal beside the page."""
        command = [sys.executable, "-m", "dojo", *words]
        return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)

    def at(self, path: str) -> str:
        """The address of a page, for a browser that has the cookie."""
        return f"http://127.0.0.1:{self.port}{path}"

    def kill(self) -> None:
        """End it as the system does that has no memory left."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        self.log.close()


def entered(browser: Any, server: Server, path: str = "/", **how: Any) -> Any:
    """A tab of a browser of its own that has come in by the address of the server, and is at a page."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE)
    tab = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | how)).new_page()
    tab.set_default_timeout(PATIENCE)
    tab.goto(server.address)
    if path != "/":
        tab.goto(server.at(path))
    return tab


def typed(tab: Any, text: str) -> None:
    """Replace what stands in the editor, as one who pastes does."""
    tab.click(".cm-content")
    tab.keyboard.press("Control+A")
    tab.keyboard.insert_text(text)


def graded(tab: Any, key: str = "Control+Enter") -> str:
    """Grade by the key, and the line that sums the verdict up."""
    tab.keyboard.press(key)
    tab.wait_for_function("() => /grading/.test(document.querySelector('.verdict .line').textContent)", polling=5)
    return verdict(tab)


def verdict(tab: Any) -> str:
    """The line that sums the verdict up, once it is there."""
    tab.wait_for_function(GRADED, polling=20)
    return tab.inner_text(".verdict .line")
