"""What a worker may not do. Each probe runs confined, once with all layers and once with the kernel's alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dojo import catalog
from dojo.judge import limits

PROBES = """
import ctypes, json, os, socket, subprocess, sys, threading
import torch
sys.path.insert(0, sys.argv[1])
from dojo.judge import limits
if sys.argv[2] == "kernel":
    limits._audit = lambda allowed: False
libc = ctypes.CDLL(None, use_errno=True)
layers = limits.confine([sys.argv[1] + "/katas"], 4 << 30)
def memory_of_parent():
    descriptor = os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY)
def raise_limit():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
def thread():
    box = []
    t = threading.Thread(target=lambda: box.append(1)); t.start(); t.join()
    return box
def grad():
    x = torch.ones(3, requires_grad=True)
    return torch.autograd.grad((x ** 2).sum(), x)[0].tolist()
def new_session():
    if libc.setsid() < 0: raise OSError(ctypes.get_errno(), "refused")
def raw_fork():
    pid = libc.fork()
    if pid == 0: os._exit(0)
    if pid < 0: raise OSError(ctypes.get_errno(), "refused")
probes = {
    "solution": lambda: open(sys.argv[1] + "/solutions/softmax.py").read(),
    "solution by symlink and dots": lambda: open(sys.argv[1] + "/katas/../solutions/softmax.py").read(),
    "git": lambda: os.listdir(sys.argv[1] + "/.git"),
    "password file": lambda: open("/etc/passwd").read(),
    "environment": lambda: open(f"/proc/{os.getppid()}/environ").read(),
    "memory of parent": memory_of_parent,
    "write": lambda: open("/tmp/left-behind", "w"),
    "remove": lambda: os.remove(sys.argv[1] + "/katas/softmax.py"),
    "fork": os.fork,
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "popen": lambda: subprocess.Popen(["true"]),
    "socket": lambda: socket.socket(),
    "kill parent": lambda: os.kill(os.getppid(), 0),
    "raise limit": raise_limit,
    "100 GiB": lambda: torch.ones(25 << 30),
    "a stub": lambda: len(open(sys.argv[1] + "/katas/softmax.py").read()) > 0,
    "einops": lambda: __import__("einops").__name__,
    "thread": thread,
    "gradient": grad,
    "torchscript": lambda: torch.jit.script(torch.nn.Linear(2, 3))(torch.ones(2)).shape[0],
    "vmap": lambda: torch.func.vmap(torch.sin)(torch.zeros(2)).tolist(),
    "linalg": lambda: torch.linalg.svd(torch.eye(40)).S.sum().item(),
}
if sys.argv[2] == "kernel":
    probes |= {"raw fork": raw_fork, "new session": new_session}
told = {}
for name, probe in probes.items():
    try:
        told[name] = ["done", probe()]
    except BaseException as error:
        told[name] = [type(error).__name__, str(error)]
print(json.dumps({"layers": layers, "told": told}, default=str))
"""
FREE = {"a stub", "einops", "thread", "gradient", "torchscript", "vmap", "linalg"}


@pytest.fixture(scope="module", params=["all", "kernel"])
def confined(request: pytest.FixtureRequest) -> tuple[str, dict]:
    """Which layers are on, and what came of each probe."""
    command = [sys.executable, "-W", "ignore", "-I", "-c", PROBES, str(catalog.ROOT), request.param]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return request.param, json.loads(run.stdout)


def test_every_layer_holds_where_the_system_has_it(confined: tuple[str, dict]) -> None:
    expected = ["rlimits", "landlock", "seccomp"] if sys.platform == "linux" else ["rlimits"]
    assert confined[1]["layers"] == expected + (["audit"] if confined[0] == "all" else [])


def test_what_an_attempt_needs_works(confined: tuple[str, dict]) -> None:
    assert {name: told[0] for name, told in confined[1]["told"].items() if name in FREE} == dict.fromkeys(FREE, "done")


def test_all_else_is_refused(confined: tuple[str, dict]) -> None:
    refused = {name: told for name, told in confined[1]["told"].items() if name not in FREE}
    assert [name for name, told in refused.items() if told[0] == "done"] == []
    assert refused["100 GiB"][0] == "RuntimeError"


def test_the_audit_hook_says_what_was_refused(confined: tuple[str, dict]) -> None:
    layer, found = confined
    if layer == "all":
        assert "it may read only its own file and the stubs" in found["told"]["solution"][1]
        assert "may not start processes (os.fork)" in found["told"]["fork"][1]
        assert "may not use the network" in found["told"]["socket"][1]
        assert "may not write files" in found["told"]["write"][1]


def test_the_environment_may_lie_inside_the_project_and_stay_readable() -> None:
    project = limits.PROJECT
    hook = limits._hook((f"{project}/.nox/dojo", f"{project}/katas"), 1)
    hook("open", (f"{project}/.nox/dojo/lib/x.py", "r", 0))
    with pytest.raises(PermissionError):
        hook("open", (f"{project}/graders/softmax.py", "r", 0))


def test_the_project_may_lie_inside_a_readable_folder_and_stay_hidden() -> None:
    hook = limits._hook((limits.PROJECT.rpartition("/")[0] or "/",), 1)
    with pytest.raises(PermissionError):
        hook("open", (f"{limits.PROJECT}/solutions/softmax.py", "r", 0))
