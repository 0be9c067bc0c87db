"""What `generate` must give. The oracle takes each row alone and unpadded, the whole text anew for every token."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dojo.contracts import Attempt, Draw, GeneratorContract, Label, Section, bare, fail, fast, robust, tensor, too_much
from dojo.judge.protocol import Args, Kwargs, Message
from dojo.judge.worker.drivers import CausalModel
from dojo.verdict.mismatch import plain

APART = 1e-6  # by which the best logit beats the next one
STATES = 8
kept = lru_cache(maxsize=1 << 13)
Row = tuple[int, ...]


class Model(NamedTuple):
    """A model of random weights, for at most 40 positions."""

    seed: int
    vocab: int = 32


class Batch(NamedTuple):
    """A call: the prompts of `generate` as rows of ids, its mask as rows of 0 and 1."""

    model: Model
    ids: tuple[Row, ...]
    mask: tuple[Row, ...]
    most: int
    stops: Row
    pad: int

    @property
    def texts(self) -> list[Row]:
        return [row[len(row) - sum(real) :] for row, real in zip(self.ids, self.mask, strict=True)]

    @property
    def rows(self) -> list[Row]:
        """The new tokens of each, up to its end."""
        return [alone(self.model, text, self.most, self.stops) for text in self.texts]


@kept
def weights(model: Model) -> list[Tensor]:
    d = Draw(model.seed)
    output = d.normal(STATES, model.vocab)
    output = output / output.norm(dim=0)  # else few tokens win everywhere
    return [d.normal(model.vocab, STATES), d.normal(40, STATES), d.normal(3, STATES, STATES, scale=0.5), output]


@kept
@torch.no_grad()
def following(model: Model, text: Row) -> tuple[int, float]:
    """The token after a text, and by how much it is the best."""
    given = torch.tensor([text]), torch.arange(len(text))[None], torch.ones(1, len(text), dtype=torch.bool)
    best = CausalModel(weights(model))(*given)[0][0, -1].topk(2)
    return int(best.indices[0]), float(best.values[0] - best.values[1])


def alone(model: Model, prompt: Row, count: int, stops: Row) -> Row:
    text = prompt
    while len(text) < len(prompt) + count and (text == prompt or text[-1] not in stops):
        text += (following(model, text)[0],)
    return text[len(prompt) :]


def row_by_row(*call: Any) -> list[list[int]]:
    rows = Batch(*call).rows
    return [[*row, *[call[-1]] * (max(map(len, rows)) - len(row))] for row in rows]


def padded(model: Model, texts: list[Row], most: int, stops: Row, pad: int) -> Batch:
    widths = [max(map(len, texts)) - len(text) for text in texts]
    ids = tuple((pad,) * width + text for width, text in zip(widths, texts, strict=True))
    mask = tuple((0,) * width + (1,) * len(text) for width, text in zip(widths, texts, strict=True))
    return Batch(model, ids, mask, most, stops, pad)


def drawn(
    d: Draw, count: int = 3, most: int = 7, sizes: tuple[int, ...] = (2, 5, 3), ends: tuple[int, ...] = (),
    pad_is_a_token: bool = False, stop_in_a_prompt: bool = False,
) -> list[Batch]:  # fmt: skip
    """Batches whose choices are clear. Rows end at these places, each by a stop id of its own, and the others do not.

    The pad id is nowhere but in padding, or else the model emits it in row 0, and it stands in the prompt of row 1.
    """
    pick, found = d.random(), []
    while len(found) < count:
        model = Model(pick.getrandbits(30))
        texts = [tuple(pick.choices(range(model.vocab), k=size)) for size in pick.sample(sizes, len(sizes))]
        rows = [alone(model, text, most, ()) for text in texts]
        stops = tuple(row[place] for row, place in zip(rows, ends, strict=False))
        unseen = {*range(model.vocab)} - {token for each in (*texts, *rows) for token in each}
        pad = rows[0][1] if pad_is_a_token else min(unseen, default=-1)
        texts[1:2] = [(pad, *texts[1])] if pad_is_a_token else texts[1:2]
        call = padded(model, texts, most, (texts[0][0],) if stop_in_a_prompt else stops, pad)
        sizes_are = [len(row) for row in call.rows]
        wanted = [end + 1 for end in ends] + [most] * (len(texts) - len(ends))
        steps = [text + row[:n] for text, row in zip(texts, call.rows, strict=True) for n in range(len(row))]
        clear = pad >= 0 and all(following(model, each)[1] > APART for each in steps)
        if clear and (sizes_are[0] > 1 if stop_in_a_prompt else sizes_are == wanted):
            found.append(call)
    return found


def smaller(call: Args) -> Iterator[Batch]:
    """The same without a row, or with fewer tokens."""
    batch = Batch(*call)
    for n in range(len(batch.ids) if len(batch.ids) > 1 else 0):
        yield batch._replace(ids=batch.ids[:n] + batch.ids[n + 1 :], mask=batch.mask[:n] + batch.mask[n + 1 :])
    if batch.most > 1:
        yield batch._replace(most=batch.most - 1)


class TestGenerate(GeneratorContract):
    name = "generate"
    oracle = row_by_row
    simpler = smaller
    by_position = 1
    in_place = True
    holds = {
        "Padding": ("test_each_token", "test_a_prompt_may", "test_a_row_has"),
        "Pad id": ("test_the_pad_id",),
        "Stop ids": ("test_a_row_ends", "test_a_stop_id_in"),
        "Calls": ("test_the_prompt_goes",),
        "Cache": ("test_the_cache_may",),
        "Autograd": ("test_the_model_runs",),
    }
    claims = {
        "each token is the most probable one": lambda d: [*drawn(d, 2, sizes=(4, 4)), *drawn(d, 1, 1, sizes=(3, 3))],
        "a row has the tokens that it gets alone": drawn,
        "a row ends with its first stop id": lambda d: [*drawn(d, 2, ends=(1, 3, 5)), *drawn(d, 2, ends=(3, 1))],
        "a prompt may be one token": [padded(Model(1), [(3,), (1, 4, 1)], 3, (15,), 0)],
    }
    edges = {
        "the pad id may be a token like others": lambda d: drawn(d, 6, pad_is_a_token=True),
        "the pad id may be a stop id": lambda d: [
            call._replace(stops=(*call.stops, call.pad)) for call in drawn(d, 2, ends=(3, 1))
        ],
        "a stop id in a prompt ends nothing": lambda d: drawn(d, stop_in_a_prompt=True),
    }

    @classmethod
    def complete(cls) -> None:
        super().complete()
        cls.makes_tensor = False  # it is told as rows of ids: where it differs, and by the smallest batch

    def reply(self, attempt: Attempt, args: Args, kwargs: Kwargs, **more: Any) -> Message:
        """The worker's answer, which holds the calls of the model; they are kept by the batch."""
        batch = Batch(*args, *kwargs.values())
        ids, mask = (torch.tensor(rows, device=attempt.device) for rows in (batch.ids, batch.mask))
        values = (ids, mask.bool(), batch.most, [*batch.stops], batch.pad)
        given = dict(zip(self.signature.inputs[1:], values, strict=True))
        by_name = {name: given.pop(name) for name in kwargs}
        made = [each.to(attempt.device) for each in weights(batch.model)]
        asked = {"do": "decoded", "target": self.name, "model": made, "in_place": self.in_place}
        self.seen[batch] = attempt.generate.ask(**asked, args=[*given.values()], settings=by_name, **more)
        return self.seen[batch]

    @cached_property
    def seen(self) -> dict[Args, Message]:
        return {}

    def answer(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Any:
        tokens = tensor(super().answer(attempt, args, kwargs), attempt.device)
        if tokens.dtype is not torch.int64:
            fail("the new tokens are int64", f"got {bare(tokens.dtype)}", call=self.words(args, kwargs))
        return tokens.cpu().tolist()

    def words(self, args: Args, kwargs: Kwargs) -> str:
        names = zip(self.signature.inputs[1:], (*args, *kwargs.values())[1:], strict=True)
        return f"generate(model, {', '.join(f'{name}={plain.shown(value)}' for name, value in names)})"

    def picture(self, call: Args, got: Any, exact: Any) -> list[Section]:
        """The first call of the model in which a row that goes on has other positions, or another mask."""
        batch = Batch(*call)
        for number, told in enumerate(self.seen[batch]["calls"]):
            each = zip(batch.texts, batch.rows, batch.mask, told["positions"], told["mask"], strict=False)
            for row, (text, new, real, positions, visible) in enumerate(each):
                places = [len(text) + number - 1] if number else [*range(len(text))]
                mine = positions[-len(places) :], [*map(int, visible)]
                right = places, [*real, *[1] * number]
                for name, a, b in zip(("positions", "mask"), mine, right, strict=True) if number < len(new) else ():
                    if a != b:
                        where = f"in call {number} of the model, counted from 0, row {row} has the {name}"
                        return [Section(Label.PATTERN, f"{where} {a} where {b} are right")]
        return []

    @robust
    def test_the_cache_may_be_a_new_object(self, attempt: Attempt, draw: Draw) -> None:
        """Caches of compiled models come back as new ones: who keeps the first decodes from the prompt alone."""
        self.in_place = False
        for call in drawn(draw, 2):
            self.agrees(attempt, "the cache may be a new object", call)

    @robust
    def test_the_model_runs_without_autograd(self, attempt: Attempt) -> None:
        """The graph of each step is kept for a backward that never comes, and memory grows with every token."""
        calls = self.reply(attempt, self.base, {})["calls"]
        if with_grad := [number for number, each in enumerate(calls) if each["grad"]]:
            fail("the model runs without autograd", f"it is on in calls {with_grad}", call=self.words(self.base, {}))

    @fast
    def test_the_prompt_goes_in_one_call_then_one_token_a_call(self, attempt: Attempt, draw: Draw) -> None:
        for call in (self.base, *drawn(draw, 2, ends=(3, 1, 5))):
            count = len(self.answer(attempt, call, {})[0])
            widths = [len(each["positions"][0]) for each in self.seen[call]["calls"]]
            if widths != (expected := [len(call.ids[0]), *[1] * (count - 1)]):
                sentence = "the prompt goes in one call, then one token a row and call"
                too_much(sentence, f"{count} tokens took calls with {widths} tokens a row; {expected} are enough")
