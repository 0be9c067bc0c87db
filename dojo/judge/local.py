"""An attempt run in the grader's own process, for a debugger to look into. What it yields is no verdict."""

from __future__ import annotations

import pdb
from collections.abc import Iterator

from dojo.judge import wire, worker
from dojo.judge.faults import Died, Raised
from dojo.judge.proxy import Attempt
from dojo.verdict import Outcome


def _sent(message: dict) -> dict:
    """The message as the other side would have it, with tensors of its own."""
    parts = [bytes(part) for part in wire.dump(message)]
    return wire.load(parts[1], bytearray(b"".join(parts[2:])))


class LocalWorker:
    """Answers what a worker does, without a process of its own, limits or clocks."""

    alive = True

    def __init__(self, filename: str) -> None:
        self.session = worker.Session({"filename": filename})

    def ask(self, *requests: dict, limit: float = 0.0) -> Iterator[dict]:
        """Do the requests here, each when its answer is wanted."""
        return map(self._answer, requests)

    def _answer(self, request: dict) -> dict:
        """Do one; an exception in the attempt opens pdb where it was raised."""
        request = _sent(request)
        try:
            reply = self.session.perform(request)
        except worker.Unanswerable as error:
            raise Died(Outcome.WRONG, str(error)) from None
        except Exception as error:
            if any(frame.filename == self.session.filename for frame in worker.frames(error)):
                pdb.post_mortem(error.__traceback__)
            raise Raised(**self.session.explain(error)) from None
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

    def worker(self) -> LocalWorker:
        if self._worker is None:
            self._worker = LocalWorker(self.filename)
            next(self._worker.ask({"do": "load", "source": self.source}))
        return self._worker

    def close(self) -> None:
        """There is nothing to end later either."""
