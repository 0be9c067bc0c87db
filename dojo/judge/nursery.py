"""Where workers come from. Imports no torch, so that the zygote can import it while the judge does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("zygote.py")


class Zygote:
    """The process that workers are forked from. Start it early: it imports torch while the judge does too."""

    def __init__(self, parent: Zygote | None = None, around: Sequence[str] = (), core: int | None = None) -> None:
        """`around` are the words of a sandbox, before the command that starts the zygote."""
        ours, theirs = socket.socketpair()
        self.control = ours
        self.process = None if parent else _start(around, [theirs.fileno()])
        self.alive: set[int] = set()
        self.children: set[Zygote] = set()
        if parent:
            socket.send_fds(parent.control, [json.dumps({"split": core}).encode()], [theirs.fileno()])
            self.pid = parent._answer()["pid"]
            parent.children.add(self)
        else:
            self.pid = self.process.pid
        theirs.close()

    def split(self, core: int | None = None) -> Zygote:
        """Another zygote forked from this one, for a judge in another process. It ends when that closes its control.

        `core` is the processor that its workers keep to, if it is to be one.
        """
        return Zygote(self, core=core)

    def outlive(self, child: Zygote) -> None:
        """Wait for the end of a zygote that was split off, once its judge has closed its control."""
        self.children.discard(child)
        self.control.send(json.dumps({"await": child.pid}).encode())
        self._answer()

    def fork(self, channel: socket.socket, output: int, config: dict) -> int:
        """A new worker on this channel; returns its process id."""
        socket.send_fds(self.control, [json.dumps({"fork": config}).encode()], [channel.fileno(), output])
        pid = self._answer()["pid"]
        self.alive.add(pid)
        return pid

    def bury(self, pid: int) -> int:
        """Kill a worker's process group; returns the wait status of the worker."""
        self.alive.discard(pid)
        self.control.send(json.dumps({"bury": pid}).encode())
        return self._answer()["status"]

    def _answer(self) -> dict:
        line = self.control.recv(1 << 16)
        if not line:
            raise RuntimeError("the process that workers are forked from has died; please report this as our fault")
        return json.loads(line)

    def close(self) -> None:
        """End the zygote and every worker that is left."""
        for pid in list(self.alive):
            self.bury(pid)
        for child in list(self.children):
            self.outlive(child)
        self.control.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class FreshStarts:
    """The same for CUDA, whose contexts do not survive a fork: each worker is a new process that imports torch."""

    def __init__(self, around: Sequence[str] = ()) -> None:
        self.around = around
        self.processes: dict[int, subprocess.Popen] = {}

    def fork(self, channel: socket.socket, output: int, config: dict) -> int:
        """A new worker on this channel; returns its process id."""
        process = _start(self.around, [channel.fileno(), output], json.dumps(config))
        self.processes[process.pid] = process
        return process.pid

    def bury(self, pid: int) -> int:
        """Kill a worker's process group; returns its exit status as `os.wait` encodes it."""
        process = self.processes.pop(pid)
        ended = process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        status = process.wait() if ended is None else ended
        return -status if status < 0 else status << 8

    def close(self) -> None:
        """End every worker that is left."""
        for pid in list(self.processes):
            self.bury(pid)


def _start(around: Sequence[str], descriptors: list[int], *more: str) -> subprocess.Popen:
    # -I: no user site, no PYTHON* variables, no current folder on the path.
    command = [*around, sys.executable, "-I", str(SCRIPT), str(PROJECT), ",".join(map(str, descriptors)), *more]
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
