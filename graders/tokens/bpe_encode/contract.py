"""What `Tokenizer` must give. The oracle tries every pair in the order of learning over the whole piece."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from dojo.contracts import (
    Attempt,
    Callee,
    Draw,
    GeneratorContract,
    Label,
    Section,
    core,
    fail,
    robust,
    shorter,
)
from dojo.contracts.plain import texts
from dojo.contracts.plain.texts import KINDS, cut, invented_merges, mixed, pieces, prose
from dojo.judge.protocol import Args, Kwargs
from dojo.verdict.mismatch.plain import shown

Merges = Sequence[Sequence[int]]
CROSSING = ((97, 98), (99, 256), (256, 256), (98, 97))  # by rank, by place and by length: three other answers
NESTED = ((97, 98), (256, 99), (32, 257), (99, 97), (257, 257), (49, 50), (195, 169), (97, 97))
SPECIAL = ("<|end|>", "<|end|><|end|>", "[S]", "(.*)", "ab", "\n\n", "🙂", " ", "é")


def encoded(merges: Merges, special_tokens: Sequence[str], text: str) -> list[int]:
    ids = []
    for number, part in enumerate(cut(text, special_tokens)):
        if number % 2:
            ids.append(256 + len(merges) + list(special_tokens).index(part))
            continue
        for piece in pieces(part):
            found = list(piece.encode())
            for rank, (first, second) in enumerate(merges):
                found = texts.merged(found, (first, second), 256 + rank)
            ids += found
    return ids


def decoded(merges: Merges, special_tokens: Sequence[str], ids: Sequence[int]) -> str:
    def bytes_of(each: int) -> bytes:
        if each < 256:
            return bytes([each])
        rank = each - 256
        return b"".join(map(bytes_of, merges[rank])) if rank < len(merges) else names[rank - len(merges)].encode()

    names = list(special_tokens)
    return b"".join(map(bytes_of, ids)).decode(errors="replace")


def smaller(call: tuple) -> Iterator[tuple]:
    """The same with fewer merges at the end, where no id is asked for, and with less to encode or to decode."""
    merges, special, given = call
    if isinstance(given, str) and merges:
        yield from ((merges[:count], special, given) for count in (len(merges) // 2, len(merges) - 1))
    yield from ((merges, special, each) for each in shorter(given))


def random_calls(count: int, kinds: Sequence[str] = KINDS, merges: int = 40) -> Callable[[Draw], Iterable[tuple]]:
    """Merges that were made of one random text, in a random order, and another text to encode."""

    def made(d: Draw) -> Iterator[tuple]:
        for number in range(count):
            pick = random.Random(1000 * d.seed + number)
            yield invented_merges(pick, mixed(pick, 150, kinds), merges), (), mixed(pick, 60, kinds)

    return made


def with_special(d: Draw) -> Iterator[tuple]:
    """Texts in which special tokens stand between others, and within each other."""
    for number in range(10):
        pick = random.Random(1000 * d.seed + number)
        kinds = (*SPECIAL, "a", "b", "abc", "  ", "|", "e", "S", "12")
        yield NESTED, tuple(pick.sample(SPECIAL, pick.randint(1, 6))), mixed(pick, 50, kinds)


def random_ids(d: Draw) -> Iterator[tuple]:
    """Ids in any order: their bytes are seldom UTF-8."""
    pick = d.random()
    for length in (5, 20, 60):
        high = 256 + len(NESTED) + len(SPECIAL)
        yield NESTED, SPECIAL, [pick.randrange(pick.choice((128, 256, high))) for _ in range(length)]


class TokenizerContract(GeneratorContract):
    """A method of a Tokenizer that is kept in the worker: the arguments are those of the constructor, then its own.

    Where there are none of its own, the constructor alone is called: it refuses what it is given before any text comes.
    """

    off = {"test_global_state_is_left_alone": "rule 3 is off for text"}
    simpler = smaller

    @classmethod
    def complete(cls) -> None:
        cls.signature = replace(cls.signature, inputs=("merges", "special_tokens", *cls.signature.inputs[1:]))
        super().complete()

    def answer(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Any:
        last = self.signature.inputs[-1]
        own = {name: value for name, value in kwargs.items() if name != last}
        kept = Callee(attempt, attempt.Tokenizer.keep(*args[:2], **own))
        if len(args) == 2 and not kwargs:
            return None
        return kept.method(self.name, *args[2:], **({last: kwargs[last]} if last in kwargs else {}))

    def words(self, args: Args, kwargs: Kwargs) -> str:
        made = [*map(shown, args[:2]), *(f"{name}={shown(value)}" for name, value in kwargs.items())]
        if len(args) + len(kwargs) == 2:
            return f"Tokenizer({', '.join(made)})"
        given = shown(args[2]) if len(args) > 2 else made.pop()
        return f"Tokenizer({', '.join(made)}).{self.name}({given})"


class TestEncode(TokenizerContract):
    name = "encode"
    oracle = encoded
    base = (((97, 98),), ("<s>",), "ab")
    claims = {
        "the pair learnt first is merged first": lambda d: [
            (CROSSING, (), "cabab bab aba"),
            (((98, 99), (97, 98)), (), "abc abab"),
            *random_calls(12, ("a", "b", "c", "ab", "ba", " ", "d"))(d),
        ],
        "all places are merged, from left to right": [
            (((97, 97),), (), "aaaaa"),
            (((97, 97), (256, 256)), (), "aaaaaaaaaaa aaa"),
            (((97, 97), (97, 256)), (), "aaaa aaa"),
            (((97, 98), (256, 256)), (), "abababab xabab"),
        ],
        "bytes are merged": [(((195, 169),), (), "éé è"), (((159, 153), (240, 256)), (), "🙂🙃"), ((), (), "漢é a")],
        "pairs never cross a piece": [
            (((97, 32), (32, 97), (97, 46), (50, 97), (97, 95)), (), "a a a. 2a a2 a.a a_a"),
            (((32, 32), (10, 10), (32, 97)), (), "a  a   a\n\na \n a  "),
        ],
        "a special token is its id": [
            (NESTED, ("<|end|>",), "abc<|end|> abc<|end|>"),
            (NESTED, ("<s>", "</s>", "<pad>"), "<s>abc</s><pad><pad> <s"),
            (NESTED, ("abc", "ab", "abcd"), "xabcdex abcdex abde"),
            (NESTED, ("ab", "bcd"), "abcd bcd"),
            (((32, 32), *NESTED[1:]), ("[S]", "|"), "word  [S]abc|abcS"),
            ((), ("<|end|>",), "<|end|>"),
        ],
        "without special tokens they are plain text": [(NESTED, (), "abc<|endoftext|>abc"), (NESTED, (), "<s>")],
        "merges may be lists": [([[98, 99], [97, 98]], ["<s>"], "abc<s>ab")],
    }
    edges = {
        "text may hold any character": random_calls(14),
        "special tokens may be any text": with_special,
        "a text may be empty": [(NESTED, (), ""), (NESTED, ("<s>",), ""), ((), (), "")],
        "every kind of white space": [
            (((97, 98),), ("<s>",), text)
            for kind in KINDS
            if kind.isspace()
            for text in (f"ab{kind}{kind}ab ab{kind}ab", kind, 3 * kind, f"<s>{kind}<s>")
        ],
    }
    refused = {
        "a merge that names an id that is not there yet is refused": {
            (((97, 98), (97, 257)), ()): (257,),
            (((97, 98), (300, 97)), ()): (300,),
            (((256, 97), (97, 98)), ()): (256,),
        },
        "a merge of a negative id is refused": {(((97, 98), (-1, 97)), ()): (-1,)},
        "a special token that is empty or repeated is refused": {
            (NESTED, ("<s>", "</s>", "<s>")): ("<s>",),
            (NESTED, ("<s>", "")): (),
        },
    }
    time_limit = 8.0

    @cached_property
    def timed(self) -> tuple:
        text = prose(random.Random(1), 100_000, 3000)
        return invented_merges(random.Random(1), text, 2000), (), text

    def picture(self, call: tuple, got: Any, exact: Any) -> list[Section]:
        """The text of both lists of ids, token by token."""
        merges, special, _ = call
        known = range(256 + len(merges) + len(special))
        if not isinstance(got, (list, tuple)) or not all(type(each) is int and each in known for each in got):
            return []
        mine, right = (" | ".join(decoded(merges, special, [each]) for each in ids) for ids in (got, exact))
        return [Section(Label.PATTERN, f"got {mine!r}, expected {right!r}")]

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        self.agrees(attempt, "nothing else does the work", (NESTED, (), prose(draw.random(), 2500, 90)))

    @robust
    def test_lists_that_it_is_given_are_left_as_they_were(self, attempt: Attempt) -> None:
        """The caller's list of special tokens is in another order from then on, and its places are their ids."""
        given = [*map(list, NESTED)], ["[S]", "<|end|>", "a", "<|end|><|end|>"]
        after = attempt.Tokenizer.ask(do="left_of", target="Tokenizer", args=given)["value"]
        for before, now in zip(given, after, strict=True):
            if before != now:
                fail("lists that the constructor is given are not modified", f"{shown(before)} became {shown(now)}")

    @robust
    def test_ids_that_were_changed_are_not_given_out_again(self, attempt: Attempt) -> None:
        """Who appends to the ids of a text, or pads them, changes those of the next text that has the same piece."""
        kept = Callee(attempt, attempt.Tokenizer.keep(NESTED, SPECIAL))
        for text in ("abc abc", "abc", "<|end|>", "ca"):
            staged = kept.stage(text)
            staged.overwrite_result(staged.go(method="encode"))
            ids = kept.method("encode", text)
            self.agrees(attempt, "ids that were changed are not given out again", (NESTED, SPECIAL, text), ids)

    @robust
    def test_one_tokenizer_serves_many_texts(self, attempt: Attempt, draw: Draw) -> None:
        """What it keeps of one text, a cache or a list, goes into the next; and what was encoded cannot be read."""
        pick = draw.random()
        kept = Callee(attempt, attempt.Tokenizer.keep(NESTED, SPECIAL))
        known = [mixed(pick, 30, (*KINDS, *SPECIAL)) for _ in range(6)]
        for text in [*known, "abc abc", "abc", *known, "abc abc"]:
            ids = kept.method("encode", text)
            self.agrees(attempt, "one tokenizer encodes many texts in turn", (NESTED, SPECIAL, text), ids)
            if (read := kept.method("decode", ids)) != text:
                fail("decode(encode(text)) is the text", f"of {text!r} it is {shown(read)}")


class TestDecode(TokenizerContract):
    name = "decode"
    oracle = decoded
    base = (((97, 98),), ("<s>",), [256])
    claims = {
        "the bytes of all ids are joined": [
            (NESTED, (), [97, 258, 260, 98]),
            ((), (), [240, 159, 153, 130, 226, 130, 172]),
            (((130, 172), (226, 256)), (), [226, 130, 172, 226, 256, 257]),
        ],
        "special tokens have the bytes of their text": [
            (NESTED, ("<s>", "é\n"), [264, 97, 265, 264, 258]),
            ((), ("<s>", "</s>"), [257, 256]),
        ],
    }
    edges = {
        "what is no UTF-8 is replaced": lambda d: [
            ((), ("<s>", "é"), [97, 255, 98, 226, 130, 256, 172, 240, 159, 257, 195]),
            ((), (), [237, 160, 128, 192, 128, 244, 144, 128, 128]),
            *random_ids(d),
        ],
        "there may be no ids": [(NESTED, (), [])],
        "nothing is stripped": [((), (), [239, 187, 191, 32, 0, 13, 10, 97, 32, 10])],
    }
    refused = {
        "an unknown id is refused": {
            (NESTED, (), (97, 265)): (265,),
            (NESTED, ("<s>", "</s>"), (97, 266)): (266,),
            ((), ("<s>",), (97, 257)): (257,),
        },
        "a negative id is refused": {(NESTED, ("<s>",), (-1, 97)): (-1,)},
    }
