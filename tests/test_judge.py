"""The judge and its workers: calls, gradients, modules, faults, clocks and what is seen of an attempt."""

from __future__ import annotations

import linecache
import os
import pdb
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import pytest
import torch

from dojo.content import catalog
from dojo.contracts.checks.timing import race
from dojo.judge import fork_server, proxy, worker_handle
from dojo.judge.protocol import ARGUMENTS, PickledCells
from dojo.judge.worker.errors import explain
from dojo.judge.worker.readings.instrumentation import OF_CUDA, counting
from dojo.verdict.failures import Died, Fault, Forbidden, Raised
from dojo.verdict.types import Label, Outcome
from tests.conftest import Grade, failures

SOURCE = """
import threading
import torch
from torch import nn

def double(x): return 2 * x
def cube(x): return x ** 3
def stop(x): raise ValueError(f"no {tuple(x.shape)}")
def say(x): print("hello"); return x
def leave(x): import os; os._exit(3)
def spin(x):
    while True: pass
def softmax_in_thread(x):
    box = []
    t = threading.Thread(target=lambda: box.append(torch.softmax(x, -1)))
    t.start(); t.join()
    return box[0]
def attend(x):
    return nn.functional.multi_head_attention_forward(
        x, x, x, 4, 2, torch.eye(4).repeat(3, 1), None, None, None, False, 0.0, torch.eye(4), None)[0]
def to_numpy(x): return torch.from_numpy(x.numpy())
def meddle(x): torch.manual_seed(0); torch.rand(1); x.add_(1); return x.clone()
def by_grad(x): w = x.clone().requires_grad_(); (w * w).sum().backward(); return w.grad
def grow(lists, more): lists["all"][0].append(5); return more
def nap(x): import time; time.sleep(0.5); return x
def fill(x, state):
    state.setdefault("views", []).append((x + len(state))[1:])
    state["twice"] = state["views"][-1].mT
    return len(state["views"])
def times(x, n=10): return sum(torch.sin(x) for _ in range(n))

class Scale(nn.Module):
    def __init__(self, d, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d, device=device, dtype=dtype))
        self.register_buffer("kept", torch.ones(d))
        self.table = torch.arange(d)
    def forward(self, x): return x * self.weight

class Lost(Scale):
    def forward(self, x): return x * self.weight * self.table

class Turned(Scale):
    def __init__(self, d):
        super().__init__(d)
        self.register_buffer("turns", torch.polar(torch.ones(d), torch.arange(d) * 1.0), persistent=False)

class Frozen(Scale):
    def __init__(self, d):
        super().__init__(d)
        self.weight.requires_grad_(False)
"""
SPINS = 1 + SOURCE[: SOURCE.index("while True")].count("\n")


@pytest.fixture
def attempt(server: fork_server.ForkServer) -> Iterator[proxy.Attempt]:
    attempt = proxy.Attempt(server, SOURCE, "attempt.py")
    yield attempt
    attempt.close()


def test_what_trains_is_called_with_autograd_on(attempt: proxy.Attempt) -> None:
    x = torch.randn(3)
    with pytest.raises(Raised, match="does not require grad"):
        attempt.by_grad(x)
    assert torch.equal(proxy.Callee(attempt, ["with_grad", "by_grad"])(x), 2 * x)


def test_a_dict_of_the_caller_is_kept_and_weighed_in_the_worker(attempt: proxy.Attempt) -> None:
    state, x = proxy.Callee(attempt, proxy.Callee(attempt, ["a_dict", "fill"]).keep()), torch.randn(4, 5)
    for count in (1, 2, 3):
        assert attempt.fill(x, state.target) == count
    # A view holds the storage that it is a view of, whole, and two views of one hold it once.
    assert attempt.ask_of([], {"do": "held", "target": state.target})["value"] == 3 * 4 * 5 * 4


def test_what_operations_make_is_counted_in_all(attempt: proxy.Attempt) -> None:
    request = {"do": "call", "target": "double", "args": (torch.randn(3, 5),), "kwargs": {}}
    readings = attempt.ask_of([], {"do": "observe", "inner": [{**request}, {**request}], "watched": None})["readings"]
    assert (readings["made"]["mul"], readings["made_in_all"]["mul"]) == (60, 120)


def test_a_call_gives_what_the_function_gives(attempt: proxy.Attempt) -> None:
    x = torch.randn(3, 5)
    assert torch.equal(attempt.double(x), 2 * x)


def test_gradients_cross_the_border(attempt: proxy.Attempt) -> None:
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(attempt.cube, x)


def test_a_module_can_be_used_twice_and_gives_gradients_of_its_parameters(attempt: proxy.Attempt) -> None:
    module = attempt.Scale(3).load_state_dict({"weight": torch.tensor([1.0, 2.0, 3.0])})
    x = torch.ones(2, 3)
    total = (module(x) + module(3 * x)).sum()
    (gradient,) = torch.autograd.grad(total, list(module.parameters().values()))
    assert gradient.tolist() == [8.0, 8.0, 8.0]


def test_a_parameter_that_wants_no_gradient_has_none(attempt: proxy.Attempt) -> None:
    module = attempt.Frozen(3).load_state_dict({"weight": torch.tensor([1.0, 2.0, 3.0])})
    x = torch.ones(3, requires_grad=True)
    of_x, of_weight = torch.autograd.grad(module(x).sum(), [x, *module.parameters().values()], allow_unused=True)
    assert (of_x.tolist(), of_weight) == ([1.0, 2.0, 3.0], None)


def test_a_module_tells_parameters_buffers_and_state(attempt: proxy.Attempt) -> None:
    told = attempt.Scale(3).to(torch.bfloat16).describe()
    assert told["parameters"]["weight"].dtype is torch.bfloat16
    assert (list(told["parameters"]), list(told["buffers"]), sorted(told["state"])) == (
        ["weight"],
        ["kept"],
        ["kept", "weight"],
    )


def test_a_cast_leaves_complex_tables_as_they_are(attempt: proxy.Attempt) -> None:
    module = attempt.Turned(3)
    before = module.describe()["buffers"]["turns"]
    told = module.to(device="cpu", dtype=torch.bfloat16).describe()
    assert told["parameters"]["weight"].dtype is told["buffers"]["kept"].dtype is torch.bfloat16
    assert torch.equal(told["buffers"]["turns"], before)


def test_an_exception_arrives_with_its_own_lines(attempt: proxy.Attempt) -> None:
    with pytest.raises(Raised, match=r"ValueError: no \(2,\)") as caught:
        attempt.stop(torch.ones(2))
    assert "attempt.py:8 in stop" in str(caught.value)
    assert "dojo" not in str(caught.value)


def test_a_missing_name_is_told_by_name(attempt: proxy.Attempt) -> None:
    with pytest.raises(Fault, match="defines no `halve`"):
        attempt.halve(torch.ones(2))


def test_printing_is_kept_and_shown(attempt: proxy.Attempt) -> None:
    attempt.say(torch.ones(1))
    deadline = time.monotonic() + 5
    said = ""
    while "hello" not in said and time.monotonic() < deadline:
        said += attempt.take_printed()
    assert said == "hello\n"


def test_a_worker_that_died_is_told_of_and_replaced(attempt: proxy.Attempt) -> None:
    with pytest.raises(Died, match="exit status 3"):
        attempt.leave(torch.ones(1))
    assert attempt.double(torch.ones(1)).item() == 2


def test_a_hanging_call_ends_tells_its_line_and_a_second_is_not_waited_for(
    attempt: proxy.Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_handle, "CPU_LIMIT", 1.0)
    with pytest.raises(Died, match="no answer after") as caught:  # by either clock, as busy as the machine is
        attempt.spin(torch.ones(1))
    assert caught.value.outcome is Outcome.TIMED_OUT
    (line,) = (section.text for section in caught.value.sections if section.label is Label.TRACEBACK)
    assert line == f"attempt.py:{SPINS} in spin\n    while True: pass"
    started = time.monotonic()
    with pytest.raises(Died, match="has timed out already"):
        attempt.double(torch.ones(1))
    assert time.monotonic() - started < 1


def test_a_loop_at_import_costs_what_one_in_a_call_does_and_tells_its_line(
    server: fork_server.ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_handle, "CPU_LIMIT", 0.5)
    looping = proxy.Attempt(server, "import torch\n\nn = 1\nwhile n:\n    n += 1\n", "loop.py")
    with pytest.raises(Died, match="of processor time, so the import was ended: is there") as caught:
        looping.worker()
    (line,) = (section.text for section in caught.value.sections if section.label is Label.TRACEBACK)
    assert line in ("loop.py:4 in <module>\n    while n:", "loop.py:5 in <module>\n    n += 1")
    waited = proxy.Attempt(server, "import time\n\ntime.sleep(1.5)\nx = 1\n", "slow.py")
    monkeypatch.setattr(worker_handle, "WALL_LIMIT", 1.0)
    waited.worker()  # a busy machine or a slow disk is no loop
    assert waited.defined == ["time", "x"]
    waited.close()


def test_a_cell_that_hangs_tells_its_line(server: fork_server.ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_handle, "CPU_LIMIT", 0.5)
    cell, names = "def spin(x):\n    while True:\n        x = x + 1\n", {"__name__": "__main__"}
    exec(compile(cell, "/tmp/ipykernel_1/2.py", "exec"), names)
    cells = PickledCells(cloudpickle.dumps({"spin": names["spin"]}), (("/tmp/ipykernel_1/2.py", "cell 3", cell),))
    looping = proxy.Attempt(server, cell, "this notebook", pickled_cells=cells)
    with pytest.raises(Died, match="no answer after") as caught:
        looping.spin(torch.ones(1))
    (line,) = (section.text for section in caught.value.sections if section.label is Label.TRACEBACK)
    assert line in ("cell 3:2 in spin\n    while True:", "cell 3:3 in spin\n    x = x + 1")


def test_a_line_that_is_not_there_is_told_as_a_number_alone(
    server: fork_server.ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_handle, "CPU_LIMIT", 0.5)
    hiding = "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
    forged = hiding + "while True:\n    os.write(2, b'File \"loop.py\", line 99 in f ')\n"
    looping = proxy.Attempt(server, forged, "loop.py")
    with pytest.raises(Died, match="no answer after") as caught:
        looping.worker()
    assert [s.text for s in caught.value.sections if s.label is Label.TRACEBACK] == ["loop.py:99 in f"]


def test_an_answer_that_came_while_the_judge_was_suspended_is_taken(attempt: proxy.Attempt) -> None:
    worker, request = attempt.worker(), {"do": "call", "target": "nap", "args": (torch.ones(1),), "kwargs": {}}
    with subprocess.Popen(["sh", "-c", "sleep 0.2; kill -STOP $PPID; sleep 1.2; kill -CONT $PPID"]):
        started = time.monotonic()
        (answer,) = worker.ask(request, wall=1.0)
    assert answer["value"].item() == 1
    assert time.monotonic() - started > 1.0


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not tell who waits")
def test_waiting_for_a_processor_is_no_hanging(server: fork_server.ForkServer) -> None:
    source = "import time\n\ndef spin(x):\n    while time.process_time() < x:\n        pass\n    return x\n"
    attempt = proxy.Attempt(server, source, "spin.py")
    worker, core = attempt.worker(), min(os.sched_getaffinity(0))
    request = {"do": "call", "target": "spin", "args": (worker.cpu_seconds() + 0.15,), "kwargs": {}}
    os.sched_setaffinity(worker.pid, {core})
    os.setpriority(os.PRIO_PROCESS, worker.pid, 10)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            os.sched_setaffinity(busy.pid, {core})
            time.sleep(0.2)
            (answer,) = worker.ask(request, wall=1.0)
        finally:
            busy.kill()
            attempt.close()
    assert answer["value"] == request["args"][0]


def test_requests_are_done_in_turn_up_to_the_first_that_fails(attempt: proxy.Attempt) -> None:
    x = torch.ones(2)
    calls = [{"do": "call", "target": name, "args": (x,), "kwargs": {}} for name in ("double", "stop", "say")]
    answers = attempt.ask(*calls)
    assert next(answers)["value"].tolist() == [2, 2]
    with pytest.raises(Raised, match="ValueError: no"):
        next(answers)
    assert not list(answers)
    assert "hello" not in attempt.take_printed()


def test_what_is_done_to_a_module_waits_for_the_first_question(attempt: proxy.Attempt) -> None:
    outlines: list[dict] = []
    module = attempt.Scale.build(d=3).to(torch.float64)
    module.load_state_dict({"weight": torch.tensor([1.0, 2.0, 3.0])}, outlines.append)
    assert not outlines
    with torch.no_grad():
        assert module(torch.ones(3, dtype=torch.float64)).tolist() == [1, 2, 3]
    assert [outline["shapes"] for outline in outlines] == [{"weight": (3,)}]
    with pytest.raises(Died, match=r"`double` is a torch\.nn\.Module: calling it gave a Tensor"):
        attempt.double.build(x=torch.ones(1)).describe()


def test_all_threads_are_watched(attempt: proxy.Attempt) -> None:
    """The canary of a private flag of torch's profiler: without it, threads would hide what they run."""
    assert "aten::softmax" in attempt.softmax_in_thread.observe(torch.ones(3))["profiled"]


def test_python_functions_are_watched_whatever_they_run(attempt: proxy.Attempt) -> None:
    name = "torch.nn.functional.multi_head_attention_forward"
    assert attempt.attend.observe(torch.ones(3, 4), watched=[name])["entered"] == [name]


def test_the_peak_is_of_memory_that_is_held_at_once(attempt: proxy.Attempt) -> None:
    peaks = [attempt.times.observe(torch.ones(1000), n=n)["peak"] for n in (3, 30)]
    assert peaks == [12_000, 12_000]  # a sum, a sine and the next sum
    calls = [(attempt.cube, (torch.ones(1000),), {})]
    assert attempt.observed(calls)["peak"] < attempt.observed(calls, gradients=True)["peak"] < 40_000


def test_views_and_what_is_freed_hold_no_memory_of_their_own() -> None:
    with counting() as count:
        doubled = torch.ones(1000) * 2
        part = doubled[:10]
        del doubled
        held = count.mode.alive
        del part
    assert (held, count.mode.alive, count.mode.peak) == (4000, 0, 8000)


def test_operations_are_counted(attempt: proxy.Attempt) -> None:
    count = [attempt.times.observe(torch.ones(3), n=n)["operations"]["sin"] for n in (3, 11)]
    assert count == [3, 11]


def test_leaving_pytorch_is_forbidden(attempt: proxy.Attempt) -> None:
    with pytest.raises(Forbidden, match="must stay in PyTorch"):
        attempt.to_numpy(torch.ones(2))


def test_side_effects_are_seen(attempt: proxy.Attempt) -> None:
    reply = attempt.meddle.request((torch.zeros(2),), {}, watch=True)
    assert reply["changed"] == ["the seed of torch's random generator", "torch's random generator"]
    assert reply["inputs"][0].tolist() == [1.0, 1.0]


def test_lists_that_a_call_changes_are_seen(attempt: proxy.Attempt) -> None:
    for nested in ({"all": [[1], (2.0, "3")]}, {"all": [[]], "more": None}):
        assert attempt.grow.request((nested, torch.zeros(1)), {}, watch=True)["changed"] == [ARGUMENTS]
    assert attempt.double.request((torch.zeros(2),), {}, watch=True)["changed"] == []


def test_a_table_left_behind_on_another_device_is_seen(attempt: proxy.Attempt) -> None:
    x = torch.ones(3)
    found = attempt.Scale(3).fake_device(x)
    assert (found["mixed"], found["placed"]) == (None, True)
    found = attempt.Lost(3).fake_device(x)
    assert "two devices" in found["mixed"]
    assert "in forward" in found["where"]["lines"]


def test_a_worker_sees_neither_secrets_nor_the_project(
    server: fork_server.ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import os, sys\ndef f(): return [sorted(os.environ), sys.path]"
    attempt = proxy.Attempt(server, source, "attempt.py")
    environment, path = attempt.f()
    attempt.close()
    assert "HOME" not in environment
    assert str(fork_server.PROJECT) not in path


def test_nothing_is_left_of_a_closed_fork_server() -> None:
    server = fork_server.ForkServer()
    attempt = proxy.Attempt(server, SOURCE, "attempt.py")
    pid = attempt.worker().pid
    server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert server.process.returncode is not None


def test_a_fork_server_that_rests_forks_workers_ahead_and_ends_others_then(server: fork_server.ForkServer) -> None:
    mine = server.split()
    mine.spares = 1
    mine.rest()
    [(pid, *_)] = mine.idle
    attempt = proxy.Attempt(mine, SOURCE, "attempt.py")
    assert attempt.worker().pid == pid
    attempt.close()
    os.kill(pid, 0)  # still there
    mine.rest()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    [(waiting, *_)] = mine.idle
    mine.close()
    server.join(mine)
    with pytest.raises(ProcessLookupError):
        os.kill(waiting, 0)


def test_what_a_script_asks_for_at_its_head_leaves_products_in_full_precision(server: fork_server.ForkServer) -> None:
    source = """
import torch
torch.set_float32_matmul_precision("medium")
torch.backends.cudnn.allow_tf32 = True
def asked(x): return x + float(torch.get_float32_matmul_precision() != "highest" or torch.backends.cudnn.allow_tf32)
"""
    attempt = proxy.Attempt(server, source, "attempt.py")
    assert attempt.asked(torch.zeros(1)).item() == 0
    attempt.close()


def test_a_worker_whose_kernel_has_failed_is_replaced(server: fork_server.ForkServer) -> None:
    source = """
import torch
def fail(x): raise torch.AcceleratorError("CUDA error: device-side assert triggered")
def double(x): return 2 * x
"""
    attempt = proxy.Attempt(server, source, "attempt.py")
    before = attempt.worker().pid
    with pytest.raises(Raised, match="device-side assert"):
        attempt.fail(torch.ones(1))
    assert attempt.double(torch.ones(1)).item() == 2
    assert attempt.worker().pid != before
    attempt.close()


def test_several_calls_are_timed_at_once_each_on_inputs_of_its_own(server: fork_server.ForkServer) -> None:
    attempt = proxy.Attempt(
        server, "seen = []\ndef note(x): seen.append(x.tolist()); return x + len(seen)", "attempt.py"
    )
    staged = attempt.note.stage(torch.ones(2))
    staged.calls = 3
    *_, kept = staged.timed([[torch.tensor([2.0, 3.0])], [torch.full((2,), 2.0)], [torch.full((2,), 0.5)]])
    assert staged.fetch(kept).tolist() == [2 + 3, 3 + 3]
    attempt.close()


def test_calls_of_cuda_are_no_operations() -> None:
    names = [
        "cudaLaunchKernel",
        "cuLaunchKernel",
        "cudaFuncGetAttributes",
        "aten::cumsum",
        "CumsumBackward0",
        "cumulate",
    ]
    assert [name for name in names if OF_CUDA.match(name)] == names[:3]


def test_a_worker_can_start_afresh_as_a_debugger_needs_it() -> None:
    fresh = fork_server.FreshStarts()
    attempt = proxy.Attempt(fresh, SOURCE, "attempt.py")
    assert attempt.double(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(Died, match="exit status 3"):
        attempt.leave(torch.ones(1))
    pid = attempt.worker().pid
    fresh.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def a_clock(cost: float, rng: Callable[[], float]) -> Callable[[], tuple[float, float]]:
    """A call that takes `cost`, give or take a factor of two that a busy machine adds."""

    def run() -> tuple[float, float]:
        seconds = cost * (1 + rng())
        return seconds, seconds

    return run


@pytest.mark.parametrize(("cost", "slower"), [(1.0, False), (2.0, False), (12.0, True), (50.0, True)])
def test_a_race_is_decided_rightly_under_noise(cost: float, slower: bool) -> None:
    import random

    for seed in range(50):
        rng = random.Random(seed)
        assert race(a_clock(cost, rng.random), a_clock(1.0, rng.random), 5.0, rng).slower is slower


def test_a_race_too_close_to_call_is_undecided() -> None:
    import random

    flip = random.Random(1)
    attempt = iter([6.0, 4.0] * 200)
    result = race(lambda: (next(attempt), 0.0), lambda: (1.0, 0.0), 5.0, flip)
    assert result.slower is None


def test_sleeping_is_not_free() -> None:
    import random

    assert race(lambda: (0.001, 1.0), lambda: (0.001, 0.001), 5.0, random.Random(1)).slower is True


def test_the_debugger_opens_only_where_an_exception_fails_a_check(
    graded: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(pdb, "Pdb", pdb.Pdb)
    monkeypatch.setattr(pdb, "post_mortem", opened.append)
    verdict = graded("rope", catalog.katas()["rope"].master.read_text("utf-8"), tier="robust", debug=True)
    assert (verdict.verdict, failures(verdict), opened) == ("unjudged", [], [])
    wrong = "def softmax(x, dim=-1):\n    return x.exp()\n"
    verdict = graded("softmax", wrong, debug=True, stop_at_first=True)
    assert verdict.message.endswith("Nothing was raised: write `breakpoint()` in your code where you want to look")
    assert (len(failures(verdict)), opened) == (1, [])
    graded("softmax", wrong.replace(".exp", ".nothing"), debug=True, stop_at_first=True)
    assert len(opened) == 1, "and it stops at the first"


def raised_by(source: str) -> list[str]:
    """The attempt's own lines of the recursion that a source ends in."""
    linecache.cache["attempt.py"] = (len(source), None, source.splitlines(keepends=True), "attempt.py")
    with pytest.raises(RecursionError) as raised:
        exec(compile(source, "attempt.py", "exec"), {})
    lines: list[str] = explain(raised.value, {"attempt.py": "katas/down.py"})["lines"].splitlines()
    return lines


def test_lines_that_repeat_are_told_once() -> None:
    lines = raised_by("def down(n):\n    return down(n + 1)\n\ndown(0)\n")
    assert lines[:4] == [
        "katas/down.py:4 in <module>",
        "    down(0)",
        "katas/down.py:2 in down",
        "    return down(n + 1)",
    ]
    assert len(lines) == 5
    assert lines[4].endswith("times more")


def test_calls_that_repeat_in_turn_are_told_once() -> None:
    lines = raised_by("def down(n):\n    return up(n)\n\ndef up(n):\n    return down(n + 1)\n\ndown(0)\n")
    cycle = ["katas/down.py:2 in down", "    return up(n)", "katas/down.py:5 in up", "    return down(n + 1)"]
    assert lines[:6] == ["katas/down.py:7 in <module>", "    down(0)", *cycle]
    assert re.fullmatch(r"    these 2, \d{3} times more", lines[6])
    assert lines[7:] in ([], cycle[:2]), "the innermost call is there, where the limit came in the middle"
