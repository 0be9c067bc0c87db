"""The pristine process that workers are forked from. It has imported torch, and runs nothing itself.

Nor does it use a GPU, for a context of CUDA does not survive a fork: each worker begins its own.

Started by `judge.fork_server` as a script, with a bare environment, so that no secret of the user's is in its memory.
It answers one JSON line a request on its control socket: `fork` (two descriptors travel along), `kill` (kill a worker's
process group and say how it ended), `split` (fork another zygote on the descriptor that travels along, which keeps to
one processor if the request names it, and loads ahead what torch loads at first use if it says so) and `await` (its
end). When the judge is gone, it kills what is left and goes too.

The judge may be a fork of it as well, made before any worker: torch is then imported once for both.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys


def import_torch() -> None:
    """Import torch deaf to NumPy, so that no tensor can leave for an array; NumPy itself stays importable."""
    import warnings

    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    sys.modules["numpy"] = None  # type: ignore[assignment]
    import torch
    import torch.utils._python_dispatch

    with contextlib.suppress(RuntimeError):
        torch.empty(0).numpy()  # torch looks for NumPy once, on first use: this is that look
    del sys.modules["numpy"]
    # Tables may come from arrays: this copies them, in sight of who looks for arrays at a call.
    torch.from_numpy = torch.as_tensor  # type: ignore[assignment]  # it takes more than arrays
    torch.set_num_threads(1)
    with contextlib.suppress(ImportError):
        import jaxtyping  # noqa: F401  # every stub imports it: here once, and not in every worker


def load_ahead() -> None:
    """Load what torch itself loads at first use, a thousand modules and more, once and not in every worker."""
    import torch

    torch.testing.assert_close(torch.ones(1), torch.ones(1))
    torch.func.vmap(torch.neg)(torch.ones(1))
    torch.optim.SGD([torch.ones(1)])
    10.0 ** torch.arange(2, device="meta")  # a module built without memory
    gc.collect()
    gc.freeze()


def kill(pid: int) -> int:
    """Kill the worker's whole process group; returns its wait status, which tells whether it had died before."""
    done, status = os.waitpid(pid, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return status


def become_worker(channel: int, output: int) -> None:
    """Turn this process into a worker; never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        serving.serve(socket.socket(fileno=channel))
    except BaseException:
        sys.excepthook(*sys.exc_info())  # the judge shows what a worker has printed
    finally:
        os._exit(70)


def fork_judge(project: str, name: str, channel: int) -> tuple[int, socket.socket]:
    """Fork the judge, `module:function`, which takes its channel to who started us and its control socket.

    Returns its process id and our end of the control. When who started us ends, we do, and with us the judge.
    """
    ours, theirs = socket.socketpair()

    def stop(*_: object) -> None:
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)  # as if the judge were gone

    signal.signal(signal.SIGTERM, stop)
    kernel.die_with_parent(signal.SIGTERM)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            kernel.die_with_parent()
            sys.path.insert(0, project)
            sys.dont_write_bytecode = False
            module, _, function = name.partition(":")
            getattr(importlib.import_module(module), function)(channel, theirs)
        finally:
            os._exit(0)
    theirs.close()
    os.close(channel)
    return pid, ours


def serve(control: socket.socket) -> None:
    """Answer requests until the judge closes the control socket."""
    alive: set[int] = set()
    with contextlib.suppress(ConnectionError):  # a judge that was killed leaves its end with words unread
        while True:
            line, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 2)
            if not line:
                break
            request = json.loads(line)
            if "split" in request:
                pid = os.fork()
                if pid == 0:
                    control.close()
                    confinement.keep_to(request["split"])
                    if request["warm"]:
                        load_ahead()
                    serve(socket.socket(fileno=descriptors[0]))
                    os._exit(0)
                os.close(descriptors[0])
                answer = {"pid": pid}
            elif "await" in request:
                answer = {"status": os.waitpid(request["await"], 0)[1]}
            elif "fork" in request:
                pid = os.fork()
                if pid == 0:
                    os.setsid()
                    control.close()
                    become_worker(*descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)
                alive.add(pid)
                answer = {"pid": pid}
            else:
                alive.discard(request["kill"])
                answer = {"status": kill(request["kill"])}
            control.send(json.dumps(answer).encode())
    for pid in alive:
        kill(pid)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the judge's to handle; it then closes our socket
    project, descriptors = sys.argv[1], [int(number) for number in sys.argv[2].split(",")]
    gc.disable()  # what is imported stays
    import_torch()
    sys.path.insert(0, project)
    from dojo.judge.worker import serving
    from dojo.judge.worker.isolation import confinement, kernel

    sys.path.remove(project)
    gc.freeze()  # no collection in a worker need walk all of torch, for a tenth of a second
    gc.enable()
    if len(sys.argv) > 3:
        judge, control = fork_judge(project, sys.argv[3], descriptors[0])
        serve(control)
        os.kill(judge, signal.SIGKILL)
        os.waitpid(judge, 0)
    elif len(descriptors) > 1:  # not a zygote after all: one worker, started afresh
        become_worker(*descriptors)
    else:
        serve(socket.socket(fileno=descriptors[0]))
    os._exit(0)  # nothing is left to be done, and the interpreter would take torch apart first
