"""The judge's side of a worker: asked, timed from outside, and killed with all that it left behind."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import select
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from dojo.judge import answers, protocol
from dojo.judge.fork_server import ForkServer, FreshStarts
from dojo.judge.protocol import Message
from dojo.verdict.failures import Died, Forbidden, Raised
from dojo.verdict.types import Outcome, plain

MEMORY = 6 << 30  # bytes of address space beyond what an idle worker has
CPU_LIMIT = 5.0  # seconds of processor time for one request
WALL_LIMIT = 12.0  # seconds by the clock on the wall, for an attempt that sleeps
BUSIEST = 9  # times as much again may be added for a machine that is busy
MOST_THREADS = 256
STARVED = 0.2  # of the time by the clock: who had less of a processor may have waited for it
TELLING = 0.3  # seconds for a worker that hangs to say where
LOAD_FACTOR = 4  # importing may wait for a disk, and a worker that starts afresh then imports torch too
SHOWN_OUTPUT = 8 << 10
LOADING = ("load", "unpack")
LOST = "AcceleratorError"  # torch raises it where a kernel has failed, after which its process has no use of the GPU
UNASKED = "it does not answer what was asked"


class Worker:
    """One process that runs one attempt. Requests either answer or end the worker with a fault that says why."""

    def __init__(
        self,
        server: ForkServer | FreshStarts,
        filename: str,
        readable: protocol.Others,
        memory: int | None = MEMORY,
        trial: bool = False,
    ) -> None:
        self.server, self.filename = server, filename
        self.pid, self.channel, self.output = server.start()
        protocol.send(self.channel, {"filename": filename, "readable": readable, "memory": memory, "trial": trial})
        self.channel.setblocking(False)
        os.set_blocking(self.output, False)
        self.watch = selectors.DefaultSelector()
        self.watch.register(self.channel, selectors.EVENT_READ)
        self.watch.register(self.output, selectors.EVENT_READ)
        self.files: dict[str, tuple[str, str]] = {}  # the attempt's own: what to call each, and its source
        self.printed = bytearray()
        self.unshown = 0
        self.alive = True

    def cpu_seconds(self) -> float:
        """Processor time that the worker has used, all threads, read from outside where the system lets us."""
        if sys.platform != "linux":
            return time.monotonic()
        try:
            return time.clock_gettime((~self.pid) << 3 | 2)
        except OSError:  # the worker has died: the channel will say so
            return 0.0

    def queued_seconds(self) -> float:
        """For how long the worker was ready to run and had no processor, where the system tells."""
        try:
            with open(f"/proc/{self.pid}/schedstat", "rb") as file:
                return int(file.read().split()[1]) / 1e9
        except (OSError, IndexError):  # another system, or the worker has died: the channel will say so
            return 0.0

    def threads(self) -> int:
        """How many threads the worker has, where the system tells; no limit of its own counts those of one process."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                return int(file.read().rpartition(b")")[2].split()[17])
        except OSError:  # another system, or the worker has died: the channel will say so
            return 0

    def load(self, contents: Message) -> Message:
        """Have the attempt imported; a loop there costs no more than one in a call."""
        factor = LOAD_FACTOR if isinstance(self.server, FreshStarts) else 1
        return next(self.ask(contents, limit=factor * CPU_LIMIT, wall=LOAD_FACTOR * WALL_LIMIT))

    def ask(self, *requests: Message, limit: float | None = None, wall: float | None = None) -> Iterator[Message]:
        """Send requests, which are done in turn up to the first that fails, and wait for their answers.

        `limit` is in seconds of processor time, CPU_LIMIT if none is given; `wall` by the clock on it, WALL_LIMIT, and
        what the worker waits for a processor does not count.

        Raises, and so does the iterator when it comes to an answer that says so:
            Raised: the attempt raised.
            Forbidden: the attempt left PyTorch, or gave back what is no tensor.
            Died: the worker is gone, or had to be ended.
        """
        for request in requests:
            if request["do"] == "load":
                self.files[self.filename] = self.filename, request["source"]
            elif request["do"] == "unpack":
                self.files |= {name: (label, source) for name, label, source in request["cells"]}
        reply = self._exchange({"requests": list(requests)}, limit or CPU_LIMIT, wall or WALL_LIMIT)
        found = reply.get("answers")
        if not isinstance(found, list) or not all(isinstance(answer, dict) for answer in found):
            self._protocol_error(UNASKED)
        if len(found) != len(requests) and not (len(found) in range(1, len(requests)) and answers.failure(found[-1])):
            self._protocol_error(UNASKED)
        return map(self._understood, requests, found)

    def _exchange(self, message: Message, limit: float, wall: float) -> Message:
        """One message there and one back, against the clock."""
        token = secrets.token_hex(8)
        started, cpu, queued = time.monotonic(), self.cpu_seconds(), self.queued_seconds()
        self.channel.setblocking(True)
        self.channel.settimeout(wall)
        try:
            protocol.send(self.channel, message | {"token": token})
        except OSError:
            self._died()
        self.channel.setblocking(False)
        buffer = bytearray()
        expected: tuple[int, int] | None = None
        while expected is None or len(buffer) < sum(expected):
            late = ""
            if self.cpu_seconds() - cpu > limit:
                late = f"after {limit:.0f} s of processor time, so the {{}} was ended: is there a loop?"
            elif time.monotonic() - started > wall + min(self.queued_seconds() - queued, BUSIEST * wall):
                late = f"after {wall:.0f} s, so the {{}} was ended"
            elif self.threads() > MOST_THREADS:
                self.end()
                raise Died(Outcome.CRASHED, f"the attempt has more than {MOST_THREADS} threads, so it was ended")
            before = len(buffer)
            for key, _ in self.watch.select(timeout=0 if late else 0.1):
                if key.fileobj is self.channel:
                    self._read_channel(buffer)
                else:
                    self._read_output()
            if late and len(buffer) == before:  # if this process was suspended meanwhile, the answer waits to be read
                used = self.cpu_seconds() - cpu
                what = "import" if message["requests"][0]["do"] in LOADING else "call"
                self._timed_out(late.format(what), starved=used < STARVED * wall)
            if expected is None and len(buffer) >= protocol.PREFIX:
                expected = self._checked(protocol.lengths, bytes(buffer[: protocol.PREFIX]))
                del buffer[: protocol.PREFIX]
        header = expected[0]
        reply = self._checked(protocol.load, bytes(buffer[:header]), buffer[header : sum(expected)])
        if not isinstance(reply, dict) or reply.get("token") != token or len(buffer) > sum(expected):
            self._protocol_error(UNASKED)
        return reply

    def _understood(self, request: Message, reply: Message) -> Message:
        if not answers.answers(reply, request):
            self._protocol_error(UNASKED)
        word = answers.failure(reply)
        if not word:
            return reply
        if word == "unanswerable":
            raise Died(Outcome.WRONG, answers.unanswerable(reply))
        raised = answers.raised(reply)
        if raised["kind"] == LOST:
            self.end()
        if word == "raised":
            raise Raised(**raised)
        at = {"lines": raised["lines"], "line": raised["line"]}
        raise Forbidden(
            f"the computation must stay in PyTorch, or where the kata says ({answers.forbidden(reply)})", **at
        )

    def _checked(self, read: Callable[..., Any], *parts: Any) -> Any:
        try:
            return read(*parts)
        except protocol.ProtocolError as error:
            self._protocol_error(str(error))

    def _read_channel(self, buffer: bytearray) -> None:
        try:
            chunk = self.channel.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._died()
        buffer += chunk

    def _read_output(self) -> None:
        try:
            chunk = os.read(self.output, 1 << 16)
        except BlockingIOError:
            return
        if not chunk and self.output in self.watch.get_map():
            self.watch.unregister(self.output)
        room = max(0, SHOWN_OUTPUT - len(self.printed))
        self.printed += chunk[:room]
        self.unshown += max(0, len(chunk) - room)

    def take_printed(self) -> str:
        """What the attempt printed since this was last asked."""
        if self.alive:
            self._read_output()
        text = plain(self.printed.decode(errors="replace"), SHOWN_OUTPUT)
        if self.unshown:
            text += f"\n… {self.unshown} more bytes not shown"
        self.printed, self.unshown = bytearray(), 0
        return text

    def _timed_out(self, late: str, starved: bool) -> NoReturn:
        lines, line = self._hanging_lines()
        self.end()
        raise Died(Outcome.TIMED_OUT, f"no answer {late}", lines, line, starved)

    def _hanging_lines(self) -> tuple[str, int]:
        """Where in the attempt's own files the worker is now, as its faulthandler tells it, and what stands there.

        The text is that of a traceback's entry, the number that of a line of its first file; nothing if the worker does
        not tell.
        """
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGUSR1)
        printed, until = b"", time.monotonic() + TELLING
        own = re.compile(rf'File "({"|".join(map(re.escape, self.files))})", line (\d{{1,9}}) in (\S+)')
        while time.monotonic() < until:
            select.select([self.output], [], [], TELLING)
            with contextlib.suppress(BlockingIOError):
                printed = printed[-SHOWN_OUTPUT:] + os.read(self.output, 1 << 16)
            if found := own.search(printed.decode(errors="replace")):
                label, source = self.files[found[1]]
                lines, number = source.splitlines(), int(found[2])  # which the attempt may have printed: any at all
                line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
                return f"{label}:{number} in {found[3]}\n    {line}".rstrip(), number * (found[1] == self.filename)
        return "", 0

    def _protocol_error(self, why: str) -> NoReturn:
        self.end()
        raise Died(Outcome.CRASHED, f"the attempt wrote on the judge's channel: {why}")

    def _died(self) -> NoReturn:
        status = self.end()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = signal.strsignal(number) or f"signal {number}"
            raise Died(Outcome.CRASHED, f"the process of the attempt crashed: {name}")
        code = os.WEXITSTATUS(status)
        raise Died(Outcome.CRASHED, f"the attempt ended its own process (exit status {code}) instead of returning")

    def end(self) -> int:
        """Kill the worker's process group and close what led to it; returns its wait status."""
        if not self.alive:
            return 0
        self.alive = False
        self._read_output()
        status = self.server.kill(self.pid)
        self.watch.close()
        self.channel.close()
        os.close(self.output)
        return status
