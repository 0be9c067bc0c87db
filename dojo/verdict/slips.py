"""What usually lies behind an exception, asked as a question: slips that have nothing to do with a kata."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

METHOD = re.compile(r"^\w+\.\w+\(\) takes (\d+) positional arguments? but (\d+) (?:was|were) given")
PAIR = re.compile(r"torch\.return_types\.(\w+)")
BROADCAST = re.compile(r"[Tt]he size of tensor a|[Ss]hape mismatch|must match the existing size|not broadcastable")
# a reduction whose call says nothing of keepdim
REDUCED = re.compile(r"\.(?:sum|mean|amax|amin|norm|vector_norm|var|std|prod|logsumexp)\((?![^()]*keepdim)[^()]*\)")


def slip(text: str, lines: str, operation: Sequence[str]) -> str:
    """A question that an exception suggests, by its text, the attempt's own lines and what was computed there.

    Nothing where none suggests itself; `operation` is that of `Raised`.
    """
    if (found := METHOD.search(text)) and int(found[2]) == int(found[1]) + 1:
        return "is `self` missing in the definition of the method?"
    if found := PAIR.search(text):
        return f"`{found[1]}` over a dimension gives values and indices: is `.values` missing?"
    if BROADCAST.search(text) and (_one_axis_less(operation[1:]) or REDUCED.search(lines)):
        return "a reduction without `keepdim=True`?"
    return ""


def _one_axis_less(operands: Sequence[str]) -> bool:
    """Whether one of two shapes is the other with an axis taken out, as a reduction leaves it."""
    shapes = [ast.literal_eval(each) for each in operands if each.startswith("(")]
    if len(shapes) != 2:
        return False
    less, more = sorted(shapes, key=len)
    return any(less == more[:axis] + more[axis + 1 :] for axis in range(len(more)))
