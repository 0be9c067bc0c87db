"""A confined process can compute and nothing else, and each layer holds by itself.

Run as a module with a folder to play in, this file is the server: it does each probe below in a fork that it confines.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import gc
import importlib
import io
import json
import linecache
import os
import platform
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dojo.judge.worker.isolation import confinement, kernel

PROJECT = Path(__file__).resolve().parents[1]
TREE = sys.argv[1] if __name__ == "__main__" else "/"
KATAS, STUB, SOLUTION = f"{TREE}/katas", f"{TREE}/katas/softmax.py", f"{TREE}/solutions/softmax.py"
NEW = f"{TREE}/katas/new"
MEMORY = 6 << 30
LIBC = ctypes.CDLL(None, use_errno=True)  # an attempt has none, and looks up no function of it
SYSCALL, PRCTL = LIBC.syscall, LIBC.prctl
Probe = Callable[[], Any]


# What the audit hook says.


class TwoFaced:
    """A path that is the solution when it is opened, and the stub when it is looked at."""

    answers = iter([SOLUTION, STUB, STUB])

    def __fspath__(self) -> str:
        return next(self.answers)


def opening(path: Any, mode: str = "r") -> Probe:
    return lambda: open(path, mode)


def after(module: Any, name: str, value: Any) -> Probe:
    """Open the solution after a patch of what a check of paths might use."""
    return lambda: [setattr(module, name, value), opening(SOLUTION)()]


def tamper_with_the_hook() -> None:
    """Reach the hook's frames through the traceback of a refusal, change all that lies there, and try again."""
    try:
        opening(SOLUTION)()
    except PermissionError as error:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == confinement.__file__:
                frame.f_globals.update(REFUSED=(), EVENTS=frozenset(), _real=lambda _: STUB)
                frame.f_locals.update(inside=("/",), events=frozenset(), real=lambda _: STUB, judge_path=print)
                frame.f_builtins.update(PermissionError=KeyboardInterrupt, type=lambda _: int)
    opening(SOLUTION)()


def give_the_hook_another_body() -> None:
    confinement._real.__code__ = tamper_with_the_hook.__code__


def give_the_hook_other_defaults() -> None:
    confinement._real.__defaults__ = (None, None, None)


def fork_without_an_event() -> None:
    del sys.modules["_posixsubprocess"]
    importlib.import_module("_posixsubprocess")


HIDDEN = "it may read only its own file and the other stubs"
FENCED: dict[str, tuple[Probe, str]] = {
    "a solution": (opening(SOLUTION), f"an attempt may not open {{SOLUTION}}: {HIDDEN}"),
    "a solution of ours": (opening(PROJECT / "solutions/basics/softmax.py"), HIDDEN),
    "a grader of ours": (opening(PROJECT / "graders/basics/softmax/contract.py"), HIDDEN),
    "the judge's sources": (opening(confinement.__file__), HIDDEN),
    "a solution, by os.open": (lambda: os.open(SOLUTION, os.O_RDONLY), HIDDEN),
    "a solution, by a detour": (opening(f"{KATAS}/../solutions/softmax.py"), HIDDEN),
    "a solution, from the folder it is in": (lambda: [os.chdir(TREE), opening("solutions/softmax.py")()], HIDDEN),
    "a solution, by a link": (opening(f"{KATAS}/link.py"), HIDDEN),
    "a solution, by /proc": (opening(f"/proc/self/root{SOLUTION}"), HIDDEN),
    "a solution, in bytes": (opening(SOLUTION.encode()), HIDDEN),
    "a solution, by two faces": (lambda: io.FileIO(TwoFaced()), "may not open a TwoFaced: give the path as a str"),
    "a solution, seen from another folder": (
        lambda: os.open(KATAS, os.O_RDONLY),
        "may not open the folder {KATAS}: list it",
    ),
    "a solution, by import": (lambda: importlib.import_module("solutions.softmax"), "No module named 'solutions"),
    "a solution, os.path patched": (after(os.path, "realpath", lambda _: STUB), HIDDEN),
    "a solution, os patched": (after(os, "readlink", lambda _: STUB), HIDDEN),
    "a solution, builtins patched": (after(builtins, "type", lambda _: int), HIDDEN),
    "a solution, our own check patched": (after(confinement, "_real", lambda _: STUB), HIDDEN),
    "a solution, the hook's frames changed": (tamper_with_the_hook, HIDDEN),
    "another body for the hook": (give_the_hook_another_body, "may not rewrite the judge (__code__)"),
    "other defaults for the hook": (give_the_hook_other_defaults, "may not rewrite the judge (__defaults__)"),
    "the hook itself": (gc.get_objects, "may not search the interpreter (gc.get_objects)"),
    "the names of the solutions": (
        lambda: os.listdir(f"{TREE}/solutions"),
        f"may not list {{TREE}}/solutions: {HIDDEN}",
    ),
    "the names beside the solutions": (lambda: os.scandir(TREE), HIDDEN),
    "the names in the current folder": (os.listdir, HIDDEN),
    "the environment": (opening("/proc/self/environ"), HIDDEN),
    "the memory": (opening("/proc/self/mem", "rb"), HIDDEN),
    "a new file": (opening(NEW, "w"), "may not write {NEW}: it may only compute"),
    "its own stub": (opening(STUB, "a"), "may not write {STUB}: it may only compute"),
    "a removal": (lambda: os.remove(STUB), "may not change files (os.remove)"),
    "another name": (lambda: os.rename(STUB, NEW), "may not change files (os.rename)"),
    "a new folder": (lambda: os.mkdir(NEW), "may not change files (os.mkdir)"),
    "another mode": (lambda: os.chmod(STUB, 0o777), "may not change files (os.chmod)"),
    "a new link": (lambda: os.symlink(SOLUTION, NEW), "may not change files (os.symlink)"),
    "a database": (lambda: sqlite3.connect(":memory:"), "may not open databases (sqlite3.connect)"),
    "a fork": (os.fork, "may not start processes (os.fork)"),
    "a program": (lambda: os.execv("/bin/true", ["true"]), "may not start processes (os.exec)"),
    "a spawn": (lambda: os.posix_spawn("/bin/true", ["true"], {}), "may not start processes (os.posix_spawn)"),
    "a subprocess": (lambda: subprocess.run(["true"]), "may not start processes (subprocess.Popen)"),
    "a shell": (lambda: os.system("true"), "may not start processes (os.system)"),
    "a fork without an event": (fork_without_an_event, "may not import _posixsubprocess"),
    "a socket": (socket.socket, "may not use the network (socket.__new__)"),
    "a name on the net": (lambda: socket.getaddrinfo("localhost", 80), "may not use the network (socket.getaddrinfo)"),
    "a signal to the judge": (lambda: os.kill(os.getppid(), 0), "may not signal other processes (os.kill)"),
    "a signal to all": (lambda: os.kill(-1, 0), "may not signal other processes (os.kill)"),
    "a signal to a group": (lambda: os.killpg(0, signal.SIGTERM), "may not signal other processes (os.killpg)"),
    "a library": (lambda: ctypes.CDLL(None), "may not leave Python (ctypes.dlopen)"),
    "an address": (lambda: ctypes.c_int.from_address(8), "may not leave Python (ctypes.cdata)"),
    "another limit": (lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), "may not change its own limits"),
}


# What holds without it, each layer alone.


def libc(name: str, *arguments: Any) -> int:
    """A function of C, of which no Python hook hears."""
    result = getattr(LIBC, name)(*arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def open_from_the_stubs() -> None:
    place = os.open(KATAS, os.O_PATH)
    os.open("../solutions/softmax.py", os.O_RDONLY, dir_fd=place)


def write_a_byte() -> None:
    with open(f"{TREE}/grows", "wb", buffering=0) as file:
        file.write(b"1")


def change_a_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.prlimit(0, resource.RLIMIT_NOFILE, (hard - 1, hard - 1))


def open_many() -> None:
    for _ in range(confinement.OPEN_FILES):
        os.open("/dev/null", os.O_RDONLY)


MQ_OPEN = 240 if platform.machine() == "x86_64" else 180
WALLED: dict[str, tuple[str, Probe, int]] = {
    "a byte in a file": ("rlimits", write_a_byte, errno.EFBIG),
    "many descriptors": ("rlimits", open_many, errno.EMFILE),
    "a solution": ("landlock", opening(SOLUTION), errno.EACCES),
    "a solution, from C": ("landlock", lambda: libc("open", SOLUTION.encode(), os.O_RDONLY), errno.EACCES),
    "a solution, seen from another folder": ("landlock", open_from_the_stubs, errno.EACCES),
    "a solution, by a link": ("landlock", opening(f"{KATAS}/link.py"), errno.EACCES),
    "a solution of ours": ("landlock", opening(PROJECT / "solutions/basics/softmax.py"), errno.EACCES),
    "the names of the solutions": ("landlock", lambda: os.listdir(f"{TREE}/solutions"), errno.EACCES),
    "the judge's environment": ("landlock", opening(f"/proc/{os.getppid()}/environ"), errno.EACCES),
    "the judge's memory": ("landlock", opening(f"/proc/{os.getppid()}/mem", "rb"), errno.EACCES),
    "a new file": ("landlock", opening(NEW, "w"), errno.EACCES),
    "its own stub": ("landlock", opening(STUB, "a"), errno.EACCES),
    "a removal": ("landlock", lambda: os.remove(STUB), errno.EACCES),
    "another name": ("landlock", lambda: os.rename(STUB, NEW), errno.EACCES),
    "a new folder": ("landlock", lambda: os.mkdir(NEW), errno.EACCES),
    "a pipe with a name": ("landlock", lambda: os.mkfifo(NEW), errno.EACCES),
    "another mode": ("seccomp", lambda: os.chmod(STUB, 0o777), errno.EPERM),
    "another time": ("seccomp", lambda: os.utime(STUB), errno.EPERM),
    "a fork": ("seccomp", os.fork, errno.EPERM),
    "a fork, from C": ("seccomp", lambda: libc("fork"), errno.EPERM),
    "a clone by the newer call": ("seccomp", lambda: libc("syscall", 435, None, 0), errno.ENOSYS),
    "a program": ("seccomp", lambda: os.execv("/bin/true", ["true"]), errno.EPERM),
    "a program, from C": ("seccomp", lambda: libc("execv", b"/bin/true", (ctypes.c_char_p * 2)(b"true")), errno.EPERM),
    "a subprocess": ("seccomp", lambda: subprocess.run(["true"]), errno.EPERM),
    "a socket": ("seccomp", socket.socket, errno.EPERM),
    "a socket, from C": ("seccomp", lambda: libc("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0), errno.EPERM),
    "a signal to the judge": ("seccomp", lambda: os.kill(os.getppid(), 0), errno.EPERM),
    "a signal to the judge, from C": ("seccomp", lambda: libc("kill", os.getppid(), 0), errno.EPERM),
    "a signal to all": ("seccomp", lambda: os.kill(-1, 0), errno.EPERM),
    "a signal to its group": ("seccomp", lambda: os.killpg(0, 0), errno.EPERM),
    "a session of its own": ("seccomp", os.setsid, errno.EPERM),
    "a group of its own": ("seccomp", lambda: os.setpgid(0, 0), errno.EPERM),
    "another limit": ("seccomp", change_a_limit, errno.EPERM),
    "another namespace": ("seccomp", lambda: libc("unshare", 0x10000000), errno.EPERM),
    "a trace of the judge": ("seccomp", lambda: libc("ptrace", 16, os.getppid(), 0, 0), errno.EPERM),
    "calls through a ring": ("seccomp", lambda: libc("syscall", 425, 1, None), errno.EPERM),
    "memory that outlives it": ("seccomp", lambda: libc("shmget", 0, 4096, 0o1600), errno.EPERM),
    "memory of another": ("seccomp", lambda: libc("shmat", 0, None, 0), errno.EPERM),
    "a queue that outlives it": ("seccomp", lambda: libc("msgget", 0, 0o1600), errno.EPERM),
    "a semaphore that outlives it": ("seccomp", lambda: libc("semget", 0, 1, 0o1600), errno.EPERM),
    "a queue with a name": ("seccomp", lambda: libc("syscall", MQ_OPEN, b"/q", os.O_CREAT, 0o600, None), errno.EPERM),
    "a file in memory": ("seccomp", lambda: libc("memfd_create", b"x", 0), errno.EPERM),
    "a life after the judge": ("seccomp", lambda: libc("prctl", 1, 0, 0, 0, 0), errno.EPERM),
    "another processor": ("seccomp", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)), errno.EPERM),
    "a call of a newer kernel": ("seccomp", lambda: libc("syscall", kernel.NEWEST + 1), errno.ENOSYS),
    "another ruleset": ("seccomp", lambda: libc("syscall", 444, None, 0, 1), errno.EPERM),
}


# What goes on as before. Each gives back something true.


def run_threads() -> bool:
    with ThreadPoolExecutor(4) as pool:
        return len(list(pool.map(lambda n: torch.randn(n, n).mm(torch.randn(n, n)), range(200, 208)))) == 8


def run_torch_threads() -> bool:
    torch.set_num_threads(2)
    return torch.randn(700, 700).mm(torch.randn(700, 700)).isfinite().all().item()


def use_what_imports_the_compiler() -> bool:
    @torch.library.custom_op("limits::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x = torch.randn(8, 8, requires_grad=True)
    torch.utils.checkpoint.checkpoint(torch.relu, x @ x, use_reentrant=False).sum().backward()
    torch.optim.AdamW([x]).step()
    gradient = torch.func.grad(lambda y: torch.func.vmap(torch.dot)(y, y).sum())(x.detach())
    return torch.allclose(torch.compile(twice)(x.detach()), gradient)


def script() -> bool:
    source = "import torch\ndef double(x: torch.Tensor):\n    return 2 * torch.relu(x)\n"
    linecache.cache["attempt.py"] = (len(source), None, source.splitlines(keepends=True), "attempt.py")
    names: dict[str, Any] = {"__name__": "attempt"}
    exec(compile(source, "attempt.py", "exec"), names)
    ours, theirs = torch.jit.script(names["double"]), torch.jit.script(torch.nn.ReLU())
    return torch.equal(ours(torch.ones(2)), theirs(torch.full((2,), 2.0)))


def profile() -> bool:
    with torch.profiler.profile() as profiler:
        torch.ones(3) + 1
    return any(event.name == "aten::add" for event in profiler.events())


def import_what_is_usual() -> bool:
    for name in "einops jaxtyping safetensors.torch tempfile torch.nn.attention unittest.mock asyncio logging".split():
        importlib.import_module(name)
    warnings.warn("its line of source is out of reach", stacklevel=1)
    return True


def read_and_discard() -> bool:
    with open(STUB) as stub, open("/dev/null", "w") as null, open("/dev/urandom", "rb") as random:
        return null.write(stub.read()) > 0 and len(random.read(1)) == 1 and "softmax.py" in os.listdir(KATAS)


def exhaust_memory() -> bool:
    if sys.platform != "linux":
        return True
    with pytest.raises(MemoryError):
        bytearray(100 << 30)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        torch.empty(100 << 30, dtype=torch.uint8)
    return torch.ones(1 << 20).sum() == 1 << 20


def explain_an_error() -> bool:
    try:
        raise ValueError("its source lines are out of reach")
    except ValueError:
        linecache.clearcache()
        return "out of reach" in traceback.format_exc()


def name_a_thread() -> bool:
    return PRCTL(15, b"a name", 0, 0, 0) == 0


def signal_itself() -> bool:
    caught: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    return len(caught) == 2


FREE = {
    probe.__name__: probe
    for probe in (
        run_threads, run_torch_threads, use_what_imports_the_compiler, script, profile, import_what_is_usual,
        read_and_discard, exhaust_memory, explain_an_error, name_a_thread, signal_itself,
    )
}  # fmt: skip
FATAL = {
    "an abort": (os.abort, signal.SIGABRT),
    "a call by its number of another interface": (lambda: SYSCALL(ctypes.c_long(1 << 30)), signal.SIGSYS),
}


# The server, and the tests that read what came of its probes.


def outcome(layer: str, probe: Probe) -> dict[str, Any]:
    """Take one layer, or all, and probe it."""
    take = {
        "rlimits": lambda: confinement.limit_resources(MEMORY),
        "landlock": lambda: confinement.hide_files([*confinement.DEVICES[:1], KATAS]),
        "seccomp": confinement.refuse_system_calls,
        "all": lambda: confinement.confine([KATAS], MEMORY),
    }
    found: dict[str, Any] = {"layers": take[layer]()}
    if not found["layers"]:
        return found
    try:
        return found | {"value": bool(probe())}
    except BaseException as error:
        text = str(error).replace(STUB, "{STUB}").replace(SOLUTION, "{SOLUTION}").replace(NEW, "{NEW}")
        text = text.replace(KATAS, "{KATAS}").replace(TREE, "{TREE}")
        return found | {"kind": type(error).__name__, "errno": getattr(error, "errno", None), "text": text}


def fork(layer: str, probe: Probe) -> dict[str, Any]:
    """The outcome of a probe in a process of its own, or how that process ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(outcome(layer, probe)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    return json.loads(answer) if answer else {"signal": os.WTERMSIG(status)}


GROUPS: dict[str, dict[str, tuple[str, Probe]]] = {
    "fenced": {name: ("all", probe) for name, (probe, _) in FENCED.items()},
    "walled": {name: (layer, probe) for name, (layer, probe, _) in WALLED.items()},
    "free": {name: ("all", probe) for name, probe in FREE.items()},
    "fatal": {name: ("all", probe) for name, (probe, _) in FATAL.items()},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of every probe."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("katas", "solutions"):
        (tree / folder).mkdir()
        (tree / folder / "softmax.py").write_text("text")
    (tree / "katas/link.py").symlink_to("../solutions/softmax.py")
    command = [sys.executable, "-W", "ignore", "-m", "tests.test_confinement", str(tree)]
    environment = os.environ | {"TORCHDYNAMO_DISABLE": "1", "KINETO_LOG_LEVEL": "9"}
    done = subprocess.run(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", FENCED)
def test_what_is_refused_is_told_why(found: dict, name: str) -> None:
    assert FENCED[name][1] in found["fenced"][name].get("text", ""), found["fenced"][name]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's layers are Linux's")
@pytest.mark.parametrize("name", WALLED)
def test_each_layer_holds_alone(found: dict, name: str) -> None:
    layer, _, number = WALLED[name]
    if not found["walled"][name].get("layers", True):
        pytest.skip(f"this kernel has no {layer}")
    assert found["walled"][name].get("errno") == number, found["walled"][name]


@pytest.mark.parametrize("name", FREE)
def test_computation_goes_on_as_before(found: dict, name: str) -> None:
    assert found["free"][name].get("value"), found["free"][name]


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="x32 is x86_64's")
@pytest.mark.parametrize("name", FATAL)
def test_a_process_dies_of_its_own_signals(found: dict, name: str) -> None:
    assert found["fatal"][name].get("signal") == FATAL[name][1], found["fatal"][name]


def test_confine_says_which_layers_hold(found: dict) -> None:
    held = found["free"]["script"]["layers"]
    alone = {layer for name, (layer, *_) in WALLED.items() if found["walled"][name].get("layers")}
    assert set(held) == alone | {"rlimits", "audit"}


if __name__ == "__main__":
    import torch
    import torch.utils.checkpoint

    print(json.dumps({group: {name: fork(*job) for name, job in jobs.items()} for group, jobs in GROUPS.items()}))
