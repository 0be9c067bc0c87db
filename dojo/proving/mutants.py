"""Mutation testing of a grader: one-place mutants of the solution, and which of them it lets through.

Each mutant changes one operator, constant, keyword, call or statement. Those that make the same program in another way
are equivalent and survive rightly: rows of `wrong.txt` marked `[equivalent]` say why. Every other survivor is a hole.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from dojo.content import master, proofs
from dojo.content.catalog import Kata
from dojo.content.rows import code
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge.fork_server import ForkServer
from dojo.judge.pool import WorkerPool, processors

SWAPS: dict[type[ast.AST], list[type[ast.AST]]] = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult], ast.Pow: [ast.Mult],
    ast.FloorDiv: [ast.Mult], ast.Mod: [ast.FloorDiv], ast.BitOr: [ast.BitAnd], ast.BitAnd: [ast.BitOr],
    ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.Lt], ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is],
    ast.And: [ast.Or], ast.Or: [ast.And], ast.USub: [ast.UAdd],
}  # fmt: skip
NAMES = {
    "mean": ["sum"], "sum": ["mean"], "sin": ["cos"], "cos": ["sin"], "softmax": ["log_softmax", "sigmoid"],
    "rsqrt": ["sqrt"], "sqrt": ["square"], "square": ["abs"], "silu": ["gelu", "relu"], "gelu": ["silu", "relu"],
    "tril": ["triu"], "amax": ["amin"], "max": ["min"], "min": ["max"], "ones": ["zeros"], "zeros": ["ones"],
    "exp": ["expm1"], "erf": ["tanh"], "unsqueeze": ["squeeze"], "float32": ["float64", "float16"],
    "float64": ["float32"], "abs": ["neg"], "repeat_interleave": ["tile"],
    "q": ["k"], "k": ["q", "v"], "v": ["k"], "first": ["second"], "second": ["first"],
    "memory": ["x"], "d_model": ["d_ff"], "d_ff": ["d_model"],
}  # fmt: skip
SYMMETRIC = {"promote_types", "transpose"}  # in their arguments


@dataclass
class Tally:
    """What became of the mutants of a kata."""

    kata: str
    made: int
    rejected: int
    explained: list[tuple[str, str]] = field(default_factory=list)  # what survives rightly, and why
    unexplained: list[tuple[int, str]] = field(default_factory=list)  # by the number of the line in the master


def mutants(source: str) -> Iterator[tuple[str, int, str]]:
    """Every mutant of a source, the number of the line that it changes, and what that was and became."""
    tree = without_annotations(ast.parse(source))
    nodes = list(ast.walk(tree))
    seen = {ast.unparse(tree)}
    for index, node in enumerate(nodes):
        for change in changes(node):
            other = copy.deepcopy(tree)
            target = list(ast.walk(other))[index]
            change(target)
            try:
                text = ast.unparse(ast.fix_missing_locations(other))
                compile(text, "mutant", "exec")
            except (SyntaxError, ValueError, TypeError, AttributeError):
                continue
            if text not in seen:
                seen.add(text)
                yield text, getattr(node, "lineno", 1), changed_line(ast.unparse(tree), text)


def without_annotations(tree: ast.Module) -> ast.Module:
    """The same program: what it says to readers and checkers of types cannot be wrong for a grader."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return tree


def changed_line(before: str, after: str) -> str:
    """The first line that differs, as it was and as it is."""
    for old, new in zip(before.splitlines(), after.splitlines(), strict=False):
        if old != new:
            return f"{old.strip()}  →  {new.strip()}"
    return "the end cut off"


Change = Callable[[Any], object]


def changes(node: ast.AST) -> Iterator[Change]:
    """What may be done to one node, as functions that do it to its copy."""
    match node:
        case ast.BinOp(op=op):
            yield from (put("op", swap()) for swap in SWAPS.get(type(op), []))
            yield lambda n: become(n, n.left)
            yield lambda n: become(n, n.right)
        case ast.Compare(ops=[op]):
            yield from (put("ops", [swap()]) for swap in SWAPS.get(type(op), []))
        case ast.BoolOp(op=op):
            yield from (put("op", swap()) for swap in SWAPS.get(type(op), []))
        case ast.UnaryOp():
            yield lambda n: become(n, n.operand)
        case ast.Constant(value=bool(truth)):
            yield put("value", not truth)
        case ast.Constant(value=int(count)):
            yield from (put("value", other) for other in {count + 1, count - 1} - {count})
        case ast.Constant(value=float(number)):
            yield from (put("value", other) for other in {number * 2, number * 0.9} - {number})
        case ast.Attribute(attr=name):
            yield from (put("attr", other) for other in NAMES.get(name, []))
        case ast.Name(id=name, ctx=ast.Load()):
            yield from (put("id", other) for other in NAMES.get(name, []))
        case ast.Call(func=function):
            if isinstance(function, ast.Attribute) and not ast.unparse(function.value).startswith(
                ("torch", "nn", "F.")
            ):
                yield lambda n: become(n, n.func.value)
            if len(node.args) > 1 and ast.unparse(function).rpartition(".")[2] not in SYMMETRIC:
                yield lambda n: n.args.reverse()
            yield from (without_keyword(place) for place in range(len(node.keywords)))
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=same))) if name == same:
            yield lambda n: become(n, ast.AugAssign(n.targets[0], n.value.op, n.value.right))
        case ast.If():
            yield put("test", ast.Constant(True))
            yield put("test", ast.Constant(False))
        case ast.FunctionDef(body=body) | ast.ClassDef(body=body):
            for place, statement in enumerate(body):
                if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr)) and not docstring(statement):
                    yield without_statement(place)


def put(name: str, value: object) -> Change:
    """Give a node this attribute."""
    return lambda n: setattr(n, name, value)


def without_keyword(place: int) -> Change:
    """Take a call's keyword argument out."""
    return lambda n: n.keywords.pop(place)


def without_statement(place: int) -> Change:
    """Take a statement out of a body."""
    return lambda n: n.body.__setitem__(place, ast.Pass())


def docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def become(node: ast.AST, other: ast.AST) -> None:
    """Turn a node into one of its parts, in place."""
    node.__class__, node.__dict__ = other.__class__, dict(other.__dict__)


def tally(kata: Kata, server: ForkServer, seed: int, done: Callable[[int, int], None] = lambda at, of: None) -> Tally:
    """Grade every mutant of a kata's solution; `done` hears how far it is."""
    made = list(mutants(code(master.read_text(kata.master))))
    options, ended = Options(seed, diagnose=False, stop_at_first=True), count(1)

    def survives(text: str, server: ForkServer) -> bool:
        return run([Entry(kata, text, "mutant.py", "")], options, server)[0].verdict == "passed"

    with WorkerPool(survives, server, processors()) as pool:
        alive = pool.map([text for text, *_ in made], lambda _: done(next(ended), len(made)))
    left = [(number, change) for (_, number, change), survived in zip(made, alive, strict=True) if survived]
    found, known = Tally(kata.name, len(made), len(made) - len(left)), proofs.equivalents(kata)
    for number, change in left:
        if why := next((each.why for each in known if re.search(each.name, change)), ""):
            found.explained.append((change, why))
        else:
            found.unexplained.append((number, change))
    return found
