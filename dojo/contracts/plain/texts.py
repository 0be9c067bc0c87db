"""What tokenizers are tried on: texts of every kind of character, long prose, and merges that were never trained."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""

# One entry is one kind. Numerals that are no decimal digits and U+001C to U+001F are left out: there GPT-2's own
# pattern, which right attempts may use, and the one above give other pieces.
KINDS = (
    "a", "b", "ab", "ba", "aa", "B", "é", "ß", "e\u0301", "ñ", "漢", "क्षि", "한", "ﷺ", "𝒜", "𠮷", "٣", "12", "7", "_",
    "'s", "'ll", "'S", "’", "!?", "…", "-", "🙂", "👩\u200d🚀", "\0", "\x07", "\x7f", "\u200b", "\ufeff", "\U0010ffff",
    "\r\n", "\n", "\t", " ", " ", "  ", "\x85", "\u00a0", "\u3000", "\u2028",
)  # fmt: skip
SYLLABLES = [first + second + last for first in "b d f g k l m n p r s t v st tr ch sh".split()
             for second in "a e i o u ea ou".split() for last in ("", "", "n", "r", "s", "l")]  # fmt: skip


def mixed(pick: random.Random, length: int, kinds: Sequence[str] = KINDS) -> str:
    """A text of so many random entries of `kinds`."""
    return "".join(pick.choices(kinds, k=length))


def prose(pick: random.Random, size: int, words: int) -> str:
    """So many characters of sentences of invented words, the frequent ones as frequent as in a language."""
    known = ["".join(pick.choices(SYLLABLES, k=pick.choice((1, 1, 2, 2, 2, 3, 3, 4)))) for _ in range(words)]
    weights = list(accumulate(1 / (rank + 3) for rank in range(words)))
    sentences, left = [], size
    while left > 0:
        sentence = " ".join(pick.choices(known, cum_weights=weights, k=pick.randint(4, 18))).capitalize()
        sentences.append(sentence + pick.choice((". ", ". ", "? ", ", ", ".\n")))
        left -= len(sentences[-1])
    return "".join(sentences)[:size]


def pieces(text: str) -> list[str]:
    """The pieces of a text without special tokens."""
    return re.findall(PRETOKEN, text)


def cut(text: str, special_tokens: Iterable[str]) -> list[str]:
    """Plain text and special tokens in turn, plain text first and last; the longest where several begin."""
    found, place = [""], 0
    while place < len(text):
        if fits := [token for token in special_tokens if text.startswith(token, place)]:
            found += [max(fits, key=len), ""]
            place += len(found[-2])
        else:
            found[-1] += text[place]
            place += 1
    return found


def merged(ids: Sequence[int], pair: tuple[int, int], new: int) -> list[int]:
    """The same ids with `new` for each such pair, from left to right."""
    left, found = list(ids), []
    while left:
        both = tuple(left[:2]) == pair
        found.append(new if both else left[0])
        del left[: 1 + both]
    return found


def invented_merges(pick: random.Random, text: str, count: int) -> list[tuple[int, int]]:
    """At most so many merges, each a random pair of what earlier ones leave of a word: their order matters."""
    words = [list(word.encode()) for word, _ in Counter(pieces(text)).most_common()]
    ranks: dict[tuple[int, int], int] = {}
    while any(len(ids) > 1 for ids in words):
        for number, ids in enumerate(words):
            if len(ids) < 2:
                continue
            pairs = list(pairwise(ids))
            known = [pair for pair in pairs if pair in ranks]
            pair = min(known, key=ranks.__getitem__) if known else pick.choice(pairs)
            if len(ranks) == count and not known:
                return list(ranks)
            words[number] = merged(ids, pair, 256 + ranks.setdefault(pair, len(ranks)))
    return list(ranks)
