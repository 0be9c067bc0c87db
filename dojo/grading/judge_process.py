"""Where the judge is: in a process forked from the one that workers come from, or in this one.

The first imports torch once for the judge and all workers, while its owner, who needs none, goes on.
"""

from __future__ import annotations

import os
import pickle
import socket
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.judge.fork_server import ForkServer, FreshStarts, start_judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dojo.grading.options import Entry, Options
    from dojo.verdict.screen.terminal import Screen
    from dojo.verdict.types import Verdict


class JudgeProcess:
    """A judge that grades once. Start it early: it imports torch while its owner finds out what is to be graded."""

    def __init__(self) -> None:
        self._process, channel = start_judge(f"{__name__}:serve")
        self._channel = _Channel(channel)
        self._channel.send(os.environ | {"DOJO_ROOT": str(catalog.ROOT)})

    def grade(self, entries: list[Entry], options: Options, screen: Screen) -> list[Verdict]:
        """Grade entries, each of a different kata, and show how far it is.

        Raises Trouble, or RuntimeError with the trace of what failed in the judge.
        """
        with screen.progress([entry.kata.name for entry in entries]) as progress:
            try:
                self._channel.send((entries, options))
                while isinstance(message := self._channel.recv(), _News):
                    getattr(progress, message.name)(*message.arguments)
            except (EOFError, OSError, pickle.UnpicklingError):
                import torch  # noqa: F401  # if it is missing, this says so

                raise RuntimeError("the judge has died; please report this as our fault") from None
        if isinstance(message, Exception):
            raise message
        return message

    def close(self) -> None:
        """End the judge, if it has not come to an end, with every worker."""
        self._channel.close()
        self._process.terminate()
        self._process.wait()


class JudgeHere:
    """The same in this process: for a debugger, and for workers in a sandbox, which the judge must not be in."""

    def __init__(self, around: Sequence[str], debug: bool) -> None:
        """`around` are the words of the sandbox. A debugger's attempt is in this process too, and needs no worker."""
        self._server = FreshStarts(around) if debug else ForkServer(around=around)

    def grade(self, entries: list[Entry], options: Options, screen: Screen) -> list[Verdict]:
        """Grade entries, each of a different kata, and show how far it is. Raises Trouble."""
        return _graded(entries, options, self._server, screen)

    def close(self) -> None:
        """End every worker."""
        self._server.close()


def serve(descriptor: int, control: socket.socket) -> None:
    """The judge: grade what arrives on the channel and send back the verdicts, or the exception that came of it."""
    channel = _Channel(socket.socket(fileno=descriptor))
    os.environ.clear()  # it was bare for the workers' sake
    os.environ.update(channel.recv())
    message: list[Verdict] | Exception
    try:
        from dojo.grading.parallel import import_all

        import_all()
        entries, options = channel.recv()
        message = _graded(entries, options, ForkServer(control=control), _Relay(channel))
    except (Trouble, ModuleNotFoundError) as error:
        message = error
    except Exception:
        import traceback

        message = RuntimeError(traceback.format_exc())
    channel.send(message)


def _graded(
    entries: list[Entry],
    options: Options,
    server: ForkServer | FreshStarts,
    screen: Any,
) -> list[Verdict]:
    from dojo.grading.parallel import side_by_side

    return side_by_side(entries, replace(options, device=_device(options.device)), server, screen)


def _device(word: str) -> str:
    """The device that a word of the command line means here. Raises Trouble."""
    import torch

    if word == "cuda" and not torch.cuda.is_available():
        raise Trouble("--device cuda: this PyTorch sees no GPU. `--device cpu` grades here")
    return "cuda" if word != "cpu" and torch.cuda.is_available() else "cpu"


class _Channel:
    """What is sent on a socket between two processes of ours, pickled; `multiprocessing` takes longer to import."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._file = end, end.makefile("rb")

    def send(self, what: object) -> None:
        """Send anything that can be pickled."""
        self._end.sendall(pickle.dumps(what))

    def recv(self) -> Any:
        """What the other side has sent. Raises EOFError when it is gone."""
        return pickle.load(self._file)

    def close(self) -> None:
        """Close this end."""
        self._file.close()
        self._end.close()


class _News:
    """A call of the progress that the judge's owner shows."""

    def __init__(self, name: str, *arguments: Any) -> None:
        self.name, self.arguments = name, arguments


class _Relay:
    """Stands for a screen where the judge is, and sends on what it is told."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    @contextmanager
    def progress(self, names: Sequence[str], at_once: int = 1) -> Iterator[_Relay]:
        """A context in which these katas are graded, begun in this order: tell it which is `done`."""
        self._channel.send(_News("begin", names, at_once))
        yield self

    def done(self, name: str) -> None:
        """Say that one is done."""
        self._channel.send(_News("done", name))
