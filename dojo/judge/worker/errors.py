"""An exception of the attempt in plain data, with its own lines and none of ours."""

from __future__ import annotations

import ast
import linecache
import traceback
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from torch import Tensor

from dojo.judge.protocol import Message
from dojo.verdict.failures import UNKNOWN

OWN_LINES = 12
LONGEST_CYCLE = 4  # of calls in a recursion through several functions


def explain(error: BaseException, files: Mapping[str, str]) -> Message:
    """What an exception says, and where it passed through the attempt's `files`, by what to call each."""
    text = _safe_text(error)
    passed = frames(error)
    first = next(iter(files))
    if isinstance(error, NotImplementedError) and not text and passed[-1].filename != first:
        text = f"katas/{passed[-1].filename.rpartition('/katas/')[2]} is not written yet"
    own = [f for f in passed if f.filename in files]
    lines = _folded([f"{files[f.filename]}:{f.lineno} in {f.name}\n    {f.line}" for f in own])
    line = next((frame.lineno or 0 for frame in reversed(own) if frame.filename == first), 0)
    read = not (isinstance(error, SyntaxError) and error.filename == first)
    if isinstance(error, SyntaxError) and not read:
        line = error.lineno or 0
        lines = ["".join(traceback.format_exception_only(error)).strip()]
    if len(lines) > OWN_LINES:
        lines = [*lines[: OWN_LINES // 2], f"… {len(lines) - OWN_LINES} more", *lines[-OWN_LINES // 2 :]]
    bases = [c.__name__ for c in type(error).__mro__]
    found = {"kind": type(error).__name__, "text": text, "bases": bases, "lines": "\n".join(lines), "line": line}
    return found | {"operation": operation(error.__traceback__, files), "read": read}


def _folded(lines: list[str]) -> list[str]:
    """The lines of calls; what a recursion, through several functions perhaps, does again and again stands once."""
    folded, at = list[str](), 0
    while at < len(lines):
        cycles = ((length, _times(lines, at, length)) for length in range(1, LONGEST_CYCLE + 1))
        length, times = next((cycle for cycle in cycles if cycle[1] > 2), (1, 1))
        folded += lines[at : at + length]
        if times > 1:
            folded.append(f"    {f'these {length}, ' if length > 1 else ''}{times - 1} times more")
        at += length * times
    return folded


def _times(lines: list[str], at: int, length: int) -> int:
    """How many times the lines from `at` on stand there in succession, so many of them at once."""
    cycle, times = lines[at : at + length], 1
    while lines[at + times * length : at + (times + 1) * length] == cycle:
        times += 1
    return times


def frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Where an exception passed, outermost first."""
    return list(traceback.extract_tb(error.__traceback__))


def operation(passed: TracebackType | None, files: Mapping[str, str]) -> list[str]:
    """What was being computed on the attempt's own line, innermost, and the shapes of its operands: `sub`, `(3, 5)`.

    A name or an attribute that holds no tensor is told as its type. Empty where the line cannot be read.
    """
    last = None
    while passed is not None:
        last = passed if passed.tb_frame.f_code.co_filename in files else last
        passed = passed.tb_next
    if last is None:
        return []
    with suppress(Exception):  # a source that is not as it was run, or an object that answers nothing
        start, end, left, right = list(last.tb_frame.f_code.co_positions())[last.tb_lasti // 2]
        if start is None or end is None:
            return []
        lines = [linecache.getline(last.tb_frame.f_code.co_filename, n).encode() for n in range(start, end + 1)]
        lines[-1] = lines[-1][:right]
        lines[0] = lines[0][left:]
        statement = ast.parse(b"(" + b"".join(lines) + b")" if b"\n" in b"".join(lines) else b"".join(lines)).body[0]
        return _operation(statement, last.tb_frame.f_locals)
    return []


def _operation(statement: ast.stmt, names: Mapping[str, Any]) -> list[str]:
    """The word for an expression, or for a statement like `x /= y`, then what is known of each operand."""
    node: ast.AST = statement.value if isinstance(statement, ast.Expr) else statement
    match node:
        case ast.BinOp(left=left, op=op, right=right) | ast.AugAssign(target=left, op=op, value=right):
            word, operands = type(op).__name__.lower(), [left, right]
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=args):
            library = isinstance(owner, (ast.Name, ast.Attribute)) and ast.unparse(owner) in LIBRARIES
            word, operands = attr.rstrip("_"), args if library else [owner, *args]
        case ast.Call(func=function, args=args):
            word, operands = ast.unparse(function), args
        case ast.Subscript(value=value, slice=index):
            word, operands = "getitem", [value, index]
        case _:
            return []
    return [WORDS.get(word, word), *(_operand(each, names) for each in operands)]


LIBRARIES = ("torch", "F", "nn.functional", "torch.nn.functional", "torch.special", "torch.linalg")
SAME_SHAPE = frozenset("to float double half bfloat16 detach contiguous clone exp log sqrt abs".split())
WORDS = {"mult": "mul", "multiply": "mul", "matmult": "matmul", "divide": "div", "true_divide": "div"}
WORDS |= {"subtract": "sub"}


def _operand(node: ast.expr, names: Mapping[str, Any]) -> str:
    if isinstance(node, ast.Constant):
        return repr(node.value)[:20]
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_SHAPE:
        node = node.func.value
    value = names.get(node.id, UNKNOWN) if isinstance(node, ast.Name) else UNKNOWN
    if isinstance(value, Tensor):
        return str(tuple(value.shape))
    return UNKNOWN if value is UNKNOWN else type(value).__name__


def _safe_text(error: BaseException) -> str:
    """`str(error)`, which an attempt's own exception class may make fail or endless."""
    try:
        return str(error)[:4000]
    except BaseException:
        return "(an exception whose text cannot be read)"
