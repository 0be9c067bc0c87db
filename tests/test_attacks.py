"""Attempts that try to hang, crash, escape or talk the judge round: each ends in failure, named, with nothing left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dojo.judge import worker_handle
from dojo.judge.fork_server import ForkServer
from tests.conftest import Grade, children_of, failures, told

FOLDER = Path(__file__).parent / "attacks"

# What the verdict must say of each attack; a tuple means any of several, for what depends on the system.
SAYS = {
    "atexit_hook": ("SystemExit",),
    "attention_with_an_identity": ("not allowed",),
    "cached_by_content": ("same call again", "case"),
    "cached_by_identity": ("refilled in between",),
    "computes_before_the_clock": ("of the reference",),
    "disables_the_dispatch_mode": ("tensor operations does not grow",),
    "endless_output": ("no answer after",),
    "exits_at_once": ("ended its own process",),
    "forges_a_doubt": ("wrote on the judge's channel",),
    "forges_a_failure": ("wrote on the judge's channel",),
    "forges_a_reply": ("wrote on the judge's channel",),
    "forges_what_is_forbidden": ("wrote on the judge's channel",),
    "fork_bomb": ("may not start processes", "Operation not permitted"),
    "giant_header_on_the_channel": ("wrote on the judge's channel",),
    "gigantic_allocation": ("memory",),
    "hang_in_cpp": ("no answer after",),
    "hang_in_python": ("no answer after",),
    "expands_in_a_list": ("is larger than any that is asked for",),
    "expands_without_end": ("is larger than any that is asked for",),
    "imports_the_solution": ("may not open", "No module named", "Permission"),
    "infinite_recursion": ("RecursionError",),
    "junk_on_the_channel": ("wrote on the judge's channel",),
    "lazy_result": ("not a torch.Tensor",),
    "leaves_pytorch": ("stays in PyTorch", "scipy"),
    "leaves_shared_memory": ("may not leave Python", "Operation not permitted"),
    "lifts_the_hook_with_ctypes": ("may not leave Python",),
    "links_to_the_solution": ("may not change files",),
    "loops_in_threads": ("tensor operations does not grow",),
    "lying_subclass": ("not a plain torch.Tensor",),
    "missing_name": ("defines no `softmax`",),
    "modifies_its_input": ("inputs are not modified",),
    "no_tensor": ("not a torch.Tensor", "expected a tensor"),
    "output_buffer_reused": ("refilled in between",),
    "overrides_an_operator": ("not allowed",),
    "patches_comparisons": ("result matches the definition",),
    "patches_pytest": ("result matches the definition",),
    "patches_synchronize": ("of the reference",),
    "patches_the_clock": ("of the reference",),
    "patches_the_meter": ("tensor operations does not grow",),
    "pickle_on_the_channel": ("wrote on the judge's channel",),
    "puts_the_work_off_to_a_thread": ("result matches the definition",),
    "puts_the_work_off_to_del": ("result matches the definition",),
    "reads_every_descriptor": ("result matches the definition",),
    "reads_the_environment": ("result matches the definition",),
    "reads_the_judges_memory": ("may not open",),
    "reads_the_solution": ("may not open", "Permission"),
    "searches_with_gc": ("may not search the interpreter",),
    "segfault": ("crashed",),
    "shouts": ("more characters",),
    "signals_the_judge": ("may not", "not permitted"),
    "sleeps": ("no answer after",),
    "softmax_by_its_schema": ("not allowed",),
    "softmax_in_a_thread": ("not allowed",),
    "softmax_in_torchscript": ("not allowed",),
    "softmax_through_a_submodule": ("not allowed",),
    "softmax_without_torch_function": ("not allowed",),
    "starts_many_threads": ("more than 256 threads", "can't start new thread"),
    "starts_a_process": ("may not start processes", "not permitted"),
    "swallows_every_exception": ("no answer after",),
    "syntax_error": ("SyntaxError",),
    "sys_exit_at_import": ("SystemExit",),
    "sys_exit_in_call": ("SystemExit",),
    "talks_to_the_network": ("may not use the network", "not permitted"),
    "traces_the_judge": ("result matches the definition",),
    "turns_tf32_on": ("the precision of matrix products",),
    "writes_a_file": ("may not",),
    "wrong_device": ("on the device of the input",),
}
FORGED = {  # what `forges_a_reply` answers in the worker's place
    "forges_a_doubt": '{"map": {"unanswerable": {"map": {"our fault": True}}}}',
    "forges_a_failure": '{"map": {"raised": {"map": {"kind": ["ValueError"], "text": 7}}}}',
    "forges_what_is_forbidden": '{"map": {"forbidden": "numpy"}}',
}
BROKEN = {
    "imports_the_solution", "leaves_pytorch", "links_to_the_solution", "reads_the_solution", "syntax_error",
    "sys_exit_at_import",
    "missing_name",
}  # fmt: skip


LATER = {  # which another one is like, and which take long
    "attention_with_an_identity", "cached_by_identity", "endless_output", "exits_at_once", "forges_a_doubt",
    "forges_a_failure", "forges_what_is_forbidden", "giant_header_on_the_channel", "hang_in_cpp", "no_tensor",
    "patches_comparisons", "patches_synchronize", "patches_the_clock", "patches_the_meter", "pickle_on_the_channel",
    "puts_the_work_off_to_del", "sleeps", "softmax_in_torchscript", "swallows_every_exception", "wrong_device",
}  # fmt: skip
HANGS = {"endless_output", "hang_in_cpp", "hang_in_python", "sleeps", "swallows_every_exception"}


def attacks() -> dict[str, str]:
    """Every attack's text by its name."""
    found = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("*.py")}
    before, _, after = found["forges_a_reply"].partition("ANSWER = ")
    rest = after.partition("\n")[2]
    return found | {name: f"{before}ANSWER = {answer}\n{rest}" for name, answer in FORGED.items()}


def test_every_attack_is_listed() -> None:
    assert attacks().keys() == SAYS.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.proof] * (name in LATER)) for name in sorted(SAYS)]
)
def test_attack_fails_with_a_clear_sentence_and_leaves_nothing(
    name: str, graded: Grade, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOJO_TEST_SECRET", "hunter2")
    if name in HANGS:  # nobody need wait for the whole of it
        monkeypatch.setattr(worker_handle, "CPU_LIMIT", 1.5)
        monkeypatch.setattr(worker_handle, "WALL_LIMIT", 4.0)
    verdict = graded("softmax", attacks()[name], f"{name}.py", diagnose=False)
    assert verdict.verdict == ("broken" if name in BROKEN else "failed")
    said = told(verdict)
    assert any(words in said for words in SAYS[name]), said
    assert "hunter2" not in said
    if verdict.verdict == "failed":
        assert len(verdict.checks) >= 18, "the report went on to its end"
        assert failures(verdict)
    assert children_of(server) == []
    assert os.getpgid(0) > 0


def test_a_later_attempt_is_graded_as_if_nothing_had_been(graded: Grade) -> None:
    attack = (FOLDER / "patches_comparisons.py").read_text()
    solution = (FOLDER.parents[1] / "solutions" / "basics" / "softmax.py").read_text()
    assert graded("softmax", attack, diagnose=False).verdict == "failed"
    assert graded("softmax", solution).verdict == "passed"
