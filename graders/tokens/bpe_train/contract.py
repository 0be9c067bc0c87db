"""What `train_bpe` must give. The oracle counts every pair of every piece anew in each round."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, NamedTuple

from dojo.contracts import Attempt, Draw, GeneratorContract, Label, Section, robust, shorter
from dojo.contracts.plain.texts import KINDS, cut, merged, mixed, pieces, prose

SPECIAL = ("<|end|>", "<|end|><|end|>", "[S]", "(.*)", "the", "\n\n", "🙂", " ")


class Round(NamedTuple):
    """How often each pair is seen, the bytes of the tokens so far, and the pair that is taken."""

    counts: Counter[tuple[int, int]]
    tokens: list[bytes]
    best: tuple[int, int]


def rounds(text: str, special: Sequence[str] = (), taken: Sequence[Any] = ()) -> Iterator[Round]:
    """Of equals the one that stands in `taken` for this round, else the one of the statement."""
    seen = Counter(piece for part in cut(text, special)[::2] for piece in pieces(part))
    words = [(list(piece.encode()), times) for piece, times in seen.items()]
    tokens = [bytes([byte]) for byte in range(256)]
    while True:
        counts: Counter[tuple[int, int]] = Counter()
        for ids, times in words:
            for pair in pairwise(ids):
                counts[pair] += times
        if not counts:
            return
        mine = taken[len(tokens) - 256 :][:1]
        best = max(counts, key=lambda pair: (counts[pair], [pair] == mine, tokens[pair[0]], tokens[pair[1]]))
        yield Round(counts, list(tokens), best)
        words = [(merged(ids, best, len(tokens)) if best in pairwise(ids) else ids, times) for ids, times in words]
        tokens.append(tokens[best[0]] + tokens[best[1]])


def trained(text: str, vocab_size: int, special: Sequence[str] = (), taken: Sequence[Any] = ()) -> list:
    return [each.best for each in islice(rounds(text, special, taken), vocab_size - 256 - len(special))]


def sized(text: str, most: int, special: Sequence[str] = ()) -> tuple:
    """A call that asks for at most so many merges, and for none that there is not."""
    return text, 256 + len(special) + len(trained(text, 256 + len(special) + most, special)), special


def with_special(d: Draw) -> list[tuple]:
    """Texts in which special tokens stand between others, and within each other."""
    pick, kinds = d.random(), (*SPECIAL, "a", "b", "ab", " ", "  ", "|", "e", "S")
    chosen = [tuple(pick.sample(SPECIAL, pick.randint(1, 5))) for _ in range(12)]
    known = [sized("xabcdex xabcdex abde", 6, ("abc", "ab", "abcd")), sized("abcd abcd", 3, ("ab", "bcd"))]
    return known + [sized(mixed(pick, 60, kinds), 10, each) for each in chosen]


def of_any_characters(d: Draw) -> Iterator[tuple]:
    yield from (sized(mixed(random.Random(d.seed + n), 70), 20) for n in range(12))
    yield from (sized(f"a{kind}{kind}b a{kind}b", 8) for kind in KINDS if kind.isspace())


def pairs_of(got: Any) -> list:
    """The merges of an answer as tuples, and None for what is no pair of ids."""
    rows = got if isinstance(got, (list, tuple)) else ()
    pairs = [tuple(each) if isinstance(each, (list, tuple)) else () for each in rows]
    return [pair if [*map(type, pair)] == [int, int] else None for pair in pairs]


def smaller(call: tuple) -> Iterator[tuple]:
    """The same with fewer merges, then with less text."""
    text, size, *special = call
    least = 256 + len(special[0] if special else ())
    yield from ((text, each, *special) for each in ((size + least) // 2, size - 1) if least < each < size)
    yield from ((each, size, *special) for each in shorter(text))


class TestTrainBpe(GeneratorContract):
    name = "train_bpe"
    oracle = trained
    simpler = smaller
    ties = False  # whether it matters which of equals is taken
    holds = {
        "Counts": ("test_each_round", "test_every_place", "test_a_pair_seen_once"),
        "Pieces": ("test_bytes", "test_pairs_never", "test_white_space", "test_text_may_hold"),
        "Special tokens": ("test_special_tokens",),
        "Ties": ("test_of_equals",),
        "Short text": ("test_no_pair",),
        "Cost": ("test_time",),
        "Errors": ("test_a_vocab_size",),
    }
    claims = {
        "each round takes the most frequent pair": lambda d: [
            ("aaab aaab ab", 259),
            *((prose(d.random(), 1500, words), 256 + words) for words in (20, 60)),
        ],
        "bytes are merged": [("é é é", 258)],
        "a pair seen once still counts": [("abab", 258)],
        "every place counts, replaced from left to right": [
            ("aaaaa bcbcbc", 257),
            ("aaaaa aaa xyxyxy", 258),
            ("aaa aaa aaa", 258),
            ("aaaa", 258),
        ],
        "pairs never cross a piece": [("ab.ab.ab. ab_ab", 258), ("x1x1x1 1x 1x", 257), ("a  b  a  b\n\n a\n b", 259)],
        "special tokens cut the text": [
            (4 * "ab<|end|>" + "cd<|end|>cd", 259, ("<|end|>",)),
            ("ab<s>ab<s>ab<s>ab<s>cd<s>cd", 261, ["<s>", "</s>", "<pad>"]),
        ],
        "white space beside a special token counts": [("a  <s>b  <s>c", 258, ("<s>",))],
    }
    edges = {
        "special tokens may be any text": with_special,
        "text may hold any character": of_any_characters,
        "no pair may be left": [
            *(("", 300), ("a b c", 300), ("abab", 300), ("\0\0 \0", 258)),
            *(("ab", 257, ("ab",)), ("abcd aaaa", 300), ("<|end|>", 300, ("<|end|>",))),
        ],
    }
    refused = {
        "a vocab_size that is too small is refused": {("ab", 255): (255,), ("ab", 257, ("<a>", "<b>")): (257,)},
    }
    time_limit = 8.0  # pairs of counted pieces counted anew take 2 to 3, pieces that are not counted 20

    @cached_property
    def timed(self) -> tuple:
        return prose(random.Random(1), 200_000, 500), 556

    def picture(self, call: tuple, got: Any, exact: Any) -> list[Section]:
        """How often the pairs of the first other merge are seen, and their bytes."""
        text, _, *special = call
        seen = zip(rounds(text, *special, taken=exact), pairs_of(got), exact, strict=False)
        for number, (each, mine, pair) in enumerate(seen):
            if mine != pair:
                known = filter(each.counts.get, (mine, pair))
                told = (f"{each.tokens[a]!r} + {each.tokens[b]!r} {each.counts[a, b]} times" for a, b in known)
                return [Section(Label.PATTERN, f"in round {number}, counted from 0, there is {', and '.join(told)}")]
        return []

    def expected(self, call: tuple, got: Any, reference: Any = None) -> Any:
        """Any of equals is right, but in the one check whose subject they are."""
        return reference if got == reference is not None else trained(*call, taken=() if self.ties else pairs_of(got))

    @robust
    def test_of_equals_the_greater_as_bytes(self, attempt: Attempt, draw: Draw) -> None:
        """The same text in another order gives another tokenizer, and its ids mean something else."""
        self.ties = True
        kinds = ("a", "b", "aa", "ba", " b", " ")
        mixtures = (mixed(random.Random(draw.seed + n), n, kinds) for n in range(20, 50, 3))
        for text in ("ab ac", "aab ccb", "aaaa baba", *mixtures):
            self.agrees(attempt, "of equals the greater as bytes", sized(text, 19)[:2])
