"""What a worker may do to the world: compute, and read Python's own files and the stubs. Nothing else.

Four layers, each of which may be missing on some system: resource limits; Landlock, which closes the file system and
TCP; a seccomp filter, which closes processes, sockets and other processes' memory; and an audit hook, which says in
words what the kernel would refuse with a number. None of them needs rights that a user lacks. Together they stop
accidents and casual cheating; hostile native code needs a container.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

PROJECT = str(Path(__file__).resolve().parents[2])
OPEN_FILES = 256

SYSTEM_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/sys/devices/system/cpu")
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/vm/overcommit_memory",
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38


def confine(readable: Sequence[str], memory: int | None) -> list[str]:
    """Confine this process for good; returns the layers that took hold.

    `readable` are files and folders it may read besides Python's own; `memory` is how many bytes of address space it
    may add to what it has, None for no limit (CUDA reserves far more than it uses).
    """
    allowed = [os.path.realpath(path) for path in (*_pythons_own(), *readable) if os.path.exists(path)]
    layers = [("rlimits", lambda: _limit_resources(memory))]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        layers += [("landlock", lambda: _landlock(libc, allowed)), ("seccomp", lambda: _seccomp(libc))]
    # Last, because from then on Python code may not use ctypes.
    layers.append(("audit", lambda: _audit(allowed)))
    return [name for name, apply in layers if apply()]


def _pythons_own() -> list[str]:
    """Where Python and its packages lie, and what the system's libraries read of the machine."""
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    own = [f"/proc/{os.getpid()}/{name}" for name in ("comm", "maps", "stat", "statm", "status")]
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.__file__)]
    return [*prefixes, *packages, *SYSTEM_FOLDERS, *SYSTEM_FILES, *DEVICES, *own]


def _limit_resources(memory: int | None) -> bool:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails with a sentence instead of killing
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: OPEN_FILES}
    if memory is not None:
        limits[resource.RLIMIT_AS] = memory + _address_space()
    for which, limit in limits.items():
        hard = resource.getrlimit(which)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(which, (limit, limit))
        except (ValueError, OSError):  # macOS refuses some of them
            continue
    return True


def _address_space() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


# Landlock: include/uapi/linux/landlock.h
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_FILE_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_FILE_RIGHTS = (1 << 16) - 1
_TCP_RIGHTS, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals


def _landlock(libc: ctypes.CDLL, allowed: list[str]) -> bool:
    abi = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if abi < 1:
        return False
    rights = _FILE_RIGHTS_BY_ABI.get(abi, _FILE_RIGHTS)
    handled = [rights, _TCP_RIGHTS, _SCOPES][: 1 if abi < 4 else 2 if abi < 6 else 3]
    attribute = struct.pack(f"={len(handled)}Q", *handled)
    ruleset = libc.syscall(_CREATE_RULESET, attribute, len(attribute), 0)
    if ruleset < 0:
        return False
    for path in allowed:
        access = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE
        access |= _WRITE_FILE if path == os.devnull else 0
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", access, descriptor), 0)
        os.close(descriptor)
    held = libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return held


# System calls by name: numbers on x86_64 and aarch64 (None where there is no such call).
_SYSCALLS = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "personality": (135, 92),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "setrlimit": (160, 164),
    "seccomp": (317, 277),
}
_CLONE, _CLONE3, _PRLIMIT = (56, 220), (435, 435), (302, 261)
_SIGNALLING = ((62, 129), (200, 130), (234, 131))  # kill, tkill, tgkill: the first argument is whom
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH_*

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE = 0x00050000 | errno.EPERM
_UNKNOWN = 0x00050000 | errno.ENOSYS  # makes the C library fall back to clone, whose flags can be looked at
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data; arguments are eight bytes each
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000

Instruction = tuple[int, int, int, int]


def _seccomp(libc: ctypes.CDLL) -> bool:
    if platform.machine() not in _ARCHITECTURES or sys.byteorder != "little":
        return False
    column, architecture = _ARCHITECTURES[platform.machine()]
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for numbers in _SYSCALLS.values():
        if numbers[column] is not None:
            program += _on(numbers[column], [(_RETURN, 0, 0, _REFUSE)])
    program += _on(_CLONE3[column], [(_RETURN, 0, 0, _UNKNOWN)])
    program += _on(_CLONE[column], _only_if(_ANY_BIT, _CLONE_THREAD, _ARGUMENT))
    for numbers in _SIGNALLING:
        program += _on(numbers[column], _only_if(_EQUAL, os.getpid(), _ARGUMENT))
    new_limit = _ARGUMENT + 2 * 8  # a null pointer only asks
    program += _on(_PRLIMIT[column], _only_if(_EQUAL, 0, new_limit))
    program.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    header = struct.pack("@HP", len(program), ctypes.addressof(code))
    return libc.prctl(PR_SET_SECCOMP, 2, header, 0, 0) == 0


def _on(number: int, block: list[Instruction]) -> list[Instruction]:
    """Run `block`, which ends in a return, for this system call; skip it for any other."""
    return [(_EQUAL, 0, len(block), number), *block]


def _only_if(test: int, value: int, offset: int) -> list[Instruction]:
    """Allow the call if the low half of the word at `offset` passes the test, else refuse it."""
    return [(_LOAD, 0, 0, offset), (test, 0, 1, value), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]


_PROCESSES = frozenset(
    "os.fork os.forkpty os.exec os.posix_spawn os.spawn os.system subprocess.Popen pty.spawn".split()
)
_CHANGES = frozenset(
    (
        "os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.truncate os.chmod os.chown os.utime "
        "os.mkfifo os.mknod os.setxattr shutil.rmtree shutil.move shutil.copyfile shutil.copytree "
        "tempfile.mkstemp tempfile.mkdtemp"
    ).split()
)
_LISTINGS = frozenset("os.listdir os.scandir".split())
_SIGNALS = frozenset("os.kill os.killpg".split())
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _audit(allowed: list[str]) -> bool:
    sys.addaudithook(_hook(tuple(allowed), os.getpid()))
    return True


def _hook(allowed: tuple[str, ...], pid: int) -> Callable[[str, tuple], None]:
    # All that it needs is bound here: an attempt that patches modules does not reach into a closure. A folder opened
    # for use with dir_fd is refused like any other, so relative names are names below the (empty) working folder.
    realpath, fsdecode, devnull, project = os.path.realpath, os.fsdecode, os.devnull, PROJECT
    processes, changes, listings, signals, writing = _PROCESSES, _CHANGES, _LISTINGS, _SIGNALS, _WRITING

    def below(path: str, folder: str) -> bool:
        return path == folder or path.startswith(folder.rstrip("/") + "/")

    def readable(path: object) -> bool:
        if isinstance(path, int):
            return True
        real = realpath(fsdecode(path))
        depth = max((len(folder) for folder in allowed if below(real, folder)), default=-1)
        # The project may lie inside a folder that is allowed, as the environment may lie inside the project.
        return depth > (len(project) if below(real, project) else -1)

    def hook(event: str, args: tuple) -> None:
        if event == "open":
            path, mode, flags = args
            if (flags or 0) & writing or (isinstance(mode, str) and any(c in mode for c in "wax+")):
                if not isinstance(path, int) and path != devnull:
                    raise PermissionError(f"an attempt may not write files ({path})")
            elif not readable(path):
                raise PermissionError(f"an attempt may not open {path}: it may read only its own file and the stubs")
        elif event in listings:
            if not readable(args[0] or "."):
                raise PermissionError(f"an attempt may not list {args[0] or '.'}")
        elif event in processes:
            raise PermissionError(f"an attempt may not start processes ({event})")
        elif event.startswith("socket."):
            raise PermissionError(f"an attempt may not use the network ({event})")
        elif event.startswith("ctypes."):
            raise PermissionError(f"an attempt may not reach into memory ({event})")
        elif event in changes:
            raise PermissionError(f"an attempt may not change files ({event})")
        elif event in signals and args[0] != pid:
            raise PermissionError(f"an attempt may not send signals to other processes ({event})")
        elif event == "resource.setrlimit":
            raise PermissionError("an attempt may not change its limits")

    return hook
