"""What a worker may answer to what it was asked: the schema that every answer is held against before it is used.

An attempt can write on the channel in its worker's place, so a key that is there proves nothing about what is in it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from dojo.judge import protocol
from dojo.judge.protocol import Message
from dojo.verdict.types import MOST_TEXT, plain

MOST_NAMES = 10_000  # of an attempt's module, of its parameters

# A shape is a type, a list of one shape, a dict of text to one shape, or a tuple of shapes of which any will do.
Shape = Any
ANY = object
NAMED_SHAPES = {str: (tuple, list)}
TEXTS = {"kind": str, "text": str, "bases": [str], "lines": str, "operation": [str]}
EXPLAINED = TEXTS | {"line": int, "read": bool}  # as `worker.errors` explains
OUTLINE = {"shapes": NAMED_SHAPES, "buffers": NAMED_SHAPES, "trainable": [str], "objects": {str: int}}
ANSWERS: dict[str, dict[str, Shape]] = {
    "load": {"names": [str]},
    "unpack": {"names": [str]},
    "call": {"value": ANY},
    "read": {"value": ANY},
    "fetch": {"value": ANY},
    "backward": {"inputs": [(Tensor, None)], "parameters": {str: (Tensor, None)}},
    "forward_backward": {"value": ANY, "inputs": [(Tensor, None)], "gradients": {str: (Tensor, None)}},
    "describe": {"parameters": {str: Tensor}, "buffers": {str: Tensor}, "state": [str]},
    "outline": OUTLINE,
    "assign": OUTLINE,
    "observe": {"readings": dict},
    "stage": {"value": protocol.Remote},
    "go": {"value": protocol.Remote},
    "program": {"data": list, "grad": list},
    "warned": {"value": [str]},
    "steps": {"value": int},
    "held": {"value": int},
    "run_test": {"answer": str, "because": dict},
    "scaled": {"values": [[Tensor]], "grads": [[(Tensor, None)]], "scales": list},
    "checkpointed": {"value": ANY, "gradients": [(Tensor, None)], "runs": [[int]], "held": int, "drawn": Tensor},
    "scored": {"value": ANY, "calls": list, "args": list},
    "decoded": {"value": ANY, "calls": [{"positions": [[int]], "mask": [[bool]], "grad": bool}], "args": list},
    "fake_device": {"mixed": (str, None), "where": (EXPLAINED, None)},
    "ranks": {"ranks": [dict], "calls": [{"operation": str, "numbers": int, "bytes": int}]},
}
IF_ASKED: dict[str, dict[str, Shape]] = {"grad": {"call": int}, "watch": {"inputs": [Tensor], "changed": [str]}}
COUNTS = ("operations", "largest", "made_in_all", "complex", "profiled")
READINGS = {**{key: {str: int} for key in COUNTS}, "foreign": [str], "entered": [str], "peak": int}
MOST_NAME = 200  # characters of a class's name
FAILURES: dict[str, dict[str, Shape]] = {
    "forbidden": {"forbidden": str, "raised": EXPLAINED},
    "raised": {"raised": EXPLAINED},
    "unanswerable": {"unanswerable": str},
}


def fits(value: Any, shape: Shape) -> bool:
    """Whether a value has this shape. True and False are no numbers."""
    if isinstance(shape, tuple):
        return any(fits(value, each) for each in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and len(value) <= MOST_NAMES and all(fits(each, shape[0]) for each in value)
    if isinstance(shape, dict) and str in shape:
        return isinstance(value, dict) and len(value) <= MOST_NAMES and all(fits(v, shape[str]) for v in value.values())
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(key in value and fits(value[key], each) for key, each in shape.items())
    return value is None if shape is None else isinstance(value, shape) and (shape is not int or type(value) is int)


def failure(reply: Message) -> str:
    """Which failure an answer tells of, nothing if of none."""
    return next((word for word in FAILURES if word in reply), "")


def answers(reply: Message, request: Message) -> bool:
    """Whether a reply is an answer to what was asked, or tells of a failure as a worker does."""
    if word := failure(reply):
        return fits(reply, FAILURES[word])
    shapes = [ANSWERS.get(request["do"], {}), *(keys for word, keys in IF_ASKED.items() if request.get(word))]
    if not all(fits(reply, shape) for shape in shapes):
        return False
    if request["do"] == "ranks":
        if len(reply["ranks"]) != len(request["inner"]):
            return False
        each = zip(reply["ranks"], request["inner"], strict=True)
        return all(not failure(own) and answers(own, asked) for own, asked in each)
    return "readings" not in reply or fits(reply["readings"], READINGS)


def unanswerable(reply: Message) -> str:
    """Why there is no answer, as a verdict can hold it."""
    return plain(reply["unanswerable"], MOST_TEXT)


def forbidden(reply: Message) -> str:
    """What was forbidden, as a verdict can hold it."""
    return plain(reply["forbidden"], MOST_NAME)


def raised(reply: Message) -> dict[str, Any]:
    """What was raised, by the words of `EXPLAINED`, as a verdict can hold it."""
    longest = {"text": MOST_TEXT, "lines": MOST_TEXT}
    found = {key: reply["raised"][key] for key in EXPLAINED}
    cut = {key: partial(plain, most=longest.get(key, MOST_NAME)) for key in TEXTS}
    return found | {key: protocol.mapped(cut[key], found[key]) for key in TEXTS}
