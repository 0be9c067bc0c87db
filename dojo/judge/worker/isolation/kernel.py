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


def forget_libc() -> None:
    """Leave no ready-made way to the kernel here, for whoever finds this module."""
    global _libc
    del _libc


def die_with_parent(by: int = signal.SIGKILL) -> None:
    """Have this process ended by this signal when the one that started it ends, however it ends."""
    if sys.platform == "linux":
        _call(_libc.prctl, 1, by, 0, 0, 0)


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


# What Python, torch and CUDA's driver, once it has begun, ask of the kernel: to compute in threads, with memory, clocks
# and open files. All else is refused, of what this page was written for and of what comes after it: shared memory and
# queues that outlive a process, sockets, programs, other processes, files by other names than a path's.
# name:x86_64:aarch64, or one number where they agree
ALLOWED = """
    read:0:63 write:1:64 readv:19:65 writev:20:66 pread64:17:67 pwrite64:18:68 preadv:295:69 pwritev:296:70
    preadv2:327:286 pwritev2:328:287 lseek:8:62 close:3:57 close_range:436 open:2: openat:257:56 openat2:437
    fstat:5:80 newfstatat:262:79 stat:4: lstat:6: statx:332:291 statfs:137:43 fstatfs:138:44 access:21:
    faccessat:269:48 faccessat2:439 readlink:89: readlinkat:267:78 getdents:78: getdents64:217:61 getcwd:79:17
    chdir:80:49 fchdir:81:50 fcntl:72:25 flock:73:32 fadvise64:221:223 readahead:187:213 dup:32:23 dup2:33:
    dup3:292:24 pipe:22: pipe2:293:59 ioctl:16:29 umask:95:166

    mmap:9:222 munmap:11:215 mprotect:10:226 mremap:25:216 madvise:28:233 brk:12:214 mincore:27:232 mlock:149:228
    mlock2:325:284 munlock:150:229 msync:26:227 mbind:237:235 get_mempolicy:239:236 set_mempolicy:238:237
    set_mempolicy_home_node:450 pkey_mprotect:329:288 pkey_alloc:330:289 pkey_free:331:290 map_shadow_stack:453
    mseal:462 membarrier:324:283

    futex:202:98 futex_waitv:449 futex_wake:454 futex_wait:455 futex_requeue:456 exit:60:93 exit_group:231:94
    set_tid_address:218:96 set_robust_list:273:99 get_robust_list:274:100 rseq:334:293 arch_prctl:158:
    restart_syscall:219:128 sched_yield:24:124 sched_getaffinity:204:123 sched_getparam:143:121
    sched_getscheduler:145:120 sched_get_priority_max:146:125 sched_get_priority_min:147:126
    sched_rr_get_interval:148:127 sched_getattr:315:275 getpriority:140:141 getcpu:309:168 wait4:61:260 waitid:247:95
    rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 rt_sigpending:127:136 rt_sigsuspend:130:133
    rt_sigtimedwait:128:137 sigaltstack:131:132 pause:34:

    alarm:37: getitimer:36:102 setitimer:38:103 nanosleep:35:101 clock_nanosleep:230:115 clock_gettime:228:113
    clock_getres:229:114 gettimeofday:96:169 time:201: times:100:153 getrusage:98:165 timer_create:222:107
    timer_settime:223:110 timer_gettime:224:108 timer_getoverrun:225:109 timer_delete:226:111 timerfd_create:283:85
    timerfd_settime:286:86 timerfd_gettime:287:87 poll:7: ppoll:271:73 select:23: pselect6:270:72 epoll_create:213:
    epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232: epoll_pwait:281:22 epoll_pwait2:441 eventfd:284:
    eventfd2:290:19 signalfd:282: signalfd4:289:74

    sendto:44:206 recvfrom:45:207 sendmsg:46:211 recvmsg:47:212 shutdown:48:210 getsockopt:55:209 setsockopt:54:208
    getsockname:51:204 getpeername:52:205

    getpid:39:172 getppid:110:173 gettid:186:178 getpgid:121:155 getpgrp:111: getsid:124:156 getuid:102:174
    geteuid:107:175 getgid:104:176 getegid:108:177 getresuid:118:148 getresgid:120:150 getgroups:115:158 capget:125:90
    uname:63:160 sysinfo:99:179 getrandom:318:278 getrlimit:97:163
"""
NEWEST = 471  # the last system call of the time of writing: libc tries newer ones, and takes ENOSYS for an answer

AT_TIMES = "clone:56:220 kill:62:129 tgkill:234:131 prlimit64:302:261 clone3:435 prctl:157:167"
NAMING = (3, 15, 16, 0x53564D41)  # of prctl: PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
COLUMN = {"x86_64": 0, "aarch64": 1}
SECCOMP = {"x86_64": 317, "aarch64": 277}
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE_THREAD = 0x10000
# linux/bpf_common.h and linux/seccomp.h: each instruction is (code, steps if true, steps if false, operand)
LOAD, EQUAL, ABOVE, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
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
        *(step for number in _numbers(ALLOWED).values() for step in [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]),
        *_refuse(at["clone"], errno.EPERM, (0, ANY_BIT, CLONE_THREAD)),
        *_refuse(at["clone3"], errno.ENOSYS),  # its flags lie out of sight; libc then uses clone
        *_refuse(at["kill"], errno.EPERM, (0, EQUAL, own)),
        *_refuse(at["tgkill"], errno.EPERM, (0, EQUAL, own)),  # abort() sends itself a signal
        *_refuse(at["prlimit64"], errno.EPERM, (4, EQUAL, 0), (5, EQUAL, 0)),  # no new limit: it only asks
        (EQUAL, 0, 2 + 2 * len(NAMING), at["prctl"]),
        (LOAD, 0, 0, 16),
        *(step for option in NAMING for step in [(EQUAL, 0, 1, option), (RETURN, 0, 0, ALLOW)]),
        (RETURN, 0, 0, ERROR | errno.EPERM),
        (ABOVE, 0, 1, NEWEST),
        (RETURN, 0, 0, ERROR | errno.ENOSYS),
        (RETURN, 0, 0, ERROR | errno.EPERM),
    ]


def refuse_system_calls() -> bool:
    """seccomp: threads and computation go on; whatever else is asked of the kernel fails with EPERM."""
    if _MACHINE not in ARCHITECTURE:
        return False
    steps = _program()
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = struct.pack("HP", len(steps), _address(code))
    _renounce_privileges()
    try:
        # SECCOMP_SET_MODE_FILTER and SECCOMP_FILTER_FLAG_TSYNC: for all threads, since a GPU's driver has some by now
        return _call(_libc.syscall, SECCOMP[_MACHINE], 1, 1, _address(program)) == 0
    except OSError:  # a kernel built without it
        return False
