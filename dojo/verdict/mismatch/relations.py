"""How a wrong result comes from the expected one: a factor, an offset, axes swapped, places in another order."""

from __future__ import annotations

import math
from itertools import combinations

import torch

from dojo.verdict.mismatch.comparison import Detector, Mismatch, dtype_name, kind, near, number, singular, value_range

COARSE = ((torch.bfloat16, "bfloat16"), (torch.float16, "float16"), (torch.float32, "float32"))  # least digits first


def constant(m: Mismatch) -> str | None:
    """One value in place of all elements, or of all wrong ones."""
    values = m.got[m.wrong]
    first = values[:1]
    if len(values) < 3 or not (values == first).all():  # never true of nan, which the facts tell
        return None
    whole = bool((m.got == first).all())
    if m.boolean:
        return f"got is {bool(first)} everywhere" if whole else None
    c = float(first)
    name = _constant_name(c, float(m.allowed[m.wrong].min()), m) if math.isfinite(c) and c else number(c)
    if whole:
        return f"got is all {'zeros' if c == 0 else name}"
    return f"every wrong element is {'0' if c == 0 else name}"


def unchanged(m: Mismatch) -> str | None:
    """The result is an input of the call."""
    for name, t in m.inputs.items():
        if t.shape == m.got.shape and kind(t) == kind(m.raw_got) and m.got_is(t.double(), m.allowed):
            return f"got is the input {name} unchanged"
    return None


def inverted(m: Mismatch) -> str | None:
    """Every truth value is the other one."""
    whole = m.boolean and bool(m.wrong.all())
    return "every element is inverted: True where False is expected, and the other way round" if whole else None


def factor(m: Mismatch) -> str | None:
    """The expected times a constant, -1 among them."""
    use = m.wrong & m.got.isfinite() & m.expected.isfinite() & (m.expected != 0)
    g, e = m.got[use], m.expected[use]
    if m.boolean or len(e) < 3 or bool((e == e[0]).all()):
        return None
    best = int(e.abs().argmax())
    c = float(g[best] / e[best])
    allowed = 2 * max(1.0, abs(c)) * m.allowed
    here = near(m.got, c * m.expected, 2 * allowed)
    if c == 0 or not here[m.wrong].all():
        return None
    whole = bool(here.all())
    slack = float(allowed[use][best] / e[best].abs())
    if abs(c + 1) <= slack:
        return "the sign is flipped" if whole else "the sign of every wrong element is flipped"
    name = _constant_name(c, slack, m)
    return f"constant factor {name}: {'got' if whole else 'every wrong element'} is that times the expected"


def offset(m: Mismatch) -> str | None:
    """The expected plus a constant."""
    use = m.wrong & m.got.isfinite() & m.expected.isfinite()
    difference = m.got[use] - m.expected[use]
    if m.boolean or len(difference) < 3 or bool((m.expected[use] == m.expected[use][0]).all()):
        return None
    c = float(difference.median())
    here = near(m.got, m.expected + c, 2 * m.allowed)
    if not here[m.wrong].all():
        return None
    name = _constant_name(c, float(2 * m.allowed[use].min()), m)
    return f"constant offset {name}: {'got' if here.all() else 'every wrong element'} is the expected plus that"


def _constant_name(c: float, slack: float, m: Mismatch) -> str:
    """The constant, and the simple number that it is, if it is one: `2.828 = √8`."""
    sizes = {s for t in (m.got, *m.inputs.values()) for s in t.shape}
    for n in [*range(1, 17), *sorted(sizes)]:
        if n < 1:
            continue
        for value, name in ((n, f"{n}"), (1 / n, f"1/{n}"), (n**0.5, f"√{n}"), (n**-0.5, f"1/√{n}")):
            if abs(abs(c) - value) <= min(slack, 0.01 * value) + 1e-9 * value:
                sign = "-" if c < 0 else ""
                return sign + name if name.isdigit() else f"{c:.4g} = {sign}{name}"
    return number(c, round(c))


def swapped(m: Mismatch) -> str | None:
    """The expected with two axes of one size transposed."""
    for a, b in combinations(range(m.got.ndim), 2):
        if m.got.shape[a] == m.got.shape[b] and m.got_is(m.expected.transpose(a, b), m.allowed.transpose(a, b)):
            return f"got is the expected with {m.axes[a]} and {m.axes[b]} swapped"
    return None


def flipped(m: Mismatch) -> str | None:
    """The expected back to front along an axis."""
    for a in m.long_axes:
        if m.got_is(m.expected.flip(a), m.allowed.flip(a)):
            return f"got is the expected with {m.axes[a]} reversed"
    return None


def shifted(m: Mismatch) -> str | None:
    """The expected one or two places further along an axis."""
    for a in m.long_axes:
        for k in (1, -1, 2, -2):
            n = m.got.shape[a] - abs(k)
            if n < 2:
                continue
            to, source = max(0, k), max(0, -k)
            e, allowed = m.expected.narrow(a, source, n), m.allowed.narrow(a, source, n)
            # Where the overlap holds no wrong element, being shifted explains nothing.
            if m.wrong.narrow(a, to, n).any() and near(m.got.narrow(a, to, n), e, 2 * allowed).all():
                back = f"i − {k}" if k > 0 else f"i + {-k}"
                return f"shifted by {k} along {m.axes[a]}: place i holds what belongs to place {back}"
    return None


def rearranged(m: Mismatch) -> str | None:
    """The expected with the places of an axis in another order, some of them repeated perhaps."""
    if m.boolean:  # two values agree too easily
        return None
    for a in m.long_axes:
        source = _sources(m, a)
        if source is not None:
            return _arrangement(source, m.axes[a])
    return None


def _sources(m: Mismatch, axis: int) -> list[int] | None:
    """For each place on the axis, the place whose expected values it holds; None unless all have one."""
    n = m.got.shape[axis]
    got, expected, allowed = (t.movedim(axis, 0).reshape(n, -1) for t in (m.got, m.expected, 2 * m.allowed))
    if n > 128 or expected.shape[1] < 2:
        return None
    # A few columns decide between candidates, those that differ most; the whole is compared once, at the end.
    finite = expected.nan_to_num(0.0, 0.0, 0.0)
    probe = (finite.amax(0) - finite.amin(0)).topk(min(8, expected.shape[1])).indices
    match = near(got[:, None, probe], expected[None, :, probe], allowed[None, :, probe]).all(-1)
    if not match.any(1).all():
        return None
    score = match.double() + 0.5 * torch.eye(n)  # a place that holds its own is not called moved
    source = torch.where(match, score, 0.0).argmax(1)
    return source.tolist() if near(got, expected[source], allowed[source]).all() else None


def _arrangement(source: list[int], axis: str) -> str:
    n, name, half = len(source), singular(axis), len(source) // 2
    moved = [f"{name} {i} holds what belongs to {name} {j}" for i, j in enumerate(source) if i != j]
    pairs = list(range(0, n, 2)) + list(range(1, n, 2))
    shift = (-source[0]) % n
    if len(set(source)) == 1:
        return f"every {name} holds what belongs to {name} {source[0]}"
    if n % 2 == 0 and len(moved) > 2:
        if source == pairs:
            return f"{axis} in another order: first all even places, then all odd ones"
        if source == [pairs.index(i) for i in range(n)]:
            return f"{axis} in another order: its two halves are interleaved"
        if source == [i ^ 1 for i in range(n)]:
            return f"neighbours in {axis} (2i and 2i + 1) are exchanged"
        if source == [(i + half) % n for i in range(n)]:
            return f"the two halves of {axis} are exchanged"
    if len(moved) > 2 and source == [(i - shift) % n for i in range(n)]:
        return f"{axis} is rolled by {shift if shift <= half else shift - n}, around its end"
    return f"{axis} in another order: {', '.join(moved[:3])}{', …' if len(moved) > 3 else ''}"


def repeated(m: Mismatch) -> str | None:
    """The same values at every place of an axis, where the expected differs."""
    for a in m.long_axes:
        e, g = m.expected.narrow(a, 0, 1), m.got.narrow(a, 0, 1)
        if m.got_is(g, torch.zeros(())) and not near(m.expected, e, m.allowed).all():
            return f"got is the same for every {singular(m.axes[a])}"
    return None


def own_factor(m: Mismatch) -> str | None:
    """A factor or an offset for each row, or for each place on an axis: a wrong normalisation, a weight left out."""
    if m.exact or not (m.got.isfinite() & m.expected.isfinite()).all():
        return None
    for a in m.long_axes:
        rest = tuple(b for b in range(m.got.ndim) if b != a)
        for over, whose in (((a,), f"each row along {m.axes[a]}"), (rest, f"each {singular(m.axes[a])}")):
            if math.prod(m.got.shape[b] for b in over) < 3 or int((m.expected != 0).sum(over).min()) < 3:
                continue
            c = (m.got * m.expected).sum(over, keepdim=True) / m.expected.square().sum(over, keepdim=True)
            if m.got_is(c * m.expected, c.abs().clamp(min=1) * m.allowed):
                return f"{whose} is the expected times a factor of its own ({value_range(c)})"
            d = (m.got - m.expected).mean(over, keepdim=True)
            if m.got_is(m.expected + d, m.allowed):
                return f"{whose} is the expected plus an offset of its own ({value_range(d)})"
    return None


def rounded(m: Mismatch) -> str | None:
    """The expected, computed or stored in a dtype of fewer digits."""
    if m.exact or not m.got.isfinite().all() or not m.expected.isfinite().all() or m.got.numel() < 8:
        return None
    own = torch.finfo(m.raw_got.dtype).eps
    if torch.equal(m.got, m.got.round()):  # whole numbers fit every dtype, and say nothing of one
        return _rounding_sized(m, own)
    for dtype, name in COARSE:
        rounded = m.got.to(dtype).double()
        changed = (m.expected.to(dtype).double() != m.expected).double().mean()
        if torch.finfo(dtype).eps > own and torch.equal(rounded, m.got) and changed > 0.5:
            return f"every value got is exactly a {name} number, in a tensor of {dtype_name(m.raw_got)}"
    return _rounding_sized(m, own)


def _rounding_sized(m: Mismatch, own: float) -> str | None:
    error = m.got - m.expected
    largest = m.expected.abs().amax(-1, keepdim=True) if m.got.ndim else m.expected.abs()
    relative = float((error.abs() / largest).nan_to_num(0.0, math.inf).max())
    up = float((error[m.wrong] > 0).double().mean())  # rounding goes both ways, a wrong formula mostly one
    if not 0.2 < up < 0.8 or int(m.wrong.sum()) < 8:
        return None
    for dtype, name in COARSE:
        eps = torch.finfo(dtype).eps
        if eps > own and eps / 8 <= relative <= eps:
            return f"rounding-sized: errors up to {relative:.1g} of the row's largest value, like one {name} rounding"
    return None


def elsewhere(m: Mismatch) -> str | None:
    """The expected values in another order that no single axis explains."""
    if m.exact or m.got.numel() < 6 or m.got.ndim < 2:
        return None
    if not near(m.got.max(), m.expected.max(), 2 * m.allowed.max()):  # spares most cases the sorting
        return None
    order = m.expected.flatten().argsort()
    expected, allowed = m.expected.flatten()[order], m.allowed.flatten()[order]
    if near(m.got.flatten().sort().values, expected, 2 * allowed).all():
        return "the right values in the wrong places, as after a reshape without its transpose"
    return None


RELATIONS: tuple[Detector, ...] = (
    constant,
    unchanged,
    inverted,
    factor,
    offset,
    swapped,
    flipped,
    shifted,
    rearranged,
    repeated,
    own_factor,
    elsewhere,
    rounded,
)
