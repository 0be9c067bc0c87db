"""An attempt run in the grader's own process, for a debugger to look into. What it yields is no verdict."""

from __future__ import annotations

import pdb
from collections.abc import Iterator
from typing import Any, NoReturn

from dojo.judge import protocol
from dojo.judge.protocol import Message
from dojo.judge.proxy import Attempt
from dojo.judge.worker import errors, session
from dojo.judge.worker_handle import Worker
from dojo.verdict.failures import Died, LeftDebugger, Raised
from dojo.verdict.types import Outcome


class Debugger(pdb.Pdb):
    """pdb, but `q`, Ctrl-D and Ctrl-C leave the whole grading, whose next check would only open it again."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options | {"nosigint": True})  # what Ctrl-C does after a `c` too

    def _cmdloop(self) -> None:
        try:
            self.cmdloop()
        except LeftDebugger:
            raise
        except KeyboardInterrupt:
            self.do_EOF("")

    def do_quit(self, arg: str) -> NoReturn:
        raise LeftDebugger

    def do_EOF(self, arg: str) -> NoReturn:  # noqa: N802
        self.message("")  # ends the line of the prompt
        raise LeftDebugger

    do_q = do_exit = do_quit


def look_into(fault: BaseException | None) -> None:
    """Open pdb where the attempt raised what led to a fault, if it raised anything."""
    while fault is not None and not (isinstance(fault, Raised) and fault.__cause__):
        fault = fault.__context__
    if fault is not None and fault.__cause__:
        print(f"{fault.sections[0].text}. `c` goes on to the verdict, `q` leaves.", flush=True)
        pdb.post_mortem(fault.__cause__.__traceback__)


def _sent(message: Message) -> Message:
    """The message as the other side would have it, with tensors of its own."""
    parts = [bytes(part) for part in protocol.dump(message)]
    received: Message = protocol.load(parts[1], bytearray(b"".join(parts[2:])))
    return received


class LocalWorker(Worker):
    """Answers what a worker does, without a process of its own, limits or clocks."""

    alive = True

    def __init__(self, filename: str) -> None:
        self.session = session.Session({"filename": filename})
        pdb.Pdb = Debugger  # type: ignore[misc]  # what breakpoint() and pdb.set_trace() open

    def ask(self, *requests: Message, limit: float | None = None, wall: float | None = None) -> Iterator[Message]:
        """Do the requests here, each when its answer is wanted."""
        return map(self._answer, requests)

    def _answer(self, request: Message) -> Message:
        """Do one; an exception in the attempt stays with the fault, for who wants to look into it."""
        request = _sent(request)
        try:
            reply = self.session.perform(request)
        except session.Unanswerable as error:
            raise Died(Outcome.WRONG, str(error)) from None
        except Exception as error:
            own = any(frame.filename == self.session.filename for frame in errors.frames(error))
            raise Raised(**errors.explain(error, self.session.files)) from (error if own else None)
        return _sent(reply)

    def cpu_seconds(self) -> float:
        """No clock runs while one debugs."""
        return 0.0

    def take_printed(self) -> str:
        """Nothing: what the attempt prints goes to the terminal."""
        return ""

    def end(self) -> int:
        """There is no process to end."""
        return 0


class LocalAttempt(Attempt):
    """An attempt whose worker is this process."""

    def worker(self) -> Worker:
        if self._worker is None:
            self._worker = LocalWorker(self.filename)
            self.defined = next(self._worker.ask(self.contents()))["names"]
        return self._worker

    def close(self) -> None:
        """There is nothing to end later either."""
