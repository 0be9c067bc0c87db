"""bubblewrap around the workers: nothing to find, nothing to call, and the same verdicts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dojo.content import catalog, master
from dojo.content.catalog import ROOT, Trouble
from dojo.grading import options, run
from dojo.judge import fork_server, sandbox, worker_handle
from tests.conftest import SEED, told

sandboxed = pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine")
ATTACKS = Path(__file__).parent / "attacks"
LOOK = f"""
import json, os, socket
absent = {[str(ROOT / name) for name in ("solutions", "graders", "tests", ".dojo")]} + ["/etc/passwd", "/home"]
found = [path for path in absent if os.path.exists(path)]
print(json.dumps([found, [name for _, name in socket.if_nameindex()], sorted(os.listdir("/tmp"))]))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[fork_server.ForkServer]:
    server = fork_server.ForkServer(around=sandbox.prefix())
    yield server
    process = psutil.Process(server.process.pid)
    family = [process, *process.children(recursive=True)]
    server.close()
    assert not psutil.wait_procs(family, timeout=10)[1], "the sandbox is gone with all that was in it"


@sandboxed
def test_there_is_nothing_to_find_and_no_network() -> None:
    command = [*sandbox.prefix(), sys.executable, "-I", "-c", LOOK]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = sorted({Path(path).parts[2] for path in sandbox._seen() if path.startswith("/tmp/")})  # a project in /tmp
    assert json.loads(shown) == [[], ["lo"], ours]


@sandboxed
@pytest.mark.parametrize("name", ["softmax", "rope", "lm"])
def test_a_solution_passes_in_it(name: str, server: fork_server.ForkServer) -> None:
    kata = catalog.katas()[name]
    entry = options.Entry(kata, master.read_text(kata.master), "attempt.py", "")
    verdict = run.run([entry], options.Options(SEED), server)[0]
    assert verdict.verdict == "passed", told(verdict)


@sandboxed
@pytest.mark.parametrize(("name", "says"), [("segfault", "crashed"), ("hang_in_cpp", "no answer after")])
def test_attacks_end_in_it_as_they_do_outside(
    name: str, says: str, server: fork_server.ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_handle, "CPU_LIMIT", 1.5)
    source = (ATTACKS / f"{name}.py").read_text()
    entry = options.Entry(catalog.katas()["softmax"], source, "attempt.py", "")
    assert says in told(run.run([entry], options.Options(SEED, tier="core"), server)[0])


def test_where_bubblewrap_is_missing_or_broken_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(Trouble, match="install your system's package `bubblewrap`"):
        sandbox.prefix()
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/false")
    with pytest.raises(Trouble, match="bubblewrap does not work here: exit status 1"):
        sandbox.prefix()
