"""The same on a Ray cluster: an actor a processor, each with a judge that stays warm.

Attempts travel as text and verdicts as JSON values. Ray starts an actor where there is room for it, and tells when one,
or its node, is lost; what was being graded there is then graded in a new one, by the loop of `engine`.
"""

from __future__ import annotations

import fcntl
import math
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from dojo.cohort.engine import WORKERS, Job, Slot, grade
from dojo.cohort.records import Result
from dojo.content.catalog import ROOT, Trouble
from dojo.judge.pool import cores
from dojo.judge.worker.isolation import confinement

PATIENCE = 5.0  # seconds for a cluster to answer
LOOK = 2.0  # seconds between two looks at what the cluster has
# What a node is sent of the project: all but what it does not need to grade, or may not have.
LEFT_OUT = [".git", ".nox", ".dojo", "*.ipynb", "docs", "katas", "lessons", "results", "*.sqlite", "__pycache__"]


class RayEngine:
    """The processors, or with `device="cuda"` the GPUs, of a cluster."""

    def __init__(self, address: str, sandboxed: bool, device: str = "cpu", size: int | None = None) -> None:
        """Connect to the cluster at an address, or with `auto` to the one of this machine, which may start now.

        Raises Trouble where Ray is not installed, or no cluster answers.
        """
        try:
            ray: Any = import_module("ray")
        except ModuleNotFoundError:
            raise Trouble("--ray needs Ray, which is not installed: pip install 'ray[default]'") from None
        self.ray, self.sandboxed = ray, sandboxed
        if not ray.is_initialized():
            try:
                self._connect(address)
            except (OSError, ValueError, RuntimeError) as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise Trouble(
                    f"no Ray cluster answers at {address} ({reason}): `ray start --head` starts one"
                ) from None
        self._resource, self._asked_for = "GPU" if device == "cuda" else "CPU", size
        if not self._room():
            raise Trouble(f"the cluster at {address} has no {self._resource}: --device and its nodes do not fit")
        needs: dict[str, Any] = {"num_gpus": 1} if device == "cuda" else {"num_cpus": 1}
        self._actor = ray.remote(**needs, max_restarts=0)(_Judge)
        self.idle: list[Slot] = []
        self._slots: list[_ActorSlot] = []
        self._starting: dict[Any, _ActorSlot] = {}
        self._looked = -math.inf

    def _room(self) -> int:
        """How many slots there are to be: what was asked for, or as many as the cluster has room for just now."""
        return self._asked_for or int(self.ray.cluster_resources().get(self._resource, 0))

    def _connect(self, address: str) -> None:
        more = {"runtime_env": {"working_dir": str(ROOT), "excludes": LEFT_OUT}}
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its default warns at every start
        if address != "auto":
            host, _, port = address.removeprefix("ray://").rpartition(":")
            with socket.create_connection((host, int(port)), timeout=PATIENCE):  # Ray itself would wait for minutes
                pass
            self.ray.init(address=address, **quiet, **more)
            return
        try:
            self.ray.init(address="auto", **quiet, **more)
        except ConnectionError:
            self.ray.init(include_dashboard=False, **quiet)  # a cluster of this machine alone, for this run

    def ready(self) -> list[Slot]:
        self._slots = [slot for slot in self._slots if not slot.ended]
        if time.monotonic() - self._looked > LOOK:  # nodes come and go
            self._looked = time.monotonic()
            for _ in range(self._room() - len(self._slots)):
                slot = _ActorSlot(self.ray, self._actor.remote(self.sandboxed))
                self._slots.append(slot)
                self._starting[slot.actor.is_up.remote()] = slot
        if not self._starting:
            return []
        up, _ = self.ray.wait(list(self._starting), num_returns=len(self._starting), timeout=0)
        return [slot for slot in map(self._started, up) if slot is not None]

    def _started(self, asked: Any) -> Slot | None:
        """The slot that has come up, or none where it was lost before."""
        slot = self._starting.pop(asked)
        try:
            self.ray.get(asked)
            return slot
        except self.ray.exceptions.RayTaskError as error:
            raise Trouble(f"a judge cannot start on the cluster: {str(error).strip().splitlines()[-1]}") from None
        except self.ray.exceptions.RayError:
            slot.end()
            return None

    def done(self, busy: Sequence[Any], seconds: float) -> list[tuple[Slot, Result | str]]:
        owners = {slot.asked: slot for slot in busy}
        ready, _ = self.ray.wait(list(owners), num_returns=1, timeout=seconds)
        return [(owners[each], owners[each].take()) for each in ready]

    def close(self) -> None:
        self.ray.shutdown()


class _ActorSlot:
    """An actor, as a slot."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self.ray, self.actor, self.asked, self.ended = ray, actor, None, False

    def begin(self, job: Job) -> None:
        self.asked = self.actor.grade.remote(job)

    def take(self) -> Result | str:
        """What came of the job."""
        try:
            result: Result = self.ray.get(self.asked)
            return result
        except self.ray.exceptions.RayTaskError as error:
            return f"the judge failed: {str(error).strip().splitlines()[-1]}"
        except self.ray.exceptions.RayError as error:
            return f"the node or process that graded it was lost ({type(error).__name__})"

    def end(self) -> None:
        self.ended = True
        with suppress(Exception):  # it may be gone already
            self.ray.kill(self.actor)


class _Judge:
    """Runs in the cluster: a fork server, and a grading at a time."""

    def __init__(self, sandboxed: bool) -> None:
        from dojo.grading.parallel import import_all
        from dojo.judge import sandbox
        from dojo.judge.fork_server import ForkServer

        around = sandbox.prefix() if sandboxed else []
        self.core = _own_core()
        self.started = ForkServer(around=around)
        import_all()
        self.server = self.started.warm()
        self.server.spares = WORKERS

    def is_up(self) -> bool:
        """Answers once it has started."""
        return True

    def grade(self, job: Job) -> Result:
        """Grade an attempt, and get ready for the next."""
        result = grade(job, self.server)
        if hasattr(self.server, "rest"):
            self.server.rest()
        return result


def _own_core() -> int | None:
    """Keep this process to a processor that no other judge on this machine has; the lock is held as long as it lives.

    Judge and worker take turns: on two processors they would wait for each other's to wake up.
    """
    for core in cores():
        lock = os.open(Path(tempfile.gettempdir(), f"dojo-{os.getuid()}-processor-{core}.lock"), os.O_RDWR | os.O_CREAT)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            confinement.keep_to(core)
            return lock
        os.close(lock)
    return None
