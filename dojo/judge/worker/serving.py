"""The loop of a worker: wait for the configuration, be confined, then answer the judge."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.abc
import importlib.util
import io
import os
import signal
import socket
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

import torch

from dojo.judge import protocol
from dojo.judge.worker import gpu, trial
from dojo.judge.worker.errors import explain
from dojo.judge.worker.isolation import confinement
from dojo.judge.worker.readings import instrumentation
from dojo.judge.worker.session import Session


def serve(channel: socket.socket) -> None:
    """Wait for the configuration, confine this process, then answer the judge until it closes the channel."""
    try:
        config = protocol.receive(channel)
    except protocol.Closed:
        os._exit(0)
    others, readable = config["readable"], []  # lets an attempt build on the user's others, with or without the package
    if isinstance(others, dict):
        sys.meta_path.insert(0, _OtherAttempts(others))
    else:
        readable = others
        sys.path[:0] = readable
        siblings = types.ModuleType("katas")
        siblings.__path__ = readable
        sys.modules["katas"] = siblings
    sys.modules["dojo"] = _Mute("dojo")  # a notebook's calls to us, left in a script, say nothing here
    instrumentation.bar_other_frameworks()
    torch.compile = _run_eagerly  # the compiler needs files and processes, which a worker has not; values stay the same
    without_data = torch.library.Library("aten", "IMPL")  # holds for as long as this name
    with contextlib.suppress(RuntimeError):  # it has one already: torch 2.11's own
        without_data.impl("normal_", lambda self, *_, **__: self, "Meta")  # a later one imports the compiler for it
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)  # the judge asks where an attempt hangs
    sys.breakpointhook = _no_debugger
    hide = trial.code_hider() if config["trial"] else None  # no hook can be added once this is confined
    if config["memory"] is None and torch.cuda.is_available():
        gpu.begin()
    confinement.confine(readable, config["memory"])
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)  # what was printed must not die with the process
    session = Session(config, hide)
    while True:
        try:
            message = protocol.receive(channel)
        except protocol.Closed:
            os._exit(0)
        token, answers = message["token"], session.answers(message["requests"])
        try:
            parts = protocol.dump({"token": token, "answers": answers})
        except protocol.ProtocolError as error:
            parts = protocol.dump({"token": token, "answers": [{"unanswerable": str(error)}]})
        except torch.AcceleratorError as error:  # what was answered before a kernel failed is lost with it
            parts = protocol.dump({"token": token, "answers": [{"raised": explain(error, session.files)}]})
        channel.sendall(b"".join(parts))


def _no_debugger(*_: object, **__: object) -> None:
    raise RuntimeError("breakpoint() finds no terminal here: grade with --pdb to debug")


class _OtherAttempts(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """The same user's other attempts, by their texts: `rope`, `katas.rope` and `katas.positions.rope` are one."""

    def __init__(self, sources: dict[str, str]) -> None:
        """`sources` are by track and name: `positions/rope`."""
        self.sources = {path.rpartition("/")[2]: source for path, source in sources.items()}
        self.packages = {"katas", *(f"katas.{path.rpartition('/')[0]}" for path in sources)}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        prefix, _, last = name.rpartition(".")
        known = name in self.packages or (last in self.sources and prefix in ("", *self.packages))
        return importlib.util.spec_from_loader(name, self) if known else None

    def is_package(self, fullname: str) -> bool:
        return fullname in self.packages

    def get_source(self, fullname: str) -> str:
        return "" if self.is_package(fullname) else self.sources[fullname.rpartition(".")[2]]


class _Mute(types.ModuleType):
    """Stands for our own package, with `check` and the like where there is nobody to say it to."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def _run_eagerly(model: Callable[..., Any] | None = None, **_: Any) -> Callable[..., Any]:
    """`torch.compile` with nothing compiled, as a function and as a decorator with or without arguments."""
    return model if model is not None else lambda function: function
