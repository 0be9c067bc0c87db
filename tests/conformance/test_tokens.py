"""Tokenizers against tiktoken, GPT-2's own pattern, and the rules of minbpe and CS336, transcribed."""

from __future__ import annotations

import random
import re
import sys
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from dojo.contracts.plain.texts import KINDS, PRETOKEN, merged, mixed, pieces, prose
from tests.conformance.agreement import solution

tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is part of the test extra")
regex = pytest.importorskip("regex", reason="regex comes with tiktoken")

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
SPECIAL = ("<|end|>", "<|end|><|end|>", "[S]")


def bytes_of(merges: list[tuple[int, int]]) -> list[bytes]:
    """The bytes of each id."""
    tokens = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        tokens.append(tokens[first] + tokens[second])
    return tokens


@pytest.fixture(scope="module")
def merges() -> list[tuple[int, int]]:
    pick = random.Random(1)
    learnt: list[tuple[int, int]] = solution("bpe_train").train_bpe(mixed(pick, 4000) + prose(pick, 4000, 200), 700)
    return learnt


def encoding(merges: list[tuple[int, int]]) -> Any:
    tokens = bytes_of(merges)
    assert len(set(tokens)) == len(tokens)
    ranks = {token: rank for rank, token in enumerate(tokens)}
    special = {token: len(tokens) + number for number, token in enumerate(SPECIAL)}
    return tiktoken.Encoding("ours", pat_str=GPT2, mergeable_ranks=ranks, special_tokens=special)


def test_ids_are_those_of_tiktoken(merges: list[tuple[int, int]]) -> None:
    ours, theirs = solution("bpe_encode").Tokenizer(merges, SPECIAL[::2]), encoding(merges)
    for seed in range(3000):
        pick = random.Random(seed)
        text = mixed(pick, 20, KINDS) + SPECIAL[0] + prose(pick, 30, 40) + "[S]"
        found = [each if each <= 256 + len(merges) else each + 1 for each in ours.encode(text)]
        assert found == theirs.encode(text, allowed_special={"<|end|>", "[S]"}), text


def test_what_ids_say_is_what_tiktoken_reads(merges: list[tuple[int, int]]) -> None:
    ours, theirs = solution("bpe_encode").Tokenizer(merges, SPECIAL), encoding(merges)
    for seed in range(500):
        ids = random.Random(seed).choices(range(256 + len(merges) + len(SPECIAL)), k=25)
        assert ours.decode(ids) == theirs.decode(ids)


def test_pieces_are_those_of_gpt2() -> None:
    assert solution("bpe_train").PRETOKEN == solution("bpe_encode").PRETOKEN == PRETOKEN
    for seed in range(3000):
        text = mixed(random.Random(seed), 40)
        assert pieces(text) == regex.findall(GPT2, text)


def test_characters_are_of_gpt2s_kinds_but_for_those_that_are_named() -> None:
    every = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    differ: set[str] = set()
    for ours, theirs in (
        (r"[^\W\d_]", r"\p{L}"),
        (r"\d", r"\p{N}"),
        (r"(?:[^\s\w]|_)", r"[^\s\p{L}\p{N}]"),
        (r"\s", r"\s"),
    ):
        differ |= {*re.findall(ours, every)} ^ {*regex.findall(theirs, every)}
    numerals, separators = {*regex.findall(r"\p{Nl}|\p{No}", every)}, {*"\x1c\x1d\x1e\x1f"}
    new = {each for each in differ if unicodedata.category(each) == "Cn"}  # newer than Python
    assert differ == (differ & numerals) | separators | new
    assert not differ & {*"".join(KINDS)}


def minbpe(text: str, vocab_size: int) -> tuple[list[tuple[int, int]], bool]:
    """minbpe's RegexTokenizer.train, by its rule: chunks one by one, `max` by count; and whether nothing ties."""
    chunks, learnt, alone = [list(piece.encode()) for piece in regex.findall(GPT2, text)], [], True
    for new in range(256, vocab_size):
        stats: dict[tuple[int, int], int] = {}
        for ids in chunks:
            for pair in pairwise(ids):
                stats[pair] = stats.get(pair, 0) + 1
        best = max(stats, key=stats.__getitem__)
        alone = alone and list(stats.values()).count(stats[best]) == 1
        chunks = [merged(ids, best, new) for ids in chunks]
        learnt.append(best)
    return learnt, alone


def test_merges_are_those_of_minbpe_where_nothing_ties() -> None:
    compared = 0
    for seed in range(40):
        text = prose(random.Random(seed), 3000, 300)
        learnt, alone = minbpe(text, 264)
        if alone:
            compared += 1
            assert solution("bpe_train").train_bpe(text, 264) == learnt
    assert compared >= 10


def cs336(text: str, count: int) -> list[tuple[bytes, bytes]]:
    """CS336's rule: words are tuples of bytes, of the most frequent pairs the lexicographically greatest."""
    words = Counter(tuple(bytes([byte]) for byte in piece.encode()) for piece in regex.findall(GPT2, text))
    learnt = []
    for _ in range(count):
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        learnt.append(best)
        after: Counter[tuple[bytes, ...]] = Counter()
        for word, times in words.items():
            left, place = [], 0
            while place < len(word):
                both = word[place : place + 2] == best
                left.append(b"".join(best) if both else word[place])
                place += 1 + both
            after[tuple(left)] += times
        words = after
    return learnt


@pytest.mark.parametrize("seed", range(4))
def test_merges_are_those_of_cs336s_rule(seed: int) -> None:
    text = prose(random.Random(seed), 3000, 150) + mixed(random.Random(seed), 400)
    learnt = solution("bpe_train").train_bpe(text, 256 + 243)
    tokens = bytes_of(learnt)
    assert [(tokens[first], tokens[second]) for first, second in learnt] == cs336(text, 243)


def test_training_has_its_known_values() -> None:
    train = solution("bpe_train").train_bpe
    assert train("aaab aaab", 259) == [(97, 97), (256, 97), (257, 98)]
    words = {"low": 5, "lower": 2, "widest": 3, "newest": 6}  # the example of CS336's first assignment
    learnt = train("\n".join(word for word, times in words.items() for _ in range(times)), 256 + 12)
    tokens = bytes_of(learnt)
    expected = "s t|e st|o w|l ow|w est|n e|ne west|w i|wi d|wid est|low e|lowe r"
    assert [b" ".join((tokens[a], tokens[b])).decode() for a, b in learnt] == expected.split("|")


def test_encoding_has_its_known_values() -> None:
    assert solution("bpe_encode").Tokenizer([(98, 99), (97, 98)]).encode("abc") == [97, 256]
