"""What the process of an attempt may do: compute. It may not read the solutions, write, start processes or call out.

Four layers, each taken where the platform has it. The kernel's own (resource limits, Landlock, seccomp) are the wall:
no Python code undoes them. The audit hook is the fence before the wall: it refuses with a sentence that a user can act
on, and it is what is left on macOS. A determined attempt can climb it (`ctypes.memmove` raises no event), so nothing
that matters may rest on it alone.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess  # noqa: F401  torch's lazy parts want it imported, and afterwards its C half may not be
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from dojo.judge.worker.isolation.kernel import DEVICES, forget_libc, hide_files, refuse_system_calls

OPEN_FILES = 256

SYSTEM = (
    "/lib /lib64 /usr/lib /usr/lib64 /usr/local/lib /usr/local/cuda /usr/local/nvidia /usr/share/zoneinfo "
    "/etc/ld.so.cache /etc/localtime /dev/urandom /dev/random /dev/zero /proc/cpuinfo /proc/meminfo /proc/stat "
    "/sys/devices/system/cpu /sys/devices/system/clocksource "
    "/proc/self/cmdline /proc/self/maps /proc/self/stat /proc/self/statm /proc/self/status"
).split()


def confine(readable: Sequence[str], memory: int | None) -> list[str]:
    """Confine this process for good; returns the layers that took hold.

    Call it while the process has no other threads but those of a GPU's driver: Landlock binds the calling thread and
    those it will start. Open descriptors stay usable: hold none that the attempt should not.

    Args:
        readable: absolute files and folders that the attempt may read, beyond what Python and torch need.
        memory: bytes of address space beyond what is in use now; None on CUDA, which reserves more than there is.
    """
    # Half of torch wants a folder for its caches on import, and would make one: this one exists, and stays shut.
    tempfile.tempdir = os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/tmp"
    found = {os.path.realpath(path) for path in (*needed(), *readable) if os.path.exists(path)}
    layers: dict[str, Callable[[], bool]] = {
        "rlimits": lambda: limit_resources(memory),
        "landlock": lambda: hide_files(sorted(found)),
        "seccomp": refuse_system_calls,
        "audit": lambda: explain_refusals(sorted(found)),  # last: the two before it need ctypes
    }
    held = [name for name, take in layers.items() if take()]
    forget_libc()
    return held


def keep_to(core: int | None) -> None:
    """Keep this process and those it will start to one processor, where the system has a say in it and lets us."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {core})


def needed() -> list[str]:
    """What Python and torch read by themselves. Never a whole prefix: an environment may share it with a project."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    libraries = [os.path.join(prefix, name) for prefix in prefixes for name in ("lib", "lib64")]
    paths = sysconfig.get_paths()
    packages = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    torch = getattr(sys.modules.get("torch"), "__path__", [])
    return [*SYSTEM, *DEVICES, *libraries, *packages, *torch, sys.executable]


def limit_resources(memory: int | None) -> bool:
    """No core dump, no byte in a file, few descriptors, and so much memory and no more."""
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: OPEN_FILES}
    if sys.platform == "darwin":
        wanted[resource.RLIMIT_NPROC] = 0  # elsewhere this counts threads as well, and seccomp does better
    elif memory is not None and os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        wanted[resource.RLIMIT_AS] = used + memory
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a refused write is then an OSError, not the end
    for which, value in wanted.items():
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
    return True


REFUSED = tuple(
    (verb, frozenset(events.split()))
    for verb, events in {
        "start processes": "subprocess pty os.fork os.forkpty os.exec os.posix_spawn os.spawn os.system",
        "use the network": "socket",
        "signal other processes": "os.kill os.killpg",
        "change files": "os.remove os.rename os.mkdir os.rmdir os.link os.symlink os.truncate os.chmod os.chown "
        "os.utime os.chflags os.setxattr os.removexattr",
        "open databases": "sqlite3",
        "leave Python": "ctypes",
        "change its own limits": "resource.setrlimit resource.prlimit sys.addaudithook cpython.PyInterpreterState_New",
        # What the collector gives away is this hook itself, and the dictionaries of built-in types.
        "search the interpreter": "gc.get_objects gc.get_referrers gc.get_referents",
    }.items()
)

EVENTS = frozenset().union(*(events for _, events in REFUSED))
# Modules that do such things without an event of their own, or run code where no hook is.
BARRED = frozenset("_posixsubprocess _xxsubinterpreters _interpreters _testcapi _testinternalcapi".split())


def _real(path: str, getcwd: Any = os.getcwd, readlink: Any = os.readlink, failed: Any = OSError) -> str:
    """`os.path.realpath`, of which an attempt could patch the parts."""
    done, links = "", 0
    todo = (path if path.startswith("/") else f"{getcwd()}/{path}").split("/")[::-1]
    while todo:
        part = todo.pop()
        if part == "..":
            done = done.rpartition("/")[0]
        elif part and part != ".":
            try:
                target = readlink(f"{done}/{part}")
            except failed:  # no link, or nothing there
                done = f"{done}/{part}"
                continue
            links += 1
            if links > 40:
                raise failed(f"too many symbolic links: {path}")
            done = "" if target.startswith("/") else done
            todo += target.split("/")[::-1]
    return done or "/"


def explain_refusals(readable: Sequence[str]) -> bool:
    """Refuse with a sentence, from an audit hook, what the layers below refuse with a number."""
    inside = tuple(path.rstrip("/") + "/" for path in readable)
    own = os.getpid()
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def judge_path(
        path: Any, flags: int, verb: str, inside: Any = inside, devices: Any = DEVICES, writing: int = writing,
        real: Any = _real, stat: Any = os.stat, kind: Any = type, text: Any = str, raw: Any = bytes, number: Any = int,
        refusal: Any = PermissionError, failed: Any = OSError,
    ) -> None:  # fmt: skip
        if kind(path) is number:
            return  # a descriptor that it has already
        if path is None:
            path = "."
        if kind(path) is raw:
            path = path.decode("utf-8", "surrogateescape")
        if kind(path) is not text:  # its `__fspath__` could tell Python one path and this hook another
            raise refusal(f"an attempt may not {verb} a {kind(path).__name__}: give the path as a str")
        place = real(path)
        if place in devices:
            return
        if flags & writing:
            raise refusal(f"an attempt may not write {path}: it may only compute")
        if not f"{place}/".startswith(inside):
            raise refusal(f"an attempt may not {verb} {path}: it may read only its own file and the other stubs")
        try:
            folder = verb == "open" and stat(place).st_mode & 0o170000 == 0o040000
        except failed:
            return  # let Python say that there is no such file
        if folder:  # a path relative to a descriptor (dir_fd) would look to this hook like another path
            raise refusal(f"an attempt may not open the folder {path}: list it by its name")

    def hook(
        event: str, args: tuple[Any, ...], judge_path: Any = judge_path, real: Any = _real, own: int = own,
        barred: Any = BARRED, refused: Any = REFUSED, events: Any = EVENTS, refusal: Any = PermissionError,
    ) -> None:  # fmt: skip
        family = event.partition(".")[0]
        if event == "open":
            judge_path(args[0], args[2], "open")
        elif event == "os.listdir" or event == "os.scandir":
            judge_path(args[0], 0, "list")
        elif event == "import" and args[0] in barred:
            raise refusal(f"an attempt may not import {args[0]}")
        elif event == "object.__setattr__" and (args[0] is judge_path or args[0] is real):
            raise refusal(f"an attempt may not rewrite the judge ({args[1]})")
        elif (event in events or family in events) and not (event == "os.kill" and args[0] == own):
            for verb, names in refused:
                if event in names or family in names:
                    raise refusal(f"an attempt may not {verb} ({event})")

    sys.addaudithook(hook)
    return True
