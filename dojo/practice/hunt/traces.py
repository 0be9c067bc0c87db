"""What nobody would write: code without an effect, which gives a planted line away to who has understood nothing."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Any


@cache
def traces(text: str) -> Counter[str]:
    """The places of a source that have no effect, in words that do not depend on where they stand."""
    nodes = [*ast.walk(ast.parse(text))]
    found = Counter(chain.from_iterable(map(_idle, nodes)))
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            found.update(f"{node.name}: {each}" for each in _unread(node))
    return found


def _idle(node: ast.AST) -> Iterator[str]:
    """`x = x`, `0 * x`, `if False`, an expression that nothing is done with, and what stands after a return."""
    match node:
        case ast.Assign(targets=[target], value=value):
            if ast.unparse(target) == ast.unparse(value):
                yield ast.unparse(node)
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.Add() | ast.Sub(), left=left, right=right):
            factor = isinstance(node.op, ast.Mult | ast.Div)
            swaps = isinstance(node.op, ast.Mult | ast.Add)
            if _is(right, 0, *[1] * factor) or _is(left, 0, *[1] * (factor and swaps)):
                yield ast.unparse(node)
        case ast.If(test=test) | ast.IfExp(test=test):
            parts = test.values if isinstance(test, ast.BoolOp) else [test]
            if any(isinstance(part, ast.Constant) for part in parts):
                yield f"if {ast.unparse(test)}"
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            pass
        case ast.Expr(value=value) if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
            yield ast.unparse(node)
    body = getattr(node, "body", None)
    if isinstance(body, list) and any(isinstance(each, ast.Return | ast.Raise) for each in body[:-1]):
        yield "code after its end"


def _is(node: ast.expr, *values: Any) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value in values


def _unread(function: ast.FunctionDef) -> Iterator[str]:
    """The local names that nothing reads, and those that are assigned again before anything does."""
    nodes = [*ast.walk(function)][1:]
    inner = [[*ast.walk(node)][1:] for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda)]
    own = {id(node) for node in nodes} - {id(node) for node in chain.from_iterable(inner)}
    stored = _stored(node for node in nodes if id(node) in own)
    yield from (f"{name} is never read" for name in sorted(stored - _read(nodes)) if not name.startswith("_"))
    captured = _read(chain.from_iterable(inner))
    for node in (function, *nodes):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and not isinstance(node, ast.Try):
                yield from (f"{name} is assigned for nothing" for name in _overwritten(block) if name not in captured)


def _overwritten(statements: list[ast.stmt]) -> Iterator[str]:
    """The names that statements in a row assign, and assign again before any of them reads what it is."""
    waiting = set[str]()
    for statement in statements:
        nodes = [*ast.walk(statement)]
        read, stored = _read(nodes), _stored(nodes)
        waiting -= read
        if not hasattr(statement, "body"):
            yield from sorted(waiting & stored)
            waiting |= stored


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _read(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that are read; who stores into a part of what a name stands for does not read it."""
    nodes = list(nodes)
    places = [node for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]
    into = {id(place.value) for place in places}
    names = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return {name.id for name in names if id(name) not in into}
