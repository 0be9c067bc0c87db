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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, islice, pairwise
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


def pairs(submitted: Sequence[Submitted], katas: Mapping[str, Kata], enough: float = ENOUGH) -> list[Pair]:
    """Pairs of attempts at the same kata that share at least `enough` of their tokens, the likest first."""
    found = []
    by_kata: dict[str, list[Submitted]] = defaultdict(list)
    for attempt in sorted(submitted):
        by_kata[attempt.kata].append(attempt)
    for name, attempts in by_kata.items():
        stub = frozenset(_grams(words(master.stub_text(katas[name]))))
        solution = master.without_handed_out(master.read_text(katas[name].master))
        prints = {source: _winnowed(source, stub) for source in {attempt.source for attempt in attempts}}
        entries: list[tuple[Submitted | None, Prints]] = [(attempt, prints[attempt.source]) for attempt in attempts]
        entries.append((None, _winnowed(solution, stub)))
        measured = [(who, own, length) for who, own in entries if (length := _tokens(own.values())) >= FEWEST]
        for (first, ours, our_length), (second, theirs, their_length) in combinations(measured, 2):
            common = ours.keys() & theirs.keys()
            if GRAM * len(common) < enough * min(our_length, their_length):
                continue
            of_first = _tokens(map(ours.__getitem__, common)) / our_length
            of_second = _tokens(map(theirs.__getitem__, common)) / their_length
            if first is not None and max(of_first, of_second) >= enough:
                found.append(Pair(first, second, of_first, of_second))
    return sorted(found, key=lambda pair: -pair.share)


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
