"""Turns a numeric mismatch into words: the facts, the first and worst element, what the wrong ones share, a map."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from dojo.verdict import Label, Section

MAP_ROWS, MAP_COLUMNS = 16, 32
SHADES = "█▓▒░"  # each a tenth of the one before, counted from the worst element
MAX_PATTERNS = 3
# Below this many times the allowed error, "twice the expected" and "the expected plus a little" cannot be told apart.
CLEAR = 8.0


@dataclass(frozen=True)
class Aside:
    """What else is known of the failing case: the inputs of the call, by name."""

    inputs: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Mismatch:
    """What every detector reads: float64 on the CPU, beside the values as they came."""

    raw_got: Tensor
    raw_expected: Tensor
    got: Tensor
    expected: Tensor
    allowed: Tensor
    wrong: Tensor
    excess: Tensor  # error in units of the allowed error; inf where a value is not finite or none is allowed
    axes: tuple[str, ...]
    inputs: Mapping[str, Tensor]

    @property
    def exact(self) -> bool:
        """Whether the elements are truth values or integers, of which none may be off."""
        return not self.raw_expected.is_floating_point()

    @property
    def boolean(self) -> bool:
        return self.raw_expected.dtype == torch.bool

    @property
    def long_axes(self) -> list[int]:
        """The axes that have something to tell, the last one first."""
        return [a for a in reversed(range(self.got.ndim)) if self.got.shape[a] > 1]

    @cached_property
    def worst(self) -> tuple[int, ...]:
        """The index of the worst element."""
        return _index(int(self.excess.flatten().argmax()), self.got.shape)

    def got_is(self, other: Tensor, allowed: Tensor) -> bool:
        """Whether the attempt's whole result is `other`, twice the allowed error being granted to a guess."""
        allowed = 2 * allowed.expand_as(self.got)
        other, at = other.expand_as(self.got), self.worst  # one element refutes most guesses
        return all(bool(_near(self.got[i], other[i], allowed[i]).all()) for i in (at, ...))


def explain(
    got: Tensor, expected: Tensor, allowed: Tensor, axes: tuple[str, ...], aside: Aside | None = None
) -> list[Section]:
    """The sections FACTS, ELEMENTS, PATTERN and MAP, each only where it has something to say. Never raises.

    `expected` is the oracle (float64, or bool or int64), `allowed` the error granted to each element, zero for exact
    types. Where shape or kind of dtype differ, only the facts are told: comparing values would have no meaning.
    """
    try:
        return list(_sections(got, expected, allowed, axes, aside or Aside()))
    except Exception as fault:  # an explanation that fails must not turn a wrong attempt into a fault of the grader
        where = f"got {_kind_of(got)}, expected {_kind_of(expected)}"
        return [Section(Label.FACTS, f"{where} (no more to say: explaining failed with {type(fault).__name__})")]


def _sections(got: Tensor, expected: Tensor, allowed: Tensor, axes: tuple[str, ...], aside: Aside) -> Iterator[Section]:
    got, expected, allowed = _dense(got), _dense(expected), _dense(allowed)
    names = _axis_names(axes, expected.ndim)
    if got.shape != expected.shape or _kind(got) != _kind(expected):
        yield Section(Label.FACTS, "\n".join(_misfits(got, expected, names)))
        return
    m = _compare(got, expected, allowed, names, aside)
    yield Section(Label.FACTS, "\n".join([_kind_of(got), *_finiteness(m)]))
    if not m.wrong.any():
        return
    yield Section(Label.ELEMENTS, "\n".join(_elements(m)))
    if patterns := _patterns(m):
        yield Section(Label.PATTERN, "\n".join(patterns))
    if picture := _map(m):
        yield Section(Label.MAP, picture)


def _dense(t: Tensor) -> Tensor:
    t = t.detach()
    return (t if t.layout == torch.strided else t.to_dense()).cpu()


def _compare(got: Tensor, expected: Tensor, allowed: Tensor, names: tuple[str, ...], aside: Aside) -> Mismatch:
    if expected.is_complex():
        got, expected = torch.view_as_real(got.resolve_conj()), torch.view_as_real(expected.resolve_conj())
        allowed = (allowed.abs() if allowed.is_complex() else allowed).unsqueeze(-1)
        names = (*names, "re/im")
    g, e = got.double(), expected.double()
    a = allowed.double().broadcast_to(e.shape)
    # Integers are compared as integers: float64 would take 2**53 and 2**53 + 1 for one.
    agree = _near(g, e, a) if expected.is_floating_point() else got.long() == expected.long()
    error = (g - e).abs()
    excess = torch.where(agree, 0.0, torch.where(error.isfinite() & (a > 0), error / a, math.inf))
    return Mismatch(got, expected, g, e, a, ~agree, excess, names, aside.inputs)


def _near(x: Tensor, y: Tensor, allowed: Tensor) -> Tensor:
    """Element by element: within the allowed error, or the same infinity, or both nan."""
    return ((x - y).abs() <= allowed) | (x == y) | (x.isnan() & y.isnan())


def _axis_names(axes: tuple[str, ...], ndim: int) -> tuple[str, ...]:
    """One distinct name an axis: a starred name takes up what is left, missing names are numbers."""
    names = [str(a) for a in axes]
    star = next((i for i, name in enumerate(names) if name.startswith(("*", "..."))), None)
    if star is not None:
        stem, room = names[star].strip("*.") or "batch", ndim - len(names) + 1
        names[star : star + 1] = [stem] if room == 1 else [f"{stem}{i}" for i in range(room)]
    names = [f"axis{i}" for i in range(ndim - len(names))] + names[max(0, len(names) - ndim) :]
    return tuple(name + "'" * names[:i].count(name) for i, name in enumerate(names))


def _one(axis: str) -> str:
    """The name of one place on an axis: head of heads, query of queries."""
    if axis.endswith("ies"):
        return axis[:-3] + "y"
    return axis[:-1] if axis.endswith("s") and not axis.endswith(("ss", "is", "us", "pos")) else axis


def _kind(t: Tensor) -> str:
    if t.dtype == torch.bool:
        return "bool"
    return "complex" if t.is_complex() else "floating point" if t.is_floating_point() else "integer"


def _dtype(t: Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")


def _kind_of(t: object) -> str:
    return f"shape {tuple(t.shape)}, {_dtype(t)}" if isinstance(t, Tensor) else f"a {type(t).__name__}"


def _number(x: float | int | bool, other: float | int | bool = math.inf) -> str:
    """`x` in as few digits as keep it apart from `other`."""
    if not isinstance(x, float) or not math.isfinite(x):
        return str(x)
    digits = next((d for d in (5, 7, 9, 12) if f"{x:.{d}g}" != f"{other:.{d}g}"), 17)
    return f"{x:.{digits}g}"


def _units(x: float) -> str:
    text = f"{x:.0f}" if 10 <= x < 1000 else f"{x:.2g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def _constant_name(c: float, slack: float, m: Mismatch) -> str:
    """The constant, and the simple number that it is, if it is one: `2.828 = √8`."""
    sizes = {s for t in (m.got, *m.inputs.values()) if isinstance(t, Tensor) for s in t.shape}
    for n in [*range(1, 17), *sorted(sizes)]:
        if n < 1:
            continue
        for value, name in ((n, f"{n}"), (1 / n, f"1/{n}"), (n**0.5, f"√{n}"), (n**-0.5, f"1/√{n}")):
            if abs(abs(c) - value) <= min(slack, 0.01 * value) + 1e-9 * value:
                sign = "-" if c < 0 else ""
                return sign + name if name.isdigit() else f"{c:.4g} = {sign}{name}"
    return _number(c, round(c))


def _list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _misfits(got: Tensor, expected: Tensor, names: tuple[str, ...]) -> Iterator[str]:
    if got.shape != expected.shape:
        hint = _shape_hint(tuple(got.shape), tuple(expected.shape), names)
        yield f"shape: got {tuple(got.shape)}, expected {tuple(expected.shape)}{hint and ': ' + hint}"
    if _kind(got) != _kind(expected):
        same = got.shape == expected.shape and not got.is_complex() and not expected.is_complex()
        hint = _dtype_hint(got.double(), expected.double()) if same else ""
        article = "an integer type" if _kind(expected) == "integer" else f"a {_kind(expected)} type"
        yield f"dtype: got {_dtype(got)}, expected {'bool' if _kind(expected) == 'bool' else article}{hint}"


def _dtype_hint(got: Tensor, expected: Tensor) -> str:
    if bool((got == expected).all()):
        return " (the values are right)"
    if bool((got == torch.where(expected == 0, -math.inf, 0.0)).all()):
        return " (the values are those of an additive mask: 0 for True and -inf for False)"
    return ""


def _shape_hint(got: tuple[int, ...], want: tuple[int, ...], names: tuple[str, ...]) -> str:
    """How one shape could have come from the other; the first explanation that fits."""
    for a in range(len(want)):
        if got == want[:a] + want[a + 1 :]:
            return f"the axis {names[a]} is missing"
    for a in range(len(got)):
        if got[a] == 1 and got[:a] + got[a + 1 :] == want:
            return f"an axis of size 1 too many, at place {a}"
    if len(got) != len(want):
        return _regrouped(got, want, names)
    differ = [a for a in range(len(want)) if got[a] != want[a]]
    if sorted(got) == sorted(want):
        if len(differ) == 2:
            last = len(want) > 2 and differ == [len(want) - 2, len(want) - 1]
            both = _list([names[a] for a in differ])
            return f"the last two axes ({both}) are swapped" if last else f"the axes {both} are swapped"
        return "the right sizes in another order"
    sizes = _list([f"{names[a]} has {got[a]}, not {want[a]}" for a in differ])
    if all(got[a] == 1 for a in differ):
        return f"{sizes} (it would broadcast, but has not been)"
    same = math.prod(got) == math.prod(want)
    return f"{sizes}; the number of elements is right" if same else sizes


def _regrouped(got: tuple[int, ...], want: tuple[int, ...], names: tuple[str, ...]) -> str:
    for a, b in combinations(range(len(want) + 1), 2):
        if b - a > 1 and got == (*want[:a], math.prod(want[a:b]), *want[b:]):
            return f"the axes {_list(list(names[a:b]))} are merged into one"
    for a, b in combinations(range(len(got) + 1), 2):
        if b - a > 1 and want == (*got[:a], math.prod(got[a:b]), *got[b:]):
            return f"the axis {names[a]} is split into {_list([str(s) for s in got[a:b]])}"
    counts = f"{len(got)} axes, not {len(want)}"
    return f"{counts}; the number of elements is right" if math.prod(got) == math.prod(want) else counts


def _finiteness(m: Mismatch) -> Iterator[str]:
    if m.exact:
        return
    for name, test in (("nan", torch.isnan), ("inf", torch.isposinf), ("-inf", torch.isneginf)):
        here, there = test(m.got), test(m.expected)
        if torch.equal(here, there):
            continue
        have, want = int(here.sum()), int(there.sum())
        told = f"where the expected has {want or 'none'}" if have != want else "as many as expected, but not the same"
        yield f"{have or 'none'} of {here.numel()} elements {'is' if have == 1 else 'are'} {name}, {told}"


def _elements(m: Mismatch) -> Iterator[str]:
    wrong = m.wrong.flatten()
    count, total = int(wrong.sum()), wrong.numel()
    yield f"{'all ' if count == total > 1 else ''}{count} of {total} elements {'is' if count == 1 else 'are'} off"
    first, worst = _index(int(wrong.byte().argmax()), m.got.shape), m.worst
    if count == 1:
        yield _element(m, first)
    elif first == worst or m.exact:
        yield f"{'first' if m.exact else 'first and worst'} {_element(m, first)}"
    else:
        yield f"first {_element(m, first)}"
        yield f"worst {_element(m, worst)}"


def _index(flat: int, shape: torch.Size) -> tuple[int, ...]:
    at = []
    for size in reversed(shape):
        flat, i = divmod(flat, size)
        at.append(i)
    return tuple(reversed(at))


def _element(m: Mismatch, at: tuple[int, ...]) -> str:
    place = ", ".join(f"{_one(name)} {i}" for name, i in zip(m.axes, at, strict=True))
    got, expected = m.raw_got[at].item(), m.raw_expected[at].item()
    units = float(m.excess[at])
    error = f", {_units(units)} × the allowed error" if math.isfinite(units) else ""
    return f"{f'[{place}]: ' if place else ''}got {_number(got, expected)}, expected {_number(expected, got)}{error}"


def _constant(m: Mismatch) -> str | None:
    values = m.got[m.wrong]
    first = values[:1]
    if len(values) < 3 or not (values == first).all():  # never true of nan, which the facts tell
        return None
    whole = bool((m.got == first).all())
    if m.boolean:
        return f"got is {bool(first)} everywhere" if whole else None
    c = float(first)
    name = _constant_name(c, float(m.allowed[m.wrong].min()), m) if math.isfinite(c) and c else _number(c)
    if whole:
        return f"got is all {'zeros' if c == 0 else name}"
    return f"every wrong element is {'0' if c == 0 else name}"


def _unchanged(m: Mismatch) -> str | None:
    for name, t in m.inputs.items():
        if isinstance(t, Tensor) and t.shape == m.raw_got.shape and _kind(t) == _kind(m.raw_got):
            t = _dense(t)
            if m.got_is(torch.view_as_real(t).double() if t.is_complex() else t.double(), m.allowed):
                return f"got is the input {name} unchanged"
    return None


def _inverted(m: Mismatch) -> str | None:
    whole = m.boolean and bool(m.wrong.all())
    return "every element is inverted: True where False is expected, and the other way round" if whole else None


def _steady(m: Mismatch) -> Tensor:
    """The elements from which a factor or an offset can be read."""
    return m.wrong & m.got.isfinite() & m.expected.isfinite() & (m.expected != 0)


def _factor(m: Mismatch) -> str | None:
    use = _steady(m)
    g, e = m.got[use], m.expected[use]
    if m.boolean or len(e) < 3 or bool((e == e[0]).all()):
        return None
    best = int(e.abs().argmax())
    c = float(g[best] / e[best])
    allowed = 2 * max(1.0, abs(c)) * m.allowed
    here = _near(m.got, c * m.expected, 2 * allowed)
    if c == 0 or not here[m.wrong].all():
        return None
    whole = bool(here.all())
    slack = float(allowed[use][best] / e[best].abs())
    if abs(c + 1) <= slack:
        return "the sign is flipped" if whole else "the sign of every wrong element is flipped"
    name = _constant_name(c, slack, m)
    return f"constant factor {name}: {'got' if whole else 'every wrong element'} is that times the expected"


def _offset(m: Mismatch) -> str | None:
    use = m.wrong & m.got.isfinite() & m.expected.isfinite()
    difference = m.got[use] - m.expected[use]
    if m.boolean or len(difference) < 3 or bool((m.expected[use] == m.expected[use][0]).all()):
        return None
    c = float(difference.median())
    here = _near(m.got, m.expected + c, 2 * m.allowed)
    if not here[m.wrong].all():
        return None
    name = _constant_name(c, float(2 * m.allowed[use].min()), m)
    return f"constant offset {name}: {'got' if here.all() else 'every wrong element'} is the expected plus that"


def _swapped(m: Mismatch) -> str | None:
    for a, b in combinations(range(m.got.ndim), 2):
        if m.got.shape[a] == m.got.shape[b] and m.got_is(m.expected.transpose(a, b), m.allowed.transpose(a, b)):
            return f"got is the expected with {m.axes[a]} and {m.axes[b]} swapped"
    return None


def _reversed(m: Mismatch) -> str | None:
    for a in m.long_axes:
        if m.got_is(m.expected.flip(a), m.allowed.flip(a)):
            return f"got is the expected with {m.axes[a]} reversed"
    return None


def _shifted(m: Mismatch) -> str | None:
    for a in m.long_axes:
        for k in (1, -1, 2, -2):
            n = m.got.shape[a] - abs(k)
            if n < 2:
                continue
            to, source = max(0, k), max(0, -k)
            e, allowed = m.expected.narrow(a, source, n), m.allowed.narrow(a, source, n)
            # Where the overlap holds no wrong element, being shifted explains nothing.
            if m.wrong.narrow(a, to, n).any() and _near(m.got.narrow(a, to, n), e, 2 * allowed).all():
                back = f"i − {k}" if k > 0 else f"i + {-k}"
                return f"shifted by {k} along {m.axes[a]}: place i holds what belongs to place {back}"
    return None


def _rearranged(m: Mismatch) -> str | None:
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
    match = _near(got[:, None, probe], expected[None, :, probe], allowed[None, :, probe]).all(-1)
    if not match.any(1).all():
        return None
    score = match.double() + 0.5 * torch.eye(n)  # a place that holds its own is not called moved
    source = torch.where(match, score, 0.0).argmax(1)
    return source.tolist() if _near(got, expected[source], allowed[source]).all() else None


def _arrangement(source: list[int], axis: str) -> str:
    n, name, half = len(source), _one(axis), len(source) // 2
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


def _repeated(m: Mismatch) -> str | None:
    for a in m.long_axes:
        e, g = m.expected.narrow(a, 0, 1), m.got.narrow(a, 0, 1)
        if m.got_is(g, torch.zeros(())) and not _near(m.expected, e, m.allowed).all():
            return f"got is the same for every {_one(m.axes[a])}"
    return None


def _own_factor(m: Mismatch) -> str | None:
    """A factor or an offset for each row, or for each place on an axis: a wrong normalisation, a weight left out."""
    if m.exact or not (m.got.isfinite() & m.expected.isfinite()).all():
        return None
    for a in m.long_axes:
        rest = tuple(b for b in range(m.got.ndim) if b != a)
        for over, whose in (((a,), f"each row along {m.axes[a]}"), (rest, f"each {_one(m.axes[a])}")):
            if math.prod(m.got.shape[b] for b in over) < 3 or int((m.expected != 0).sum(over).min()) < 3:
                continue
            c = (m.got * m.expected).sum(over, keepdim=True) / m.expected.square().sum(over, keepdim=True)
            if m.got_is(c * m.expected, c.abs().clamp(min=1) * m.allowed):
                return f"{whose} is the expected times a factor of its own ({_range(c)})"
            d = (m.got - m.expected).mean(over, keepdim=True)
            if m.got_is(m.expected + d, m.allowed):
                return f"{whose} is the expected plus an offset of its own ({_range(d)})"
    return None


def _range(t: Tensor) -> str:
    return f"from {float(t.min()):.3g} to {float(t.max()):.3g}"


def _rounded(m: Mismatch) -> str | None:
    if m.exact or not m.got.isfinite().all() or not m.expected.isfinite().all() or m.got.numel() < 8:
        return None
    own = torch.finfo(m.raw_got.dtype).eps
    for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16"), (torch.float32, "float32")):
        rounded = m.got.to(dtype).double()
        changed = (m.expected.to(dtype).double() != m.expected).double().mean()
        if torch.finfo(dtype).eps > own and torch.equal(rounded, m.got) and changed > 0.5:
            return f"every value got is exactly a {name} number, in a tensor of {_dtype(m.raw_got)}"
    return _rounding_sized(m, own)


def _rounding_sized(m: Mismatch, own: float) -> str | None:
    error = m.got - m.expected
    largest = m.expected.abs().amax(-1, keepdim=True) if m.got.ndim else m.expected.abs()
    relative = float((error.abs() / largest).nan_to_num(0.0, math.inf).max())
    up = float((error[m.wrong] > 0).double().mean())  # rounding goes both ways, a wrong formula mostly one
    if not 0.2 < up < 0.8 or int(m.wrong.sum()) < 8:
        return None
    for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16"), (torch.float32, "float32")):
        eps = torch.finfo(dtype).eps
        if eps > own and eps / 8 <= relative <= eps:
            return f"rounding-sized: errors up to {relative:.1g} of the row's largest value, like one {name} rounding"
    return None


def _elsewhere(m: Mismatch) -> str | None:
    if m.exact or m.got.numel() < 6 or m.got.ndim < 2:
        return None
    if not _near(m.got.max(), m.expected.max(), 2 * m.allowed.max()):  # spares most cases the sorting
        return None
    order = m.expected.flatten().argsort()
    expected, allowed = m.expected.flatten()[order], m.allowed.flatten()[order]
    if _near(m.got.flatten().sort().values, expected, 2 * allowed).all():
        return "the right values in the wrong places, as after a reshape without its transpose"
    return None


def _dead_rows(m: Mismatch) -> str | None:
    nan = m.got.isnan() & ~m.expected.isnan()
    if not m.long_axes or not nan.any():
        return None
    axis = m.long_axes[0]
    dead = (m.expected == 0).all(axis)
    if (nan.any(axis) & ~dead).any() or dead.all():
        return None
    return "nan only in rows that are all zero in the expected: those that may attend to nothing"


def _sums(m: Mismatch) -> str | None:
    if m.exact or not (m.expected >= 0).all():
        return None
    for a in m.long_axes:
        want, have = m.expected.sum(a), m.got.sum(a)
        slack = 1e-6 + 2 * m.allowed.sum(a)
        ones = (want - 1).abs() <= 1e-6
        if not (ones | (want == 0)).all() or not ones.any():
            continue
        off = ~((have - want).abs() <= slack) & have.isfinite()
        if not off.any():
            return None
        if not (off & ones).any():
            return f"rows along {m.axes[a]} that should be all zero have a sum ({_range(have[off])})"
        off &= ones
        instead = [b for b in m.long_axes if b != a and ((m.got.sum(b) - 1).abs() <= 1e-6 + m.allowed.sum(b)).all()]
        told = f"; along {m.axes[instead[0]]} they do instead" if instead else f" (sums {_range(have[off])})"
        return f"rows do not sum to 1 along {m.axes[a]}{told}"
    return None


def _places(m: Mismatch) -> str | None:
    """Which places on each axis the wrong elements lie at: `only heads 1 and 3`."""
    count = int(m.wrong.sum())
    if count < 2:
        return None
    said, room = [], 1
    for a in range(m.got.ndim - 2 if _band(m) else m.got.ndim):  # a band has said all of the last two axes
        rest = tuple(b for b in range(m.got.ndim) if b != a)
        hit = m.wrong.any(rest) if rest else m.wrong
        places = hit.nonzero().flatten().tolist()
        room *= len(places)
        if len(places) < m.got.shape[a]:
            said.append(_subset(places, m.got.shape[a], m.axes[a]))
    whole = " (there, every element)" if room == count else ""
    return ", ".join(said) + whole if said else None


def _subset(places: list[int], n: int, axis: str) -> str:
    """A set of places on an axis of size n, in the shortest words that are exactly true of it."""
    name, first, last, half = _one(axis), places[0], places[-1], n // 2
    others = sorted(set(range(n)) - set(places))
    if len(places) == 1:
        return f"only the last {name}, {last}" if first == n - 1 and n > 2 else f"only {name} {first}"
    if len(places) > 2 and places == list(range(first, last + 1)):
        if n % 2 == 0 and n >= 4 and len(places) == half and (first == 0 or last == n - 1):
            return f"only the {'second' if first else 'first'} half of {axis}"
        if others == [n - 1]:
            return f"every {name} but the last"
        if last == n - 1:
            return f"only {name} ≥ {first}"
        return f"only {name} {first} to {last}" if first else f"only {name} ≤ {last}"
    for step in range(2, n // 2 + 1):
        if places == list(range(first, n, step)) and first < step and len(places) > 2:
            if step == 2:
                return f"only {('even', 'odd')[first]} {axis}"
            return f"only {name} {first}, {first + step}, … in steps of {step}"
    if len(others) <= 2 < len(places):
        return f"every {name} but {_list([str(i) for i in others])}"
    if len(places) <= 4:
        return f"only {axis} {_list([str(i) for i in places])}"
    return f"only {len(places)} of {n} {axis}: {', '.join(map(str, places[:4]))}, …"


def _band(m: Mismatch) -> str | None:
    """Where the wrong elements lie with respect to the diagonals of the last two axes."""
    if m.got.ndim < 2 or min(m.got.shape[-2:]) < 2:
        return None
    grid = m.wrong.flatten(0, -3).any(0) if m.got.ndim > 2 else m.wrong
    rows, columns = grid.shape
    diagonal = torch.arange(columns) - torch.arange(rows)[:, None]
    hit = diagonal[grid]
    low, high = int(hit.min()), int(hit.max())
    band = int(((diagonal >= low) & (diagonal <= high)).sum())
    block = int(grid.any(0).sum()) * int(grid.any(1).sum())
    # Said only of a band that is mostly wrong and that tells more than the rows and the columns do.
    if len(hit) < 2 or 2 * len(hit) < band or 4 * band > 3 * block:
        return None
    return _band_name(low, high, 1 - rows, columns - 1, m.axes[-2], m.axes[-1])


def _band_name(low: int, high: int, least: int, most: int, row: str, column: str) -> str:
    def plus(k: int) -> str:
        return f"{row} {'+' if k > 0 else '−'} {abs(k)}" if k else row

    if low == high:
        return "only on the diagonal" if low == 0 else f"only where {column} = {plus(low)}"
    if high == most:
        words = {1: "only above the diagonal", 0: "only on and above the diagonal"}
        return words.get(low, f"only where {column} ≥ {plus(low)}")
    if low == least:
        words = {-1: "only below the diagonal", 0: "only on and below the diagonal"}
        return words.get(high, f"only where {column} ≤ {plus(high)}")
    return f"only where {column} − {row} is from {low} to {high}"


def _one_sided(m: Mismatch) -> str | None:
    if not m.boolean or int(m.wrong.sum()) < 2:
        return None
    values = m.raw_got[m.wrong]
    if not (values == values[0]).all():
        return None
    return f"{bool(values[0])} where {not bool(values[0])} is expected, never the other way round"


Detector = Callable[[Mismatch], str | None]
RELATIONS: tuple[Detector, ...] = (
    _constant,
    _unchanged,
    _inverted,
    _factor,
    _offset,
    _swapped,
    _reversed,
    _shifted,
    _rearranged,
    _repeated,
    _own_factor,
    _elsewhere,
    _rounded,
)
# In the order in which they are told; of a family only the first that fits, for the others follow from it.
FAMILIES: tuple[tuple[Detector, ...], ...] = ((_dead_rows,), RELATIONS, (_sums,), (_band,), (_places,), (_one_sided,))


def _patterns(m: Mismatch) -> list[str]:
    told: list[str] = []
    for family in FAMILIES:
        if family is RELATIONS and (int(m.wrong.sum()) < 2 or float(m.excess.max()) < CLEAR):
            family = (_rounded,)
        told.extend(next(([text] for detect in family if (text := detect(m))), []))
    return told[:MAX_PATTERNS]


def _map(m: Mismatch) -> str:
    """The excess over the two axes that show it best, or nothing where a picture would add nothing."""
    axes = sorted(m.long_axes)
    if len(axes) < 2 or m.wrong.all() or int(m.wrong.sum()) < 2:
        return ""
    pair = max(combinations(axes, 2), key=lambda p: (_purity(m, p), p))
    rest = tuple(a for a in range(m.got.ndim) if a not in pair)
    # nan and infinity count as more than any number.
    strange = m.wrong & ~(m.got.isfinite() & m.expected.isfinite())
    level = torch.where(strange, math.inf, m.excess.clamp(max=1e300))
    grid = level.amax(rest) if rest else level
    marked = grid > 0
    if (marked == marked[:1]).all() or (marked == marked[:, :1]).all():  # stripes, which a line of words tells better
        return ""
    return "\n".join(_draw(grid, [m.axes[a] for a in pair], m.exact))


def _purity(m: Mismatch, pair: tuple[int, ...]) -> float:
    """Of the elements under the cells that would be marked, the share that is wrong."""
    rest = tuple(a for a in range(m.got.ndim) if a not in pair)
    cells = m.wrong.any(rest) if rest else m.wrong
    return round(float(m.wrong.sum()) / float(cells.sum()) / (m.wrong.numel() / cells.numel()), 6)


def _draw(grid: Tensor, names: list[str], exact: bool) -> Iterator[str]:
    down, across = -(-grid.shape[0] // MAP_ROWS), -(-grid.shape[1] // MAP_COLUMNS)
    pool = torch.nn.functional.max_pool2d
    cells = pool(grid[None, None], (down, across), ceil_mode=True)[0, 0]
    finite = cells[cells.isfinite()]
    worst = float(finite.max()) if len(finite) else 0.0
    rows = ["".join(_shade(x, worst, exact) for x in row) for row in cells.tolist()]
    margin = max(len(str(grid.shape[0])), 2)
    yield f"{names[0]} ↓ {names[1]} →"
    yield f"{'':{margin}} {_ticks(cells.shape[1], across)}"
    for i, row in enumerate(rows):
        yield f"{i * down:{margin}} {row}"
    yield _legend(set("".join(rows)), worst, exact, down * across > 1 and f"{down} × {across}")


def _shade(x: float, worst: float, exact: bool) -> str:
    if x == 0:
        return "·"
    if math.isinf(x):
        return "!"
    return SHADES[0] if exact else SHADES[min(3, int(math.log10(worst / x)))]


def _ticks(columns: int, across: int) -> str:
    step = 4 if columns * across < 1000 else 8
    return "".join(f"{i * across:<{step}}" for i in range(0, columns, step)).rstrip()


def _legend(used: set[str], worst: float, exact: bool, block: str | bool) -> str:
    words = {"·": "right", "!": "nan or inf", SHADES[0]: "wrong"}
    if not exact and worst < 1e300:
        words |= {c: f"over {_units(worst / 10 ** (i + 1))}×" for i, c in enumerate(SHADES[:3])}
        words[SHADES[3]] = f"less, but over {_units(1.0)}×"
    shown = ", ".join(f"{c} {words[c]}" for c in [*SHADES, "!", "·"] if c in used and c in words)
    unit = "" if exact or not used & set(SHADES) else " the allowed error"
    return f"{shown}{unit and f' (×: {unit.strip()})'}{f'; one sign is the worst of {block}' if block else ''}"
