"""What a master's own signatures say of a callable: its arguments, the axes of its tensors, the dtype of its result."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dojo.content.master import read_text


@dataclass(frozen=True)
class Signature:
    """The call of a function, or the `forward` and the constructor of a module."""

    inputs: tuple[str, ...]  # by name, in their order
    required: int  # how many of them have no default
    axes: dict[str, str]  # of each tensor among the inputs, and of the `result`: "batch seq d_model"
    kind: str  # jaxtyping's word for the result: Float, Int or Bool; empty where it is no tensor
    defaults: dict[str, Any]  # of the optional inputs
    init: tuple[str, ...] = ()  # the constructor's arguments by position
    init_defaults: dict[str, Any] = field(default_factory=dict)
    keywords: tuple[str, ...] = ()  # inputs that are given by name alone
    kinds: dict[str, str] = field(default_factory=dict)  # of each tensor among the inputs: Float, Int or Bool
    open: frozenset[str] = frozenset()  # tensors whose first axis stands for any number of them

    def call(self, inputs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Inputs by position as far as the signature allows it, and the others by name."""
        return _by_position(self.inputs, self.defaults, inputs)

    def construction(self, init: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same of a constructor's arguments."""
        return _by_position(self.init, self.init_defaults, init)

    def in_order(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Inputs in the order of the signature."""
        return {name: inputs[name] for name in self.inputs if name in inputs}


@lru_cache(maxsize=64)
def signature_of(master: Path, name: str) -> Signature:
    """The signature of what a master calls `name`.

    Raises:
        LookupError: the master defines no such function or class.
    """
    if found := signature_in(read_text(master), name):
        return found
    raise LookupError(f"{master} defines no {name}")


@lru_cache(maxsize=64)
def signature_in(source: str, name: str) -> Signature | None:
    """The signature of what a source calls `name`; None where it defines no such function or class.

    Raises:
        SyntaxError: the source is no Python.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _of(node, skip=0)
        if isinstance(node, ast.ClassDef) and node.name == name:
            methods = {each.name: each for each in _members(tree, node)}
            if "forward" not in methods:  # no module: what is called is the class itself
                return _of(methods["__init__"], skip=1) if "__init__" in methods else None
            found = _of(methods["forward"], skip=1)
            if "__init__" not in methods:
                return found
            init = tuple(argument.arg for argument in methods["__init__"].args.args[1:])
            return replace(found, init=init, init_defaults=_defaults(methods["__init__"]))
    return None


def other_default(master: Signature, attempt: Signature, given: set[str]) -> str:
    """Of the arguments that a call leaves out the first whose default is another one, in words; nothing if none is.

    None stands for whatever the body makes of it.
    """
    for defaults, own in ((master.init_defaults, attempt.init_defaults), (master.defaults, attempt.defaults)):
        for name, value in defaults.items():
            if name not in given and own.get(name, value) not in (None, value):
                return f"the default of `{name}` is {own[name]!r} here, and {value!r} in the statement"
    return ""


def _members(tree: ast.Module, made: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods of a class, those it inherits from another class of the file first."""
    bases = {base.id for base in made.bases if isinstance(base, ast.Name)}
    above = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in bases]
    own = [node for node in made.body if isinstance(node, ast.FunctionDef)]
    return [each for base in above for each in _members(tree, base)] + own


def _of(function: ast.FunctionDef, skip: int) -> Signature:
    arguments = function.args.args[skip:]
    keywords = function.args.kwonlyargs
    tensors = {a.arg: found for a in (*arguments, *keywords) if (found := _annotated(a.annotation))[0]}
    kinds, shapes = ({name: found[part] for name, found in tensors.items()} for part in (0, 1))
    axes = {name: _names(shape) for name, shape in shapes.items() if _names(shape)}
    kind, result = _annotated(function.returns)
    names = tuple(a.arg for a in arguments)
    defaults = _defaults(function)
    by_name = tuple(a.arg for a in keywords)
    some = frozenset(name for name, shape in shapes.items() if shape.startswith("*"))
    return Signature(
        names, len(arguments) - len(defaults), axes | {"result": _names(result)}, kind, defaults, keywords=by_name,
        kinds=kinds, open=some,
    )  # fmt: skip


def _defaults(function: ast.FunctionDef) -> dict[str, Any]:
    """The default values of what may be given by position; what is no literal counts as None."""
    values = [_literal(default) for default in function.args.defaults]
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    return dict(zip(names[-len(values) :] if values else [], values, strict=True))


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _by_position(names: tuple[str, ...], defaults: dict[str, Any], given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    count = max((number for number, name in enumerate(names, 1) if name in given), default=0)
    by_name = {name: value for name, value in given.items() if name not in names}
    return tuple({**defaults, **given}[name] for name in names[:count]), by_name


def _annotated(annotation: ast.expr | None) -> tuple[str, str]:
    """`Float[Tensor, "*batch seq"] | None` is a Float of the shape "*batch seq"."""
    for node in ast.walk(annotation) if annotation is not None else ():
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and isinstance(node.value, ast.Name):
            shape = node.slice.elts[-1]
            if isinstance(shape, ast.Constant) and isinstance(shape.value, str):
                return node.value.id, shape.value
    return "", ""


def _names(shape: str) -> str:
    """The names of the axes alone: "batch seq"."""
    return " ".join(word.lstrip("*#") for word in shape.split() if word != "...")
