"""The kernel's own layers around an attempt, which no Python code undoes: Landlock for files, seccomp for calls."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import signal
import struct
import sys
from collections.abc import Sequence
from typing import Any

DEVICES = ("/dev/null", *glob.glob("/dev/nvidia*"))  # may be written too: nothing is kept there
_libc = ctypes.CDLL(None, use_errno=True)
_MACHINE = os.uname().machine if sys.platform == "linux" else ""


def _call(function: Any, *arguments: int) -> int:
    """A C function of long integers; -1 is an OSError."""
    function.restype = ctypes.c_long
    result: int = function(*(ctypes.c_long(argument) for argument in arguments))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def die_with_parent() -> None:
    """Have this process killed when the one that it was forked from ends, however it ends."""
    if sys.platform == "linux":
        _call(_libc.prctl, 1, signal.SIGKILL, 0, 0, 0)


def _renounce_privileges() -> None:
    """Promise never to gain a privilege (PR_SET_NO_NEW_PRIVS), for which the kernel lets anyone confine himself."""
    _call(_libc.prctl, 38, 1, 0, 0, 0)


# include/uapi/linux/landlock.h
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
FILE_RIGHTS = (0, 13, 14, 15, 15, 16)  # by version of the interface, how many there are; a later one has the last
TCP = 0b11  # bind and connect
SCOPES = 0b11  # abstract sockets and signals stay within the process


def hide_files(readable: Sequence[str]) -> bool:
    """Landlock: these files and folders may be read and the devices used; no other file, and no TCP port."""
    if not _MACHINE:
        return False
    try:
        version = _call(_libc.syscall, CREATE_RULESET, 0, 0, 1)
    except OSError:  # a kernel built or booted without it
        return False
    rights = (1 << FILE_RIGHTS[min(version, 5)]) - 1
    handled = struct.pack("=QQQ", rights, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    ruleset = _call(_libc.syscall, CREATE_RULESET, _address(handled), len(handled), 0)
    for path in readable:
        allowed = READ_FILE | READ_DIR if os.path.isdir(path) else READ_FILE
        if path in DEVICES:
            allowed |= WRITE_FILE | TRUNCATE | IOCTL_DEV
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", allowed & rights, place)
        _call(_libc.syscall, ADD_RULE, ruleset, 1, _address(rule), 0)
        os.close(place)
    _renounce_privileges()
    _call(_libc.syscall, RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return True


def _address(data: bytes) -> int:
    """Where the bytes lie; they must outlive the use."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


# name:x86_64:aarch64, or one number where they agree
NEVER = """
    fork:57: vfork:58: execve:59:221 execveat:322:281 ptrace:101:117 process_vm_readv:310:270
    process_vm_writev:311:271 process_madvise:440 kcmp:312:272 pidfd_open:434 pidfd_getfd:438 pidfd_send_signal:424
    tkill:200:130 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 setsid:112:157 setpgid:109:154
    socket:41:198 socketpair:53:199 connect:42:203 bind:49:200 listen:50:201 accept:43:202 accept4:288:242
    io_uring_setup:425 io_uring_enter:426 io_uring_register:427
    chmod:90: fchmod:91:52 fchmodat:268:53 fchmodat2:452 chown:92: fchown:93:55 lchown:94: fchownat:260:54
    utime:132: utimes:235: utimensat:280:88 futimesat:261: setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7
    setxattrat:463 removexattr:197:14 lremovexattr:198:15 fremovexattr:199:16 removexattrat:466
    name_to_handle_at:303:264 open_by_handle_at:304:265 memfd_create:319:279
    unshare:272:97 setns:308:268 chroot:161:51 pivot_root:155:41 mount:165:40 umount2:166:39 open_tree:428
    move_mount:429 fsopen:430 fsconfig:431 fsmount:432 fspick:433 mount_setattr:442 open_tree_attr:467
    setrlimit:160:164 seccomp:317:277 landlock_create_ruleset:444 landlock_add_rule:445 landlock_restrict_self:446
    personality:135:92 keyctl:250:219 add_key:248:217 request_key:249:218 userfaultfd:323:282 bpf:321:280
    perf_event_open:298:241 init_module:175:105 finit_module:313:273 delete_module:176:106 kexec_load:246:104
    reboot:169:142 settimeofday:164:170 clock_settime:227:112
"""

AT_TIMES = "clone:56:220 kill:62:129 tgkill:234:131 prlimit64:302:261 clone3:435"
COLUMN = {"x86_64": 0, "aarch64": 1}
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE_THREAD = 0x10000
# linux/bpf_common.h and linux/seccomp.h: each instruction is (code, steps if true, steps if false, operand)
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
Instruction = tuple[int, int, int, int]


def _numbers(table: str) -> dict[str, int]:
    """The system calls of a table that this machine has."""
    rows = (row.split(":") for row in table.split())
    found = {name: numbers[COLUMN[_MACHINE] if len(numbers) > 1 else 0] for name, *numbers in rows}
    return {name: int(number) for name, number in found.items() if number}


def _refuse(number: int, code: int, *unless: tuple[int, int, int]) -> list[Instruction]:
    """Fail this system call with an error code; unless all these hold, each (32 bits of an argument, test, operand)."""
    block: list[Instruction] = []
    for step, (half, test, operand) in enumerate(unless, 1):
        block += [(LOAD, 0, 0, 16 + 4 * half), (test, 0, 2 * (len(unless) - step) + 1, operand)]
    block += [(RETURN, 0, 0, ALLOW)] * bool(unless) + [(RETURN, 0, 0, ERROR | code)]
    return [(EQUAL, 0, len(block), number), *block]


def _program() -> list[Instruction]:
    """The filter of system calls, over the kernel's `struct seccomp_data`; little-endian, as both machines are."""
    at = _numbers(AT_TIMES)
    own = os.getpid()
    return [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, ARCHITECTURE[_MACHINE]),
        (RETURN, 0, 0, KILL),  # a 32-bit call has other numbers
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, 0x40000000),
        (RETURN, 0, 0, KILL),  # and so has an x32 one
        *(step for number in _numbers(NEVER).values() for step in _refuse(number, errno.EPERM)),
        *_refuse(at["clone"], errno.EPERM, (0, ANY_BIT, CLONE_THREAD)),
        *_refuse(at["clone3"], errno.ENOSYS),  # its flags lie out of sight; libc then uses clone
        *_refuse(at["kill"], errno.EPERM, (0, EQUAL, own)),
        *_refuse(at["tgkill"], errno.EPERM, (0, EQUAL, own)),  # abort() sends itself a signal
        *_refuse(at["prlimit64"], errno.EPERM, (4, EQUAL, 0), (5, EQUAL, 0)),  # no new limit: it only asks
        (RETURN, 0, 0, ALLOW),
    ]


def refuse_system_calls() -> bool:
    """seccomp: threads and computation go on; what reaches beyond the process fails with EPERM."""
    if _MACHINE not in ARCHITECTURE:
        return False
    steps = _program()
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = struct.pack("HP", len(steps), _address(code))
    _renounce_privileges()
    try:
        _call(_libc.prctl, 22, 2, _address(program), 0, 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    except OSError:  # a kernel built without it
        return False
    return True
