"""What `train_bpe` must give. The oracle counts every pair of every piece anew in each round."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, NamedTuple

from dojo.contracts import (
    Attempt,
    Draw,
    GeneratorContract,
    Label,
    Section,
    core,
    fail,
    robust,
    shorter,
)
from dojo.contracts.plain.texts import KINDS, cut, merged, mixed, pieces, prose

SPECIAL = ("<|end|>", "<|end|><|end|>", "[S]", "(.*)", "the", "\n\n", "🙂", " ")
HANDOUT = "low\nlow\nlow\nlow\nlow\nlower\nlower\nwidest\nwidest\nwidest" + "\nnewest" * 6


class Round(NamedTuple):
    """One round: how often each pair was seen, the bytes of the tokens known by then, and the pair that is taken."""

    counts: Counter[tuple[int, int]]
    tokens: list[bytes]
    best: tuple[int, int]

    def bytes_of(self, pair: tuple[int, int]) -> tuple[bytes, bytes]:
        return self.tokens[pair[0]], self.tokens[pair[1]]


def rounds(text: str, special_tokens: Sequence[str], taken: Any = ()) -> Iterator[Round]:
    """Of pairs seen equally often the one that stands in `taken` for this round, else the one of the statement."""
    seen = Counter(piece for part in cut(text, special_tokens)[::2] for piece in pieces(part))
    words = [(list(piece.encode()), times) for piece, times in seen.items()]
    tokens = [bytes([byte]) for byte in range(256)]
    while True:
        counts: Counter[tuple[int, int]] = Counter()
        for ids, times in words:
            for pair in pairwise(ids):
                counts[pair] += times
        if not counts:
            return
        top, wanted = max(counts.values()), taken[len(tokens) - 256 :][:1]
        most = [pair for pair, count in counts.items() if count == top]
        best = max(most, key=lambda pair: (tokens[pair[0]], tokens[pair[1]]))
        best = next((pair for pair in most if [list(pair)] == [*map(listed, wanted)]), best)
        yield Round(counts, list(tokens), best)
        words = [(merged(ids, best, len(tokens)) if best in pairwise(ids) else ids, times) for ids, times in words]
        tokens.append(tokens[best[0]] + tokens[best[1]])


def listed(pair: Any) -> Any:
    return list(pair) if isinstance(pair, tuple) else pair


def trained(text: str, vocab_size: int, special_tokens: Sequence[str] = (), taken: Any = ()) -> list[tuple[int, int]]:
    found = islice(rounds(text, special_tokens, taken), vocab_size - 256 - len(special_tokens))
    return [each.best for each in found]


def sized(text: str, most: int, special_tokens: Sequence[str] = ()) -> tuple:
    """A call that asks for as many merges, or for all that there are."""
    count = len(trained(text, 256 + len(special_tokens) + most, special_tokens))
    return (text, 256 + len(special_tokens) + count, *([special_tokens] if special_tokens else []))


def with_special(d: Draw) -> list[tuple]:
    """Texts in which special tokens stand between others, and within each other."""
    pick = d.random()
    kinds = (*SPECIAL, "a", "b", "ab", " ", "  ", "|", "e", "S")
    chosen = [tuple(pick.sample(SPECIAL, pick.randint(1, 5))) for _ in range(12)]
    return [sized(mixed(pick, 60, kinds), 10, each) for each in chosen]


def smaller(call: tuple) -> Iterator[tuple]:
    """The same with fewer merges, then with less text."""
    text, size, *special = call
    least = 256 + len(special[0] if special else ())
    yield from ((text, each, *special) for each in ((size + least) // 2, size - 1) if least < each < size)
    yield from ((each, size, *special) for each in shorter(text))


class TestTrainBpe(GeneratorContract):
    name = "train_bpe"
    oracle = trained
    base = ("abab", 258, ("<s>",))
    claims = {
        "each round takes the most frequent pair": lambda d: [
            ("aaab aaab ab", 259),
            (HANDOUT, 268),
            ("the cat sat on the mat, the rat sat on the cat", 266),
            *((prose(d.random(), 1500, words), 256 + words) for words in (20, 60)),
        ],
        "bytes are merged": [("éé èè é ñ", 262), ("漢字 漢字 🙂🙂", 266)],
        "a pair seen once still counts": [("abcd", 259), ("a bc", 257), ("abab abab", 259)],
        "every place counts, replaced from left to right": [
            ("aaaaa bcbcbc", 257),
            ("aaa aaa aaa", 258),
            ("aaaaa aaa xyxyxy", 260),
            ("aaaa", 258),
        ],
        "pairs never cross a piece": [("ab.ab.ab. ab_ab", 258), ("x1x1x1 1x 1x", 257), ("a  b  a  b\n\n a\n b", 259)],
        "special tokens cut the text": [
            ("ab<|end|>ab<|end|>ab", 258, ("<|end|>",)),
            ("word  [S]word", 261, ("[S]",)),
            ("ab<s>ba<s>ab", 260, ["<s>", "</s>", "<pad>"]),
            ("xabcdex xabcdex abde", 262, ("abc", "ab", "abcd")),
            ("xabcx xabcx abc", 259, ("ab", "abc")),
            ("abcd abcd", 259, ("ab", "bcd")),
        ],
    }
    edges = {
        "special tokens may be any text": with_special,
        "text may hold any character": lambda d: [sized(mixed(random.Random(d.seed + n), 70), 20) for n in range(12)],
        "no pair may be left": [
            ("", 300),
            ("a b c", 300),
            ("ab", 256),
            ("abab", 300),
            ("\0\0 \0", 258),
            ("ab", 257, ("ab",)),
            ("abcd aaaa", 300),
            ("<|end|>", 300, ("<|end|>",)),
        ],
        "every kind of white space": [sized(f"a{kind}{kind}b a{kind}b", 8) for kind in KINDS if kind.isspace()],
    }
    refused = {
        "a vocab_size that is too small is refused": {
            ("ab", 255): (255,),
            ("ab", 257, ("<a>", "<b>")): (257,),
            ("", -1): (-1,),
        },
        "a special token that is empty or repeated is refused": {
            ("ab", 300, ("<s>", "</s>", "<s>")): ("<s>",),
            ("ab", 300, ("<s>", "")): (),
        },
    }
    time_limit = 8.0  # pairs of counted pieces counted anew take 2 to 3, pieces that are not counted 20

    @cached_property
    def timed(self) -> tuple:
        return prose(random.Random(1), 200_000, 500), 556

    simpler = smaller
    ties = False  # whether it matters which of equals is taken

    def picture(self, call: tuple, got: Any, exact: Any) -> list[Section]:
        """How often the pairs of the first other merge were seen, and their bytes."""
        both = zip(got, exact, strict=False) if isinstance(got, (list, tuple)) else ()
        place = next((number for number, (mine, pair) in enumerate(both) if mine != pair), None)
        if place is None:
            return []
        text, _, *special = call
        seen = next(islice(rounds(text, *special or [()], exact), place, None))
        told = []
        for who, pair in (("got", got[place]), ("expected", exact[place])):
            known = isinstance(pair, (list, tuple)) and tuple(pair) in seen.counts
            words = "{!r} + {!r}".format(*seen.bytes_of(tuple(pair))) if known else "no pair of the text"
            told.append(f"{who} {words}, seen {seen.counts[tuple(pair)] if known else 0} times")
        return [Section(Label.PATTERN, f"in round {place}, counted from 0: {'; '.join(told)}")]

    def expected(self, call: tuple, got: Any, reference: Any = None) -> Any:
        """Any of equals is right, but in the one check whose subject they are."""
        text, size, *special = call
        taken = got if isinstance(got, (list, tuple)) and not self.ties else ()
        return reference if got == reference is not None else trained(text, size, *special or [()], taken)

    @robust
    def test_of_equals_the_greater_as_bytes(self, attempt: Attempt, draw: Draw) -> None:
        """The same text in another order gives another tokenizer, and its ids mean something else."""
        self.ties = True
        kinds = ("a", "b", "aa", "ba", " b", " ")
        mixtures = (mixed(random.Random(draw.seed + n), n, kinds) for n in range(20, 50, 3))
        for text in ("ab ac", "aab ccb", "aaaa baba", *mixtures):
            self.agrees(attempt, "of equals the greater as bytes", sized(text, 19))

    @robust
    def test_the_list_of_special_tokens_is_left_as_it_was(self, attempt: Attempt) -> None:
        """The caller's list is in another order from then on, and the places in it are the ids of the tokens."""
        given = ["[S]", "<|end|>", "a", "<|end|><|end|>"]
        after = attempt.train_bpe.ask(do="left_of", target="train_bpe", args=("ab<|end|>ab", 261, given))["value"][2]
        if after != given:
            fail("the list of special tokens is not modified", f"{given} became {after}")

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        self.agrees(attempt, "nothing else does the work", (prose(draw.random(), 2500, 90), 261))
