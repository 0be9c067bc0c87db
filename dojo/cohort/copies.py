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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, groupby, islice, pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dojo.content import files, master
from dojo.content.catalog import Kata

GRAM = 10  # tokens: what is shorter and the same says nothing
WINDOW = 5  # whatever is the same over GRAM + WINDOW - 1 tokens is found
ENOUGH = 0.7  # the share from which on a pair is listed: of the right attempts here 96 pairs of 100 are below
FEWEST = 40  # tokens of an attempt's own: two shorter ones are the same by chance
COMMON = 100  # attempts: a fingerprint that more have is how one writes this kata
LISTED = 500  # pairs
MOST = 10_000  # tokens of an attempt that are looked at, about a thousand lines
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
LINES = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

PRINT = np.dtype([("gram", "<u8"), ("at", "<u2")])  # a fingerprint, and the place of its first token

Numbers = np.ndarray[Any, np.dtype[Any]]


class Printed(NamedTuple):
    """An attempt by its fingerprints, as `prints` packs them."""

    kata: str
    student: str
    prints: bytes
    earlier: bool = False  # handed in before, such as last year


@dataclass(frozen=True)
class Pair:
    """Two attempts at a kata that have much in common, or one and the solution."""

    first: Printed
    second: Printed | None  # None is the solution
    of_first: float  # the share of the first's own tokens that the second has too
    of_second: float

    @property
    def share(self) -> float:
        """The larger of the two: what is copied into something longer is a copy too."""
        return max(self.of_first, self.of_second)


def prints(source: str, kata: Kata) -> bytes:
    """The fingerprints of an attempt: of every so many in a row the least, but for those that all were handed out."""
    own = [(gram, -at) for at, gram in enumerate(_grams(words(source))) if gram not in _handed_out(kata)]
    kept = {min(own[at : at + WINDOW]) for at in range(max(len(own) - WINDOW + 1, 1)) if own}
    found = sorted((-at, int.from_bytes(gram, "little")) for gram, at in kept)
    return np.array([(gram, at) for at, gram in found], PRINT).tobytes()


@cache
def version(kata: Kata) -> str:
    """A digest of what the fingerprints of attempts at this kata hang on besides their text."""
    return files.digest(Path(__file__).read_bytes() + master.stub_text(kata).encode())


@cache
def _handed_out(kata: Kata) -> frozenset[bytes]:
    return frozenset(_grams(words(master.stub_text(kata))))


def pairs(
    attempts: Iterable[Printed], katas: Mapping[str, Kata], enough: float = ENOUGH, most: int = LISTED
) -> list[Pair]:
    """Pairs of attempts at a kata that share at least `enough` of their tokens: the likest `most`, the likest first.

    The attempts come by kata. Two are compared where enough is the same of what few have, so the work grows with the
    class and not with its square. What many have counts in a pair's share all the same. Of earlier attempts, such as
    last year's, those pairs are found that they make with others, and they come second.
    """
    found: list[Pair] = []
    for name, each in groupby(attempts, key=lambda attempt: attempt.kata):
        found += _of_a_kata(each, katas[name], enough, most)
    return sorted(found, key=lambda pair: -pair.share)[:most]


def _of_a_kata(attempts: Iterable[Printed], kata: Kata, enough: float, most: int) -> list[Pair]:
    alike: dict[bytes, list[Printed | None]] = defaultdict(list)  # None is the solution
    for attempt in attempts:
        alike[attempt.prints].append(attempt)
    alike[prints(master.without_handed_out(master.read_text(kata.master)), kata)].append(None)
    packed = [(who, np.frombuffer(text, PRINT)) for text, who in alike.items()]
    groups = [(who, each) for who, each in packed if _covered(each["at"]) >= FEWEST]
    if not groups:
        return []
    for who, _ in groups:
        who.sort(key=lambda each: (each is None, each is not None and each.earlier))  # those that come second
    same = (pair for who, _ in groups for pair in islice(_with_a_new_one(combinations(who, 2)), most))
    found = [Pair(first, second, 1.0, 1.0) for first, second in same]
    likest = sorted(_measured(groups, enough), key=lambda each: -max(each[2:]))
    for one, other, of_one, of_other in likest:
        if len(found) >= most:
            break
        both = product(groups[one][0], groups[other][0])
        for first, second in islice(_with_a_new_one(both), most - len(found)):
            turned = first not in groups[one][0]
            found.append(Pair(first, second, *((of_other, of_one) if turned else (of_one, of_other))))
    return found


def _with_a_new_one(
    found: Iterable[tuple[Printed | None, Printed | None]],
) -> Iterator[tuple[Printed, Printed | None]]:
    """The pairs that tell something about an attempt that is not an earlier one, which comes first in each."""
    for first, second in found:
        if first is not None and not first.earlier:
            yield first, second
        elif second is not None and not second.earlier:
            yield second, first


def _measured(
    groups: list[tuple[list[Printed | None], Numbers]], enough: float
) -> Iterator[tuple[int, int, float, float]]:
    """Which two share enough, and of each how much."""
    sizes = np.cumsum([len(each) for _, each in groups])[:-1]
    known, numbered = np.unique(np.concatenate([each["gram"] for _, each in groups]), return_inverse=True)
    grams, places = np.split(numbered, sizes), [each["at"] for _, each in groups]
    lengths = [_covered(at) for at in places]
    in_one, in_other = np.zeros(len(known), bool), np.zeros(len(known), bool)
    for one, other in _near(grams, places, [None in who for who, _ in groups], len(known), enough):
        in_one[grams[one]] = in_other[grams[other]] = True
        of_one = _covered(places[one][in_other[grams[one]]]) / lengths[one]
        of_other = _covered(places[other][in_one[grams[other]]]) / lengths[other]
        in_one[grams[one]] = in_other[grams[other]] = False
        if max(of_one, of_other) >= enough:
            yield one, other, of_one, of_other


def _near(
    grams: list[Numbers], places: list[Numbers], solution: list[bool], known: int, enough: float
) -> Iterator[tuple[int, int]]:
    """Which may share enough: of what at most COMMON have, enough is the same; the solution is near all."""
    own = [np.unique(each) for each in grams]
    having = np.bincount(np.concatenate(own), minlength=known)
    owners = np.repeat(np.arange(len(own)), [len(each) for each in own])
    holders = np.split(owners[np.argsort(np.concatenate(own), kind="stable")], np.cumsum(having)[:-1])
    few = having <= COMMON
    rare = np.array([_covered(at[few[gram]]) for gram, at in zip(grams, places, strict=True)])
    for one, mine in enumerate(own):
        if solution[one]:
            yield from ((one, other) for other in range(len(own)) if other != one)
            continue
        met = [holders[gram] for gram in mine[few[mine] & (having[mine] > 1)]]
        others, common = np.unique(np.concatenate([*met, [one]]).astype(int), return_counts=True)
        near = others[(GRAM * common >= enough * np.minimum(rare[one], rare[others])) & (others > one)]
        yield from ((one, other) for other in near.tolist() if not solution[other])


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


def _covered(places: Numbers) -> int:
    """How many tokens fingerprints at these places hold together, where some overlap; the places are in order."""
    return int(np.minimum(np.diff(places), GRAM).sum()) + GRAM if len(places) else 0
