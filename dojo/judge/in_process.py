"""An attempt run in the grader's own process, for a debugger to look into. What it yields is no verdict."""

from __future__ import annotations

import pdb
from collections.abc import Iterator

from dojo.judge import protocol
from dojo.judge.protocol import Message
from dojo.judge.proxy import Attempt
from dojo.judge.worker import errors, session
from dojo.judge.worker_handle import Worker
from dojo.verdict.failures import Died, Raised
from dojo.verdict.types import Outcome


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

    def ask(self, *requests: Message, limit: float | None = None) -> Iterator[Message]:
        """Do the requests here, each when its answer is wanted."""
        return map(self._answer, requests)

    def _answer(self, request: Message) -> Message:
        """Do one; an exception in the attempt opens pdb where it was raised."""
        request = _sent(request)
        try:
            reply = self.session.perform(request)
        except session.Unanswerable as error:
            raise Died(Outcome.WRONG, str(error)) from None
        except Exception as error:
            if any(frame.filename == self.session.filename for frame in errors.frames(error)):
                pdb.post_mortem(error.__traceback__)
            raise Raised(**errors.explain(error, self.session.files)) from None
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
            self.defined = next(self._worker.ask({"do": "load", "source": self.source}))["names"]
        return self._worker

    def close(self) -> None:
        """There is nothing to end later either."""
