"""What `Tokenizer` must give. The oracle tries every pair in the order of learning over the whole piece."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from dojo.contracts import Attempt, Callee, Draw, GeneratorContract, fail, robust, shorter
from dojo.contracts.plain.texts import KINDS, cut, invented_merges, merged, mixed, pieces, prose
from dojo.judge.protocol import Args, Kwargs
from dojo.verdict.mismatch.plain import shown

Merges = Sequence[Sequence[int]]
CROSSING = ((97, 98), (99, 256), (256, 256), (98, 97), (101, 102), (100, 260), (100, 101))  # each wrong order differs
NESTED = ((97, 98), (256, 99), (32, 257), (99, 97), (257, 257), (49, 50), (195, 169), (97, 97))
SPECIAL = ("<|end|>", "<|end|><|end|>", "[S]", "(.*)", "ab", "\n\n", "🙂", " ", "é")


def encoded(merges: Merges, special: Sequence[str], text: str) -> list[int]:
    ids = []
    for number, part in enumerate(cut(text, special)):
        if number % 2:
            ids.append(256 + len(merges) + special.index(part))
            continue
        for piece in pieces(part):
            found = list(piece.encode())
            for rank, (first, second) in enumerate(merges):
                found = merged(found, (first, second), 256 + rank)
            ids += found
    return ids


def decoded(merges: Merges, special: Sequence[str], ids: Sequence[int]) -> str:
    def bytes_of(each: int) -> bytes:
        if each >= 256 + len(merges):
            return special[each - 256 - len(merges)].encode()
        return bytes([each]) if each < 256 else b"".join(map(bytes_of, merges[each - 256]))

    return b"".join(map(bytes_of, ids)).decode(errors="replace")


def smaller(call: tuple) -> Iterator[tuple]:
    """The same with fewer merges at the end, where no id is asked for, and with less to encode or to decode."""
    merges, special, given = call
    if isinstance(given, str) and merges:
        yield from ((merges[:count], special, given) for count in (len(merges) // 2, len(merges) - 1))
    yield from ((merges, special, each) for each in shorter(given))


def random_calls(d: Draw, kinds: Sequence[str] = KINDS) -> Iterator[tuple]:
    """Merges that were made of one random text, in a random order, and another text to encode."""
    for number in range(12):
        pick = random.Random(1000 * d.seed + number)
        yield invented_merges(pick, mixed(pick, 150, kinds), 40), (), mixed(pick, 60, kinds)


class TokenizerContract(GeneratorContract):
    """A method of a Tokenizer that is kept in the worker: the arguments are those of the constructor, then its own."""

    off = {"test_global_state_is_left_alone": "rule 3 is off for text"}
    simpler = smaller

    @classmethod
    def complete(cls) -> None:
        cls.signature = replace(cls.signature, inputs=("merges", "special_tokens", *cls.signature.inputs[1:]))
        super().complete()

    def answer(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Any:
        own = {name: kwargs[name] for name in kwargs if name == self.signature.inputs[-1]}
        made = {name: kwargs[name] for name in kwargs if name not in own}
        return Callee(attempt, attempt.Tokenizer.keep(*args[:2], **made)).method(self.name, *args[2:], **own)

    def words(self, args: Args, kwargs: Kwargs) -> str:
        *made, given = *map(shown, args), *(f"{name}={shown(value)}" for name, value in kwargs.items())
        return f"Tokenizer({', '.join(made)}).{self.name}({given})"


class TestEncode(TokenizerContract):
    name = "encode"
    oracle = encoded
    holds = {
        "Merge order": ("test_the_pair", "test_all_places"),
        "Special tokens": ("test_a_special_token_is", "test_without_special", "test_special_tokens_may"),
        "Any text": ("test_bytes", "test_pairs_never", "test_white_space", "test_text_may"),
        "Reuse": ("test_one_tokenizer",),
        "Cost": ("test_time",),
    }
    claims = {
        "the pair learned first is merged first": lambda d: [
            (CROSSING, (), "cabab bab aba def"),
            (((98, 99), (97, 98)), (), "abc abab"),
            *random_calls(d, ("a", "b", "c", "ab", "ba", " ", "d")),
        ],
        "all places are merged, from left to right": [
            (((97, 97), (256, 256)), (), "aaaaaaaaaaa aaa"),
            (((97, 97), (256, 97)), (), "aaaa aaa"),
            (((97, 98), (256, 256)), (), "abababab xabab"),
        ],
        "bytes are merged": [(((195, 169),), (), "éé è"), (((159, 153), (240, 256)), (), "🙂🙃"), ((), (), "漢é a")],
        "pairs never cross a piece": [
            (((97, 32), (32, 97), (97, 46), (50, 97), (97, 95)), (), "a a a. 2a a2 a.a a_a"),
            (((32, 32), (10, 10), (32, 97)), (), "a  a   a\n\na \n a  "),
        ],
        "white space is text": [(((32, 32),), (), each) for each in (" ", "  ", "\n\n", "\t", " a", "a ", " \n a\n")],
        "a special token is its id": [
            (NESTED, ("<s>", "</s>", "<pad>"), "<s>abc</s><pad><pad> <s"),
            (((32, 32), *NESTED[1:]), ("[S]", "|"), "word  [S]abc|abcS"),
            ((), ("<|end|>",), "<|end|>abc<|end|> abc<|end|>"),
        ],
        "without special tokens they are plain text": [(NESTED, (), "abc<|endoftext|>abc"), (NESTED, (), "<s>")],
    }
    edges = {
        "text may hold any character": random_calls,
        "special tokens may be any text": lambda d: [
            (NESTED, ("abc", "ab", "abcd"), "xabcdex abcdex abde"),
            (NESTED, ("ab", "bcd"), "abcd bcd"),
            *((NESTED, SPECIAL, mixed(d.random(), n, (*SPECIAL, "a", "b", "|", "S", "12"))) for n in range(20, 60)),
        ],
    }
    time_limit = 8.0

    @cached_property
    def timed(self) -> tuple:
        text = prose(random.Random(1), 100_000, 3000)
        return invented_merges(random.Random(1), text, 2000), (), text

    @robust
    def test_one_tokenizer_serves_many_texts(self, attempt: Attempt, draw: Draw) -> None:
        """What it keeps of one text, a cache or a list, goes into the next; and what was encoded cannot be read."""
        kept = Callee(attempt, attempt.Tokenizer.keep(NESTED, SPECIAL))
        known = [mixed(draw.random(), 30, (*KINDS, *SPECIAL)) for _ in range(6)]
        for text in (*known, "abc abc", "abc", "<|end|>", "ca", *known, "abc abc"):
            staged = kept.stage(text)
            staged.overwrite_result(staged.go(method="encode"))
            ids = kept.method("encode", text)
            claim = "one tokenizer encodes many texts in turn, and ids that were changed are not given out again"
            self.agrees(attempt, claim, (NESTED, SPECIAL, text), ids)
            if (read := kept.method("decode", ids)) != text:
                fail("decode(encode(text)) is the text", f"of {text!r} it is {shown(read)}")


class TestDecode(TokenizerContract):
    name = "decode"
    oracle = decoded
    holds = {
        "Special tokens": ("test_special_tokens",),
        "Decoding": ("test_the_bytes", "test_what_is_no"),
        "Errors": ("test_an_unknown",),
    }
    claims = {
        "the bytes of all ids are joined": [(NESTED, (), [0, 97, 258, 260, 98, 240, 159, 153, 130, 226, 130, 172])],
        "special tokens have the bytes of their text": [(NESTED, ("<s>", "é\n"), [264, 97, 265, 264, 258])],
    }
    edges = {"what is no UTF-8 is replaced": [(NESTED, ("<s>",), [97, 255, 98, 226, 130, 264, 172, 262, 240, 159])]}
    refused = {
        "an unknown id is refused": {
            **{(NESTED, (), (97, 265)): (265,), ((), ("<s>",), (97, 257)): (257,), (NESTED, ("<s>",), (-1, 97)): (-1,)}
        }
    }
