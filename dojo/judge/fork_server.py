"""Where workers come from. Imports no torch, so that the pristine process can import it while the judge does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("worker") / "zygote.py"
Started = tuple[int, socket.socket, int]  # a worker's process id, the channel to it, and where its output comes from


class ForkServer:
    """A pristine process that workers are forked from. Start it early: it imports torch while the judge does too."""

    def __init__(
        self,
        parent: ForkServer | None = None,
        around: Sequence[str] = (),
        core: int | None = None,
        warm: bool = False,
        control: socket.socket | None = None,
    ) -> None:
        """`around` are the words of a sandbox, before the command that starts the process.

        `control` is of a process that runs already, and that this one was forked from.
        """
        self.process: subprocess.Popen[bytes] | None = None
        self.alive: set[int] = set()
        self.children: set[ForkServer] = set()
        self.spares = 0  # workers to fork ahead, while nobody waits for one
        self.idle: list[Started] = []  # those forked ahead
        self.postponed: list[Callable[[], object]] = []
        self._warm: ForkServer | None = None
        if control:
            self.control, self.pid = control, os.getppid()
            return
        self.control, theirs = socket.socketpair()
        if parent:
            socket.send_fds(parent.control, [json.dumps({"split": core, "warm": warm}).encode()], [theirs.fileno()])
            self.pid = parent._answer()["pid"]
            parent.children.add(self)
        else:
            self.process = _start(around, [theirs.fileno()])
            self.pid = self.process.pid
        theirs.close()

    def split(self, core: int | None = None) -> ForkServer:
        """Another server forked from this one, for a judge in another process. It ends when that closes its control.

        `core` is the processor that its workers keep to, if it is to be one.
        """
        return ForkServer(self, core=core)

    def warm(self) -> ForkServer:
        """Another one, whose workers find loaded what torch takes a second to load at first use. It ends with this."""
        self._warm = self._warm or ForkServer(self, warm=True)
        return self._warm

    def join(self, child: ForkServer) -> None:
        """Wait for the end of a server that was split off, once its judge has closed its control."""
        self.children.discard(child)
        self.control.send(json.dumps({"await": child.pid}).encode())
        self._answer()

    def start(self) -> Started:
        """A worker that waits for its configuration: one forked ahead, or else a new one."""
        return self.idle.pop() if self.idle else self._fork()

    def _fork(self) -> Started:
        with _channels() as (channel, output, theirs):
            socket.send_fds(self.control, [b'{"fork": true}'], theirs)
            pid = self._answer()["pid"]
        self.alive.add(pid)
        return pid, channel, output

    def rest(self) -> None:
        """Do what was put off until nobody waits, and fork workers ahead."""
        if self._warm is not None:
            self._warm.rest()
        while self.postponed:
            self.postponed.pop()()
        while len(self.idle) < self.spares:
            self.idle.append(self._fork())

    def later(self, task: Callable[[], object]) -> None:
        """Do this in the next rest, or now if there will be none."""
        if self.spares:
            self.postponed.append(task)
        else:
            task()

    def kill(self, pid: int) -> int:
        """Kill a worker's process group; returns the wait status of the worker."""
        self.alive.discard(pid)
        self.control.send(json.dumps({"kill": pid}).encode())
        return self._answer()["status"]

    def _answer(self) -> dict[str, int]:
        line = self.control.recv(1 << 16)
        if not line:
            raise RuntimeError("the process that workers are forked from has died; please report this as our fault")
        answer: dict[str, int] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process and every worker that is left."""
        for pid in list(self.alive):
            self.kill(pid)
        if self._warm is not None:
            self._warm.close()
        for child in list(self.children):
            self.join(child)
        self.control.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class FreshStarts:
    """The same for who hardly needs a worker, a debugger: each is a new process that imports torch."""

    def __init__(self, around: Sequence[str] = ()) -> None:
        self.around = around
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> Started:
        """A worker that waits for its configuration."""
        with _channels() as (channel, output, theirs):
            process = _start(self.around, theirs)
        self.processes[process.pid] = process
        return process.pid, channel, output

    def kill(self, pid: int) -> int:
        """Kill a worker's process group; returns its exit status as `os.wait` encodes it."""
        process = self.processes.pop(pid)
        ended = process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        status = process.wait() if ended is None else ended
        return -status if status < 0 else status << 8

    def later(self, task: Callable[[], object]) -> None:
        """Do this now: there is no rest."""
        task()

    def close(self) -> None:
        """End every worker that is left."""
        for pid in list(self.processes):
            self.kill(pid)


@contextlib.contextmanager
def _channels() -> Iterator[tuple[socket.socket, int, list[int]]]:
    """Our ends of a worker's channel and of its output, and the descriptors of its own, which are then closed."""
    channel, theirs = socket.socketpair()
    output, writing = os.pipe()
    try:
        yield channel, output, [theirs.fileno(), writing]
    finally:
        theirs.close()
        os.close(writing)


def start_judge(function: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process that workers are forked from, and the channel to a judge that is forked from it as well.

    The judge runs `module:function` of ours, which takes the channel's descriptor and the socket for its ForkServer. It
    ends when the process is terminated.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        return _start([], [theirs.fileno()], function), ours


def _start(around: Sequence[str], descriptors: list[int], *judge: str) -> subprocess.Popen[bytes]:
    # -I: no user site, no PYTHON* variables, no current folder on the path.
    command = [*around, sys.executable, "-I", str(SCRIPT), str(PROJECT), ",".join(map(str, descriptors)), *judge]
    return subprocess.Popen(
        command,
        pass_fds=descriptors,
        env=_bare_environment(),
        stdin=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _bare_environment() -> dict[str, str]:
    """What a worker may know of the user's environment: where libraries and the GPU are; and how to run."""
    kept = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "CUDA_HOME")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    # glibc keeps what was freed: otherwise every other call of a few MB pays for its pages anew, three times its price.
    heap = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
    quiet = {"KINETO_LOG_LEVEL": "9", "TORCHDYNAMO_DISABLE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {k: os.environ[k] for k in kept if k in os.environ} | threads | heap | quiet
