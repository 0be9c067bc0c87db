"""Programs over an attempt's numbers, as the driver `program` runs them: read, written, made simpler."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch

from dojo.judge.worker.drivers import OPERATORS

SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
Line = tuple[Any, ...]
Program = tuple[Line, ...]  # lines of the driver
ASIDE = ("backward", "set")  # lines that make no object


def program(text: str, **leaves: float) -> Program:
    """The lines of a program in Python, which starts from these leaves: `c = a * b; c.backward()`."""
    lines: list[Line] = [("leaf", value) for value in leaves.values()]
    made = {name: number for number, name in enumerate(leaves)}
    count = len(leaves)

    def visit(node: Any) -> Any:
        nonlocal count
        line: Line
        match node:
            case ast.Name():
                return made[node.id]
            case ast.Constant():
                return ("number", node.value)
            case ast.BinOp():
                line = (SYMBOLS[type(node.op)], visit(node.left), visit(node.right))
            case ast.UnaryOp(operand=ast.Constant()):
                return ("number", ast.literal_eval(node))
            case ast.UnaryOp():
                line = ("neg", visit(node.operand))
            case ast.Call(func=ast.Attribute(value=value, attr=word)):
                line = (word, visit(value))
        lines.append(line)
        count += line[0] != "backward"
        return count - 1

    body: list[Any] = ast.parse(text).body
    for each in body:
        number = visit(each.value)
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute):  # a.grad = 0.0
            lines.append(("set", visit(each.targets[0].value), number))
        elif isinstance(each, ast.Assign):
            made[ast.unparse(each.targets[0])] = number
    return tuple(lines)


def name_of(number: int) -> str:
    return "last" if number < 0 else "abcdefghijklmnopqrstuvwxyz"[number] if number < 26 else f"v{number}"


def written(lines: Program) -> str:
    """A program as Python, a line each."""
    code, count = [], 0

    def shown(operand: Any) -> str:
        return name_of(operand) if isinstance(operand, int) else repr(operand[1])

    def text(word: str, operands: list[Any]) -> str:
        if word == "leaf":
            return f"Value({operands[0]!r})"
        if word in OPERATORS:
            return f"{shown(operands[0])} {word} {shown(operands[1])}"
        return f"-{shown(operands[0])}" if word == "neg" else f"{shown(operands[0])}.{word}()"

    for word, *operands in lines:
        if word == "again":
            code += [f"last = {name_of(count - 1)}", f"for _ in range({operands[0]}):"]
            code += [f"    last = {text(inner, rest)}" for inner, *rest in operands[1]]
        elif word == "backward":
            code.append(text(word, operands))
        elif word == "set":
            code.append(f"{shown(operands[0])}.grad = {shown(operands[1])}")
        else:
            code.append(f"{name_of(count)} = {text(word, operands)}")
            count += 1
    return "\n".join(code)


def told_of(lines: Program) -> list[int]:
    """The objects to look at: all, or with a chain those before it and its end."""
    words = [word for word, *_ in lines]
    before = words.index("again") if "again" in words else len(words)
    count = sum(word not in ASIDE for word in words[:before])
    return [*range(count), *([-1] if "again" in words else [])]


@lru_cache(maxsize=4096)
def by_torch(lines: Program) -> dict[str, float]:
    """`data` and `grad` of each object by its name. Each backward is one question to torch, whose answers are added."""
    made: list[torch.Tensor] = []
    grads: dict[int, float] = {}

    def operand(given: Any) -> Any:
        return given[1] if isinstance(given, tuple) else made[given]

    def run(lines: Program) -> None:
        for word, *operands in lines:
            if word == "leaf":
                made.append(torch.tensor(operands[0], dtype=torch.float64, requires_grad=True))
            elif word == "again":
                for _ in range(operands[0]):
                    run(operands[1])
            elif word == "backward":
                asked = [number for number in told_of(all_lines) if number < len(made)]
                inputs = [made[number] for number in asked]
                found = torch.autograd.grad(made[operands[0]], inputs, retain_graph=True, allow_unused=True)
                for number, grad in zip(asked, found, strict=True):
                    grads[number] = grads.get(number, 0.0) + (0.0 if grad is None else grad.item())
            elif word == "set":
                grads[operands[0]] = operands[1][1]
            elif word in OPERATORS:
                made.append(OPERATORS[word](*map(operand, operands)))
            else:
                made.append(getattr(made[operands[0]], word)())

    all_lines = lines
    run(lines)
    names = {number: name_of(number) for number in told_of(lines)}
    data = {f"{name}.data": made[number].item() for number, name in names.items()}
    return data | {f"{name}.grad": grads.get(number, 0.0) for number, name in names.items()}


def without(lines: Program, gone: int) -> Program:
    """The program less one line and all that is made of what it makes."""
    kept: list[Line] = []
    new: dict[int, int] = {}
    count = 0
    for place, (word, *operands) in enumerate(lines):
        used = [] if word == "leaf" else [each for each in operands if isinstance(each, int)]
        if place != gone and all(each in new for each in used):
            kept.append((word, *operands) if word == "leaf" else (word, *(new.get(each, each) for each in operands)))
            if word not in ASIDE:
                new[count] = len(new)
        count += word not in ASIDE
    return tuple(kept)


def simpler(call: tuple) -> Iterator[tuple]:
    """Programs that go back from an earlier object, that lack a line, or have a leaf for what was computed."""
    (lines,) = call
    if any(word == "again" for word, *_ in lines):
        return
    places = [place for place, (word, *_) in enumerate(lines) if word not in ASIDE]
    made = [each for each in lines if each[0] not in ASIDE]
    data = by_torch(lines)
    found = [(*made[: count + 1], ("backward", count)) for count in range(len(made))]
    found = [each for each in found if len(each) < len(lines)]
    for count, place in enumerate(places):
        if lines[place][0] != "leaf":
            leaf = ("leaf", round(data[f"{name_of(count)}.data"], 2))
            found.append((*lines[:place], leaf, *lines[place + 1 :]))
    found += [without(lines, place) for place in reversed(range(len(lines)))]
    for each in found:
        if each and all(map(math.isfinite, by_torch(each).values())):
            yield (each,)
