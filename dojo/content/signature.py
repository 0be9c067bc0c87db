"""What a master's own signatures say of a callable: its arguments, the axes of its tensors, the dtype of its result."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dojo.content.master import read_text


@dataclass(frozen=True)
class Signature:
    """The call of a function, or the `forward` and the constructor of a module."""

    inputs: tuple[str, ...]  # by name, in their order
    required: int  # how many of them have no default
    axes: dict[str, str]  # of each tensor among the inputs, and of the `result`: "batch seq d_model"
    kind: str  # jaxtyping's word for the result: Float, Int or Bool; empty where it is no tensor
    init: tuple[str, ...] = ()  # the constructor's arguments by position


@lru_cache(maxsize=64)
def signature_of(master: Path, name: str) -> Signature:
    """The signature of what a master calls `name`.

    Raises:
        LookupError: the master defines no such function or class.
    """
    tree = ast.parse(read_text(master))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _of(node, skip=0)
        if isinstance(node, ast.ClassDef) and node.name == name:
            methods = {each.name: each for each in _members(tree, node)}
            init = methods["__init__"].args.args if "__init__" in methods else []
            found = _of(methods["forward"], skip=1)
            return Signature(found.inputs, found.required, found.axes, found.kind, tuple(a.arg for a in init[1:]))
    raise LookupError(f"{master} defines no {name}")


def _members(tree: ast.Module, made: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods of a class, those it inherits from another class of the file first."""
    bases = {base.id for base in made.bases if isinstance(base, ast.Name)}
    above = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in bases]
    own = [node for node in made.body if isinstance(node, ast.FunctionDef)]
    return [each for base in above for each in _members(tree, base)] + own


def _of(function: ast.FunctionDef, skip: int) -> Signature:
    arguments = function.args.args[skip:]
    keywords = function.args.kwonlyargs
    axes = {a.arg: shape for a in (*arguments, *keywords) if (shape := _annotated(a.annotation)[1])}
    kind, result = _annotated(function.returns)
    names = tuple(a.arg for a in arguments)
    return Signature(names, len(arguments) - len(function.args.defaults), axes | {"result": result}, kind)


def _annotated(annotation: ast.expr | None) -> tuple[str, str]:
    """`Float[Tensor, "*batch seq"] | None` is a Float of the axes "batch seq"."""
    for node in ast.walk(annotation) if annotation is not None else ():
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and isinstance(node.value, ast.Name):
            shape = node.slice.elts[-1]
            if isinstance(shape, ast.Constant) and isinstance(shape.value, str):
                return node.value.id, " ".join(word.lstrip("*#") for word in shape.value.split() if word != "...")
    return "", ""
