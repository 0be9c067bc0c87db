"""What in an attempt a person should look at: words that no answer needs, and that ways around the judge are made of.

Nothing is judged by them. Whoever builds a name at run time is listed for that alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

MODULES = frozenset(
    "atexit builtins cffi ctypes _ctypes dojo faulthandler gc importlib inspect mmap multiprocessing os pytest signal "
    "socket subprocess sys threading".split()
)
ATTRIBUTES = frozenset(
    "_getframe _current_frames addaudithook settrace setprofile currentframe get_objects get_referrers get_referents "
    "f_back f_locals f_globals f_builtins tb_frame gi_frame cr_frame __globals__ __code__ __closure__ __subclasses__ "
    "__builtins__ _python_dispatch _disable_current_modes DisableTorchFunction DisableTorchFunctionSubclass".split()
)
OF_A_MODULE = frozenset("sys.modules torch._C torch.ops torch.jit torch.library torch.overrides torch._dynamo".split())
LIBRARIES = frozenset("torch F nn time sys os builtins math".split())
CALLS = frozenset("__import__ compile eval exec".split())
NOTEBOOKS_OWN = "check"  # which a notebook's last cell imports of us


def mentions(parts: Mapping[str, str]) -> list[str]:
    """What is mentioned, each with its first line, in sources by what stands before a line number."""
    found: dict[str, str] = {}
    for label, source in parts.items():
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            continue  # which is told otherwise
        places = [(getattr(node, "lineno", 0), word) for node in ast.walk(tree) for word in _words(node)]
        for line, word in sorted(places):
            found.setdefault(word, f"{word} ({label}line {line})")
    return list(found.values())


def _words(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names if each.name.partition(".")[0] in MODULES)
            yield from (each.name for each in names if each.name in OF_A_MODULE)
        case ast.ImportFrom(module=str(module), names=names):
            if module.partition(".")[0] in MODULES and [each.name for each in names] != [NOTEBOOKS_OWN]:
                yield module
            whole = (f"{module}.{each.name}" for each in names)
            yield from (each for each in (module, *whole) if each in OF_A_MODULE)
            yield from (each.name for each in names if each.name in ATTRIBUTES)
        case ast.Attribute(value=value, attr=attr):
            if attr in ATTRIBUTES:
                yield attr
            if isinstance(value, ast.Name) and f"{value.id}.{attr}" in OF_A_MODULE:
                yield f"{value.id}.{attr}"
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield name
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
            if name in ATTRIBUTES:
                yield name
        case ast.Call(func=ast.Name(id="getattr" | "setattr" as way), args=[owner, *_]) if _root(owner) in LIBRARIES:
            yield f"{way} of {ast.unparse(owner)}"
        case ast.Assign(targets=targets):
            attributes = (each for each in targets if isinstance(each, ast.Attribute))
            yield from (f"{ast.unparse(each)} = …" for each in attributes if _root(each) in LIBRARIES)


def _root(node: ast.expr) -> str:
    """The name that an expression with dots begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
