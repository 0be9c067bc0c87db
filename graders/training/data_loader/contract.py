"""What `DataLoader` must give. The oracle makes all batches from the first one on, token by token, in Python lists.

A call is a script, the stream and the constructor's other arguments. Of a script's words a number takes as many
batches, `save` keeps a state, `load` loads it into the loader that is running, `fresh` into a new one, and so does
`json` with its JSON. `iter` goes on with `iter(loader)`. `next` takes a batch, and `other` one of another loader: they
are not told.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dojo.contracts import Attempt, Callee, Draw, GeneratorContract, fail, fast, robust
from dojo.judge import protocol
from dojo.judge.protocol import Args, Kwargs, Message

TOLD: dict[int | str, str] = {
    1: "1 batch",
    "next": "1 batch",
    "other": "1 batch of another loader",
    "iter": "iter(loader)",
    "save": "state_dict()",
    "load": "load_state_dict(state)",
    "fresh": "a new loader, load_state_dict(state)",
    "json": "a new loader, load_state_dict(state) from JSON",
}


class Stream(NamedTuple):
    """Tokens that tell their places: `last`, and down to it by ones."""

    size: int
    dtype: str = "int64"
    last: int = 100

    def tokens(self) -> Tensor:
        dtype = getattr(torch, self.dtype)
        return torch.arange(self.last + self.size - 1, self.last - 1, -1).to(dtype)


Script = tuple[int | str, ...]
FILES = Stream(56, "uint8", 200), Stream(56, "uint16", 65_480), Stream(56, "int32", 100_000)


def all_batches(
    stream: Stream, batch_size: int, seq_len: int, seed: int, rank: int, world_size: int
) -> Iterator[dict[str, list]]:
    """By the definition, one token after the other."""
    text = stream.tokens().tolist()
    windows = [text[start : start + seq_len + 1] for start in range(0, len(text) - seq_len, seq_len)]
    for epoch in itertools.count():
        order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed + epoch)).tolist()
        for step in range(len(windows) // (batch_size * world_size)):
            places = [(step * batch_size + row) * world_size + rank for row in range(batch_size)]
            rows = [windows[order[place]] for place in places]
            yield {"inputs": [row[:-1] for row in rows], "labels": [row[1:] for row in rows]}


def told(
    script: Script, stream: Stream, batch_size: int, seq_len: int, seed: int, rank: int = 0, world_size: int = 1
) -> list[dict[str, list]]:
    at, saved, found = 0, 0, []
    for word in script:
        if isinstance(word, int):
            endless = all_batches(stream, batch_size, seq_len, seed, rank, world_size)
            found += itertools.islice(endless, at, at + word)
            at += word
        elif word == "save":
            saved = at
        elif word in ("load", "fresh", "json"):
            at = saved
    return found


def drawn(*script: int | str, count: int = 1, ranks: int = 1) -> Callable[[Draw], list[Args]]:
    """Calls of this script, in which `e` takes an epoch of batches, with windows of which some are left over."""

    def calls(d: Draw) -> list[Args]:
        pick, found = d.random(), []
        for number in range(count):
            batch, seq_len = pick.randint(2, 3), pick.randint(2, 4)
            steps = pick.randint(2, 3)
            size = (steps * batch * ranks + 1) * seq_len + 1 + number % 2 * pick.randrange(seq_len)
            words = tuple(steps if word == "e" else word for word in script)
            found.append((words, Stream(size), batch, seq_len, pick.randrange(1, 1000), pick.randrange(ranks), ranks))
        return found

    return calls


def resumed(d: Draw) -> Iterator[Args]:
    for script in ((0, "save", 2, "fresh", "e"), (1, "save", "e", "fresh", 2), ("e", "save", 1, "load", "e", 1)):
        yield from drawn(*script)(d)
    yield from drawn("e", 1, "save", "e", "load", 1, "fresh", "e", "e", count=3, ranks=2)(d)


def every_rank(d: Draw) -> Iterator[Args]:
    for ranks in (2, 3):
        for call in drawn("e", "e", "e", ranks=ranks)(d):
            yield from ((*call[:5], rank, ranks) for rank in range(ranks))


SMALL = Stream(17), 2, 2, 1, 0, 1


class TestDataLoader(GeneratorContract):
    name = "DataLoader"
    oracle = staticmethod(told)
    by_position = 2
    holds = {
        "Windows": ("test_labels_are", "test_it_is"),
        "Order": ("test_each_epoch", "test_each_rank"),
        "Resume": ("test_a_resumed",),
        "State": ("test_a_state",),
        "Side by side": ("test_loaders_by", "test_global_state"),
        "Storage": ("test_tokens_of", "test_the_stream"),
        "Cost": ("test_resuming_reads", "test_the_order", "test_time_stays"),
        "Errors": ("test_fewer", "test_a_rank"),
    }
    claims = {
        "labels are the inputs one token on, of every window": [
            *(((4,), Stream(size), 2, 5, 3) for size in (41, 42, 45, 46)),
            ((3,), Stream(2), 1, 1, 3),
        ],
        "each epoch has its own order, and drops what is left over": drawn("e", "e", "e", count=3),
        "it is an iterator": [(("iter", 3, "save", "fresh", 1), *SMALL)],
        "each rank has its share of the order": every_rank,
        "a resumed loader gives the batches that would have come next": resumed,
    }
    edges = {
        "a state survives JSON": drawn("e", 1, "save", 1, "json", "e"),
        "loaders by turns do not disturb each other": drawn(
            1, "other", "save", 1, "other", "e", "load", "other", 1, "fresh", "other", 2
        ),
        "tokens of other integer dtypes give int64": lambda d: [
            ((2, "save", "fresh", 1), stream, 2, 3, d.random().randrange(99), 1, 2) for stream in FILES
        ],
    }
    refused = {
        "fewer windows than a step of all ranks takes are refused": {
            (("next",), Stream(16), 2, 5, 0, 0, 2): ((3, 16), (2, 4)),
            (("next",), Stream(10), 2, 5, 0, 0, 1): ((1, 10), 2),
        },
        "a rank outside of 0 to world_size is refused": {
            (("next",), Stream(60), 2, 2, 0, 3, 3): (3,),
            (("next",), Stream(60), 2, 2, 0, -1, 2): (-1,),
        },
    }
    timed = (10,), Stream(1 << 16, "int32"), 8, 512, 5, 1, 4
    time_limit = 12.0

    @classmethod
    def complete(cls) -> None:
        cls.signature = replace(cls.signature, inputs=("script", *cls.signature.inputs))
        super().complete()

    @property
    def longest(self) -> tuple[str, Args]:
        return "it is an iterator", ((1, "save", 5, "fresh", 1), Stream(17), 1, 2, 5, 1, 2)

    def words(self, args: Args, kwargs: Kwargs) -> str:
        script, stream, *others = args
        seen = f"tokens {stream.last + stream.size - 1} down to {stream.last}"
        sizes = [*map(str, others), *(f"{name}={value}" for name, value in kwargs.items())]
        steps = ", ".join(TOLD.get(word, f"{word} batches") for word in script)
        return f"{self.name}({', '.join((seen, *sizes))}): {steps}"

    def answer(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Any:
        return self.reply(attempt, args, kwargs)["value"]

    def reply(self, attempt: Attempt, args: Args, kwargs: Kwargs, watch: bool = False) -> Message:
        """The batches that a script takes, as lists, and what of the global state its calls have changed."""
        script, stream, *others = args
        tokens, changed, found = stream.tokens(), [], []
        sizes = dict(zip(self.signature.inputs[2:], others, strict=False)) | kwargs
        shape = [sizes["batch_size"], sizes["seq_len"]]

        def ask(loader: Callee, method: str, *given: Any, times: int = 1) -> list[Any]:
            asked = {"do": "call", "target": loader.target, "method": method, "args": given, "kwargs": {}}
            if watch:
                asked |= {"watch": True, "watch_grad": False}
            answers = [*attempt.ask_each([(loader, dict(asked)) for _ in range(times)])]
            changed.extend(each for answer in answers for each in answer.get("changed", ()))
            return [answer["value"] for answer in answers]

        def made(*given: int) -> Callee:
            return Callee(attempt, attempt.DataLoader.keep(tokens, *given, **kwargs))

        loader, state = made(*others), protocol.Remote(0)
        second = made(*others[:2], 7, *others[3:]) if "other" in script else loader
        for word in script:
            if isinstance(word, int):
                found += [self.batch(each, attempt, shape) for each in ask(loader, "__next__", times=word)]
            elif word == "iter":
                loader = Callee(attempt, loader.stage().go(method="__iter__"))
            elif word in ("next", "other"):
                ask(second if word == "other" else loader, "__next__")
            elif word == "save":
                state = loader.stage().go(method="state_dict")
            else:
                if word == "json":
                    state = json.loads(self.text(loader.stage().fetch(state)))
                loader = loader if word == "load" else made(*others)
                ask(loader, "load_state_dict", state)
        return {"value": found, "changed": sorted(set(changed))}

    @staticmethod
    def batch(got: Any, attempt: Attempt, shape: list[int]) -> dict[str, list]:
        """A batch as lists. Raises Wrong where it is no pair of int64 tensors of the right shape."""
        sentence = "a batch is (inputs, labels), both int64 (batch_size, seq_len)"
        if not isinstance(got, (tuple, list)) or len(got) != 2 or not all(isinstance(each, Tensor) for each in got):
            fail(sentence, f"got a {type(got).__name__}")
        for each in got:
            if each.dtype is not torch.int64 or list(each.shape) != shape:
                fail(sentence, f"got {str(each.dtype).removeprefix('torch.')} {tuple(each.shape)}, not {tuple(shape)}")
        return {name: each.cpu().tolist() for name, each in zip(("inputs", "labels"), got, strict=True)}

    @staticmethod
    def text(state: Any) -> str:
        try:
            return json.dumps(state)
        except TypeError as error:
            fail("a state is plain numbers that survive JSON", f"TypeError: {error}")

    def kept(self, attempt: Attempt, stream: Stream, *sizes: int) -> Callee:
        return Callee(attempt, attempt.DataLoader.keep(stream.tokens(), *sizes))

    @robust
    def test_a_state_does_not_grow_with_the_stream(self, attempt: Attempt, draw: Draw) -> None:
        """A checkpoint holds the order of an epoch: gigabytes, on every rank."""
        sizes = []
        for windows in (10, 2000):
            loader = self.kept(attempt, Stream(2 * windows + 1), 2, 2, 1)
            loader.method("__next__")
            sizes.append(len(self.text(loader.method("state_dict"))))
        if sizes[1] > sizes[0] + 100:
            seen = f"{sizes[0]} characters of JSON with 10 windows, {sizes[1]} with 2,000"
            fail("the size of a state does not grow with the stream", seen)

    @robust
    def test_the_stream_is_neither_copied_nor_widened(self, attempt: Attempt, draw: Draw) -> None:
        """The stream is a file of terabytes: one copy of it, in int64 at that, and the machine is out of memory."""
        stream, observed = Stream(1 << 16, "uint16", 0), {"do": "observe", "watched": None}
        staged = attempt.DataLoader.stage(stream.tokens(), 2, 64, 1)
        inner = [{"do": "go", "target": self.name, "prepared": staged.arguments}]
        made = attempt.ask_of([], observed | {"inner": inner})
        inner = [{"do": "call", "target": made["value"], "method": "__next__", "args": (), "kwargs": {}}]
        used = attempt.ask_of([], observed | {"inner": inner})
        for when, answer in (("at construction", made), ("for a batch", used)):
            largest = max(answer["readings"]["made"].values(), default=0)
            if largest >= 2 * stream.size:
                seen = f"{when} a tensor of {largest} bytes is made, of a stream of {2 * stream.size}"
                fail("the stream is neither copied nor widened", seen)

    def used(self, attempt: Attempt, before: int, taken: int) -> dict[str, Any]:
        """Readings of a new loader that is given the state after so many batches, and then gives so many."""
        loader, fresh = (self.kept(attempt, Stream(4001), 2, 2, 1) for _ in range(2))
        request = {"do": "call", "target": loader.target, "method": "__next__", "args": (), "kwargs": {}}
        list(attempt.ask_each([(loader, dict(request)) for _ in range(before)]))
        request["target"] = fresh.target
        load = request | {"method": "load_state_dict", "args": (loader.method("state_dict"),)}
        asked = {"do": "observe", "inner": [load, *(dict(request) for _ in range(taken))], "watched": None}
        readings: dict[str, Any] = attempt.ask_of([], asked)["readings"]
        return readings

    @fast
    def test_resuming_reads_none_of_the_batches_that_it_skips(self, attempt: Attempt, draw: Draw) -> None:
        counts = [sum(self.used(attempt, before, 1)["operations"].values()) for before in (3, 53)]
        if counts[1] > counts[0] + 25:
            seen = f"{counts[0]} operations after 3 batches, {counts[1]} after 53"
            fail("resuming reads none of the batches that it skips", seen)

    @fast
    def test_the_order_of_an_epoch_is_made_once(self, attempt: Attempt, draw: Draw) -> None:
        counts = [self.used(attempt, 3, taken)["elements"] for taken in (1, 11)]
        if counts[1] > 5 * counts[0]:
            seen = f"1 batch of 2,000 windows makes tensors of {counts[0]} entries in all, 11 batches {counts[1]}"
            fail("the order of an epoch is made once", seen)
