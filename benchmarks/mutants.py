"""Mutation testing of the graders: one-place mutants of the solutions, and which of them a grader lets through.

    nox -s mutants -- [KATA ...] [--seed 1] [--out docs/mutants.md]

Each mutant changes one operator, constant, keyword, call or statement of a solution. Those that make the same program
in another way are equivalent and survive rightly: rows of `wrong.txt` marked `[equivalent]` say why. Every other
survivor is shown with its line, and is a hole in a grader.
"""

from __future__ import annotations

import argparse
import ast
import copy
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import torch  # noqa: E402

from benchmarks import subjects  # noqa: E402
from dojo.content import catalog, files, master, proofs  # noqa: E402
from dojo.grading import parallel  # noqa: E402
from dojo.grading.options import Entry, Options  # noqa: E402
from dojo.grading.run import run  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402
from dojo.judge.pool import WorkerPool, processors  # noqa: E402

SWAPS = {
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
Row = tuple[str, int, int, list[tuple[str, str]], list[str]]  # kata, mutants, rejected, (line, reason), unexplained


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Every mutant of a source, with the line it changes and what that became."""
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
                yield text, changed_line(ast.unparse(tree), text)


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


def changes(node: ast.AST) -> Iterator:
    """What may be done to one node, as functions that do it to its copy."""
    match node:
        case ast.BinOp(op=op):
            for swap in SWAPS.get(type(op), []):
                yield lambda n, swap=swap: setattr(n, "op", swap())
            yield lambda n: become(n, n.left)
            yield lambda n: become(n, n.right)
        case ast.Compare(ops=[op]):
            for swap in SWAPS.get(type(op), []):
                yield lambda n, swap=swap: setattr(n, "ops", [swap()])
        case ast.BoolOp(op=op):
            for swap in SWAPS.get(type(op), []):
                yield lambda n, swap=swap: setattr(n, "op", swap())
        case ast.UnaryOp():
            yield lambda n: become(n, n.operand)
        case ast.Constant(value=bool(value)):
            yield lambda n, value=value: setattr(n, "value", not value)
        case ast.Constant(value=int(value)):
            for other in {value + 1, value - 1} - {value}:
                yield lambda n, other=other: setattr(n, "value", other)
        case ast.Constant(value=float(value)):
            for other in {value * 2, value * 0.9} - {value}:
                yield lambda n, other=other: setattr(n, "value", other)
        case ast.Attribute(attr=name):
            for other in NAMES.get(name, []):
                yield lambda n, other=other: setattr(n, "attr", other)
        case ast.Name(id=name, ctx=ast.Load()):
            for other in NAMES.get(name, []):
                yield lambda n, other=other: setattr(n, "id", other)
        case ast.Call():
            if isinstance(node.func, ast.Attribute) and not ast.unparse(node.func.value).startswith(
                ("torch", "nn", "F.")
            ):
                yield lambda n: become(n, n.func.value)
            if len(node.args) > 1 and ast.unparse(node.func).rpartition(".")[2] not in SYMMETRIC:
                yield lambda n: n.args.reverse()
            for place in range(len(node.keywords)):
                yield lambda n, place=place: n.keywords.pop(place)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=same))) if name == same:
            yield lambda n: become(n, ast.AugAssign(n.targets[0], n.value.op, n.value.right))
        case ast.If():
            yield lambda n: setattr(n, "test", ast.Constant(True))
            yield lambda n: setattr(n, "test", ast.Constant(False))
        case ast.FunctionDef() | ast.ClassDef():
            for place, statement in enumerate(node.body):
                if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr)) and not docstring(statement):
                    yield lambda n, place=place: n.body.__setitem__(place, ast.Pass())


def docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def become(node: ast.AST, other: ast.AST) -> None:
    """Turn a node into one of its parts, in place."""
    node.__class__, node.__dict__ = other.__class__, dict(other.__dict__)


def table(rows: list[Row]) -> str:
    """What was found, in Markdown."""
    lines = ["| kata | mutants | rejected | equivalent | unexplained |", "|---|---|---|---|---|"]
    for name, made, rejected, explained, left in rows:
        lines.append(f"| `{name}` | {made} | {rejected} | {len(explained)} | {len(left)} |")
    made, rejected = sum(row[1] for row in rows), sum(row[2] for row in rows)
    explained, left = sum(len(row[3]) for row in rows), sum(len(row[4]) for row in rows)
    lines.append(f"| all | {made} | {rejected} | {explained} | {left} |")
    share = 100 * rejected / max(1, made - explained)
    return "\n".join(lines) + f"\n\nOf the mutants that are mistakes, {share:.1f}% are rejected.\n"


def page(rows: list[Row], command: str) -> str:
    """The table with all survivors, as a page of the documentation."""
    head = f"# Mutants of the solutions\n\nMade by `{command}`, torch {torch.__version__}.\n\n{table(rows)}"
    parts = []
    for name, _, _, explained, left in rows:
        lines = [f"- `{line}`: **unexplained**" for line in left]
        lines += [f"- `{line}`: {reason}" for line, reason in explained]
        parts += [f"\n## {name}\n\n" + "\n".join(lines) + "\n"] if lines else []
    return head + "".join(parts)


def main() -> int:
    """Grade all mutants; returns 1 if one survives that no grader explains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA", help="katas or tracks; all when none is named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table and the survivors to this file")
    args = parser.parse_args()
    chosen = subjects.chosen(parser, args.names)
    server = ForkServer()
    parallel.import_all()
    options = Options(args.seed, diagnose=False, stop_at_first=True)

    def survives(item: tuple[str, str], server: ForkServer) -> bool:
        kata, text = item
        entry = Entry(catalog.katas()[kata], text, "mutant.py", "")
        return run([entry], options, server)[0].verdict == "passed"

    rows: list[Row] = []
    with WorkerPool(survives, server, processors()) as pool:
        for kata in chosen:
            made = list(mutants(master.solution_code(master.read_text(kata.master))))
            done = [0]

            def tell(_: bool, done: list[int] = done, name: str = kata.name, total: int = len(made)) -> None:
                done[0] += 1
                print(f"\r{name} {done[0]}/{total} ", end="", file=sys.stderr, flush=True)

            alive = pool.map([(kata.name, text) for text, _ in made], tell)
            lines = [line for (_, line), survived in zip(made, alive, strict=True) if survived]
            known = proofs.equivalents(kata)
            why = {line: next((e.why for e in known if re.search(e.name, line)), "") for line in lines}
            explained, left = (
                [(line, why[line]) for line in lines if why[line]],
                [line for line in lines if not why[line]],
            )
            rows.append((kata.name, len(made), len(made) - len(lines), explained, left))
            print(f"\r{kata.name:20} {len(made) - len(lines):4} of {len(made):4} rejected, {len(explained)} equivalent")
            for line in left:
                print(f"    survives: {line}", flush=True)
    server.close()
    print("\n" + table(rows))
    if args.out:
        files.write_atomic(args.out.resolve(), page(rows, f"nox -s mutants -- {' '.join(sys.argv[1:])}"))
    return 1 if any(row[4] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
