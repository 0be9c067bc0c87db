"""Which attempts at a kata are the same up to names, comments and the order of definitions: listed, never judged.

Winnowing (Schleimer, Wilkerson and Aiken 2003) over Python's own tokens. copydetect does the same over Pygments', but
takes half a minute for 300 attempts at one kata, gives other shares in another process (its fingerprints are Python's
own hashes), counts letters instead of tokens, and forgets lines that repeat as soon as a stub is taken out.
"""

from __future__ import annotations

import hashlib
import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, islice, pairwise, product
from operator import or_

from dojo.cohort.records import Submitted
from dojo.content import master
from dojo.content.catalog import Kata

GRAM = 10  # tokens: what is shorter and the same says nothing
WINDOW = 5  # whatever is the same over GRAM + WINDOW - 1 tokens is found
ENOUGH = (
    0.7  # the share from which on a pair is listed: of the right attempts in tests/attempts 96 pairs of 100 are below
)
FEWEST = 40  # tokens of an attempt's own: two shorter ones are the same by chance
COMMON = 100  # attempts: a fingerprint that more have is how one writes this kata
LISTED = 500  # pairs
MOST = 10_000  # tokens of an attempt that are looked at, about a thousand lines
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
LINES = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

Prints = dict[bytes, int]  # fingerprints, and the tokens that each holds, as the bits of a number


@dataclass(frozen=True)
class Pair:
    """Two attempts at a kata that have much in common, or one and the solution."""

    first: Submitted
    second: Submitted | None  # None is the solution
    of_first: float  # the share of the first's own tokens that the second has too
    of_second: float

    @property
    def share(self) -> float:
        """The larger of the two: what is copied into something longer is a copy too."""
        return max(self.of_first, self.of_second)


def pairs(
    submitted: Iterable[Submitted],
    katas: Mapping[str, Kata],
    enough: float = ENOUGH,
    most: int = LISTED,
    earlier: Iterable[Submitted] = (),
) -> list[Pair]:
    """Pairs of attempts at a kata that share at least `enough` of their tokens: the likest `most`, the likest first.

    Attempts are compared where they share a fingerprint that few have, so the work grows with the class and not with
    its square. What all have in common counts in a pair's share all the same. Of `earlier` attempts, such as last
    year's, those pairs are found that they make with others, and they come second.
    """
    old = frozenset(earlier)
    by_kata: dict[str, list[Submitted]] = defaultdict(list)
    for attempt in (*sorted(submitted), *sorted(old)):
        by_kata[attempt.kata].append(attempt)
    found = [pair for name, own in by_kata.items() for pair in _of_a_kata(own, katas[name], enough, most, old)]
    return sorted(found, key=lambda pair: -pair.share)[:most]


def _of_a_kata(
    attempts: list[Submitted], kata: Kata, enough: float, most: int, old: frozenset[Submitted]
) -> list[Pair]:
    stub = frozenset(_grams(words(master.stub_text(kata))))
    alike: dict[frozenset[tuple[bytes, int]], list[Submitted | None]] = defaultdict(list)  # None is the solution
    for source, who in _by_source(attempts).items():
        alike[frozenset(_winnowed(source, stub).items())] += who
    alike[frozenset(_winnowed(master.without_handed_out(master.read_text(kata.master)), stub).items())].append(None)
    groups = [(who, dict(prints)) for prints, who in alike.items() if _tokens(value for _, value in prints) >= FEWEST]
    for who, _ in groups:
        who.sort(key=lambda each: (each is None, each in old))  # the solution comes last, and before it what is earlier
    same = (pair for who, _ in groups for pair in islice(_with_a_new_one(combinations(who, 2), old), most))
    found = [Pair(first, second, 1.0, 1.0) for first, second in same]
    lengths = [_tokens(prints.values()) for _, prints in groups]
    measured = list[tuple[float, float, int, int]]()
    for one, other in _near([prints for _, prints in groups], [None in who for who, _ in groups]):
        ours, theirs = groups[one][1], groups[other][1]
        common = ours.keys() & theirs.keys()
        if GRAM * len(common) >= enough * min(lengths[one], lengths[other]):
            shares = [_tokens(map(each.__getitem__, common)) for each in (ours, theirs)]
            of_one, of_other = shares[0] / lengths[one], shares[1] / lengths[other]
            if max(of_one, of_other) >= enough:
                measured.append((of_one, of_other, one, other))
    for of_one, of_other, one, other in sorted(measured, key=lambda each: -max(each[:2])):
        if len(found) >= most:
            break
        both = product(groups[one][0], groups[other][0])
        for first, second in islice(_with_a_new_one(both, old), most - len(found)):
            turned = first not in groups[one][0]
            found.append(Pair(first, second, *((of_other, of_one) if turned else (of_one, of_other))))
    return found


def _with_a_new_one(
    found: Iterable[tuple[Submitted | None, Submitted | None]], old: frozenset[Submitted]
) -> Iterator[tuple[Submitted, Submitted | None]]:
    """The pairs that tell something about an attempt that is not old, which comes first in each."""
    for first, second in found:
        if first is not None and first not in old:
            yield first, second
        elif second is not None and second not in old:
            yield second, first


def _by_source(attempts: Iterable[Submitted]) -> dict[str, list[Submitted | None]]:
    found: dict[str, list[Submitted | None]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.source].append(attempt)
    return found


def _near(prints: Sequence[Prints], whole: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Which of these have a fingerprint in common that at most COMMON have; those marked `whole` are near all."""
    holders: dict[bytes, list[int]] = defaultdict(list)
    for number, own in enumerate(prints):
        for gram in own:
            holders[gram].append(number)
    for number, own in enumerate(prints):
        few = (who for gram in own if len(who := holders[gram]) <= COMMON)
        others = {other for who in few for other in who if other > number and not whole[other]}
        yield from ((number, other) for other in (range(len(prints)) if whole[number] else others) if other != number)


def words(source: str) -> list[str]:
    """A program's tokens up to names, comments, docstrings and layout, as far as Python can tell them apart.

    Names that this program has given are all one word, as are strings; names of attributes that others have given, such
    as `transpose`, are kept.
    """
    found: list[tuple[int, str]] = []
    fresh = True  # at the beginning of a statement, where a string is a docstring
    try:
        for kind, text, *_ in islice(tokenize.generate_tokens(io.StringIO(source).readline), MOST):
            if kind in LINES:
                fresh = True
            elif kind not in SILENT:
                if kind != tokenize.STRING or not fresh:
                    found.append((kind, text))
                fresh = False
    except (tokenize.TokenError, SyntaxError):
        pass  # what comes before the mistake can be the same too
    own = {text for (_, before), (_, text) in pairwise(found) if before in ("def", "class")}
    above = ["", "", *(text for _, text in found)]
    return [
        _word(kind, text, before == "." and owner != "self" and text not in own)
        for (kind, text), owner, before in zip(found, above, above[1:], strict=False)
    ]


def _word(kind: int, text: str, given_by_others: bool) -> str:
    if kind == tokenize.NAME:
        return text if given_by_others or keyword.iskeyword(text) else "name"
    return "string" if tokenize.tok_name[kind].endswith(("STRING", "STRING_MIDDLE")) else text


def _grams(tokens: list[str]) -> list[bytes]:
    """A fingerprint of every so many tokens in a row, the same in every process."""
    return [
        hashlib.blake2b("\n".join(tokens[at : at + GRAM]).encode(errors="replace"), digest_size=8).digest()
        for at in range(len(tokens) - GRAM + 1)
    ]


def _winnowed(source: str, stub: frozenset[bytes]) -> Prints:
    """Of every so many fingerprints in a row the least, but for those that everybody was handed out."""
    own = [(gram, -at) for at, gram in enumerate(_grams(words(source))) if gram not in stub]
    kept = {min(own[at : at + WINDOW]) for at in range(max(len(own) - WINDOW + 1, 1)) if own}
    prints: Prints = defaultdict(int)
    for gram, at in kept:
        prints[gram] |= (1 << GRAM) - 1 << -at
    return dict(prints)


def _tokens(places: Iterable[int]) -> int:
    """How many tokens these places are together, where some overlap."""
    return reduce(or_, places, 0).bit_count()
