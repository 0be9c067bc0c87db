"""What a worker may answer, and what is said of an answer that no worker gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dojo.judge import answers, protocol
from dojo.judge.worker_handle import Worker
from dojo.verdict.failures import Died, Fault, Forbidden, Raised
from dojo.verdict.types import MOST_TEXT, Label, Section, plain

EXPLAINED = {"kind": "ValueError", "text": "no", "bases": ["ValueError"], "lines": "", "operation": []}
EXPLAINED |= {"line": 3, "read": True}
CALL = {"do": "call"}
FORGED = {
    "a failure that is a text": (CALL, {"raised": "ValueError"}),
    "a failure without a part": (CALL, {"raised": {"kind": "ValueError"}}),
    "a failure with a number for a text": (CALL, {"raised": EXPLAINED | {"text": 3}}),
    "a failure with lines in a list": (CALL, {"raised": EXPLAINED | {"lines": ["a"]}}),
    "bases that are one text": (CALL, {"raised": EXPLAINED | {"bases": "ValueError"}}),
    "bases that are numbers": (CALL, {"raised": EXPLAINED | {"bases": [1]}}),
    "a line in words": (CALL, {"raised": EXPLAINED | {"line": "3"}}),
    "a file that is read by a number": (CALL, {"raised": EXPLAINED | {"read": 1}}),
    "an operation that is a mapping": (CALL, {"raised": EXPLAINED | {"operation": {"a": 1}}}),
    "forbidden, and nothing raised": (CALL, {"forbidden": "numpy"}),
    "forbidden is a number": (CALL, {"forbidden": 7, "raised": EXPLAINED}),
    "unanswerable is a list": (CALL, {"unanswerable": ["why"]}),
    "unanswerable is a tensor": (CALL, {"unanswerable": torch.ones(1)}),
    "no value": (CALL, {}),
    "names that are one text": ({"do": "load"}, {"names": "softmax"}),
    "names that are numbers": ({"do": "load"}, {"names": [1, 2]}),
    "more names than anybody writes": ({"do": "load"}, {"names": ["a"] * 20_000}),
    "gradients that are numbers": ({"do": "backward"}, {"inputs": [1.0], "parameters": {}}),
    "parameters in a list": ({"do": "backward"}, {"inputs": [], "parameters": []}),
    "a call without a number": (CALL | {"grad": True}, {"value": 1}),
    "a call whose number is True": (CALL | {"grad": True}, {"value": 1, "call": True}),
    "changes that are numbers": (CALL | {"watch": True}, {"value": 1, "inputs": [], "changed": [1]}),
    "inputs that are texts": (CALL | {"watch": True}, {"value": 1, "inputs": ["x"], "changed": []}),
    "readings in a list": ({"do": "observe"}, {"readings": []}),
    "readings with a part missing": ({"do": "observe"}, {"readings": {"operations": {}}}),
    "a shape that is a number": (
        {"do": "outline"},
        {"shapes": {"w": 3}, "buffers": {}, "trainable": [], "objects": {}},
    ),
    "something else than what is kept": ({"do": "go"}, {"value": 3}),
}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker's handle without a process."""
    monkeypatch.setattr(Worker, "end", lambda self: 0)
    return object.__new__(Worker)


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_answer_fails_the_attempt_in_a_sentence(worker: Worker, name: str) -> None:
    request, reply = FORGED[name]
    with pytest.raises(Died, match="the attempt wrote on the judge's channel: it does not answer what was asked"):
        worker._understood(request, reply)


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ({"raised": EXPLAINED}, Raised),
        ({"forbidden": "numpy", "raised": EXPLAINED}, Forbidden),
        ({"unanswerable": "the result is a set"}, Died),
    ],
)
def test_a_failure_as_a_worker_tells_it_is_told(worker: Worker, reply: dict[str, Any], fault: type[Fault]) -> None:
    with pytest.raises(fault):
        worker._understood(CALL, reply)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*EXPLAINED, "value"]), inner),
    max_leaves=8,
)
KEYS = sorted({"raised", "forbidden", "unanswerable", "value", "names", "inputs", "parameters", "call", "readings"})


@given(st.sampled_from(sorted(answers.ANSWERS)), st.dictionaries(st.sampled_from(KEYS), anything))
def test_no_answer_breaks_the_judge(word: str, reply: dict[str, Any]) -> None:
    class Handle(Worker):
        def __init__(self) -> None:
            pass

        def end(self) -> int:
            return 0

    request, told = {"do": word}, list[str]()
    try:
        assert answers.answers(Handle()._understood(request, reply), request)
    except Fault as fault:
        told = [section.text for section in fault.sections]
    assert all(len(text.encode()) <= 20 * MOST_TEXT for text in told)


def test_texts_are_bounded_and_can_be_shown_anywhere() -> None:
    section = Section(Label.EVENT, "a\r\nb\x1b[2J\ud800\x00\tc" + "x" * 1_000_000)
    assert section.text.startswith("a\nb\\x1b[2J\\ud800\\x00\tcx")
    assert " more characters … xxx" in section.text
    assert len(section.text) < 5 * MOST_TEXT
    section.text.encode()
    assert plain("ordinary: é 🙂 →\n  two lines", 99) == "ordinary: é 🙂 →\n  two lines"


def test_a_message_is_no_answer_if_it_names_what_a_worker_does_not_send() -> None:
    for header in (b'{"a": 1}', b'["map"]', b'{"map": 1}', b"1", b"nan"):
        try:
            found = protocol.load(header, bytearray())
        except protocol.ProtocolError:
            continue
        assert not isinstance(found, dict)
