"""What `decode` and `speculate` must give. The oracle goes row by row and token by token, in Python's own floats.

Numbers lie just inside of a token's share, so that another share draws another token, and choices are clear.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Draw,
    GeneratorContract,
    assert_constant_op_count,
    bare,
    fail,
    fast,
    half_precisions,
    operation_count,
    oracles,
    robust,
    tensor,
    too_much,
)
from dojo.judge.protocol import Args, Kwargs, Message
from dojo.judge.worker.drivers import SmallModel
from dojo.verdict.mismatch import plain

STATES, APART, INSIDE, NEARLY_ONE = 8, 1e-3, 0.06, 1 - 2.0**-24
kept = lru_cache(maxsize=1 << 13)
Row = tuple[int, ...]


class Model(NamedTuple):
    """A model of random weights. Ids outside of `first` and `last` are impossible; the two themselves are likely."""

    seed: int
    vocab: int = 24
    first: int | None = None
    last: int | None = None
    drift: float = 0.0  # how far a draft's weights are from those of the model of this seed
    dtype: torch.dtype = torch.float32


@kept
def weights(model: Model) -> list[Tensor]:
    d, other = Draw(model.seed), Draw(model.seed + 1)
    shapes = (model.vocab, STATES), (STATES, STATES), (STATES, model.vocab)
    made = [d.normal(*shape, scale=0.6) + other.normal(*shape, scale=model.drift) for shape in shapes]
    added = torch.zeros(model.vocab)
    if model.first is not None and model.last is not None:
        added[: model.first] = added[model.last + 1 :] = -torch.inf
        added[[model.first, model.last]] = 4.0
    return [*made, added]


@kept
@torch.no_grad()
def logits(model: Model, text: Row) -> list[float]:
    found: list[float] = SmallModel(weights(model), model.dtype)(torch.tensor([text]))[0, -1].tolist()
    return found


@kept
def shares(
    model: Model, text: Row, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> tuple[list[float], float]:
    """The probability of each token after a text, and how far the nearest choice of a filter is from its border."""
    x, apart = logits(model, text), 1.0
    order = sorted(range(len(x)), key=lambda i: -x[i])
    weight = [math.exp((each - x[order[0]]) / temperature) for each in x]
    if top_k is not None and top_k < len(x):
        apart = x[order[top_k - 1]] - x[order[top_k]]
        order = order[:top_k]
    if top_p is not None and top_p < 1:
        total = math.fsum(weight[i] for i in order)
        before = [math.fsum(weight[i] for i in order[:n]) / total for n in range(len(order))]
        apart = min(apart, *(abs(each - top_p) for each in before))
        order = [i for i, each in zip(order, before, strict=True) if each < top_p]
    total = math.fsum(weight[i] for i in order)
    return [weight[i] / total if i in {*order} else 0.0 for i in range(len(x))], apart


def number_for(pick: random.Random, share: list[float], token: int) -> float:
    """A number that draws this token, near an end of its share, as a float32."""
    at = math.fsum(share[:token]) + share[token] * pick.choice((INSIDE, 1 - INSIDE))
    return float(torch.tensor(at, dtype=torch.float32))


class Batch(NamedTuple):
    """A call of `decode`, with rows of ids and of numbers."""

    model: Model
    ids: tuple[Row, ...]
    max_new_tokens: int
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    uniforms: tuple[tuple[float, ...], ...] | None = None
    stop_id: int | None = None
    pad_id: int = 0

    @property
    def filters(self) -> tuple[float, int | None, float | None]:
        return self.temperature, self.top_k, self.top_p

    def row(self, number: int) -> Row:
        """The new tokens of a row, up to its end."""
        text = start = self.ids[number]
        while len(text) < len(start) + self.max_new_tokens and (text == start or text[-1] != self.stop_id):
            if self.uniforms is None or self.temperature == 0:
                x = logits(self.model, text)
                text += (x.index(max(x)),)
            else:
                share, _ = shares(self.model, text, *self.filters)
                text += (oracles.drawn(share, self.uniforms[number][len(text) - len(start)]),)
        return text[len(start) :]


def row_by_row(*call: Any) -> list[list[int]]:
    batch = Batch(*call)
    rows = [batch.row(number) for number in range(len(batch.ids))]
    return [[*row, *[batch.pad_id] * (max(map(len, rows)) - len(row))] for row in rows]


def drawn(
    d: Draw, count: int = 2, rows: int = 3, seq: int = 4, most: int = 6, vocab: int = 24,
    dtype: torch.dtype = torch.float32, least: float = 0.02, rarest: bool = False, greedy: bool = False,
    planned: dict[tuple[int, int], str] | None = None, prompt: str = "", pad_stops: bool = False,
    stop_is_0: bool = False, **filters: Any,
) -> list[Batch]:  # fmt: skip
    """Batches whose choices are clear. Tokens with a share of `least` come up, or the rarest of those that are kept.

    `planned` says by row and step where the stop id or the pad id comes up, which else do not; `prompt` is one that
    every prompt holds.
    """
    pick, found = d.random(), list[Batch]()

    def token_after(batch: Batch, text: Row, name: str) -> tuple[int, float] | None:
        """A token and a number that draws it; None where nothing is clear."""
        share, apart = shares(batch.model, text, *(batch.filters if batch.temperature else ()))
        special = {"stop": batch.stop_id, "pad": batch.pad_id} if planned is not None else {}
        fit = [i for i, each in enumerate(share) if each >= least and i not in special.values()]
        if name:
            fit = [special[name]] if share[special[name]] >= least else []
        if greedy:
            best, other = sorted(logits(batch.model, text))[:-3:-1]
            fit = [i for i in fit if logits(batch.model, text)[i] == best and best - other > APART]
        if not fit or apart < APART:
            return None
        token = min(fit, key=lambda i: share[i]) if rarest else pick.choice(fit)
        return token, 0.5 if greedy else number_for(pick, share, token)

    while len(found) < count:
        stop, pad, *others = sorted(pick.sample(range(vocab), vocab), key=lambda i: i > 0 or not stop_is_0)
        batch = Batch(Model(pick.getrandbits(30), vocab, dtype=dtype), (), most, **filters)
        if planned is not None:
            batch = batch._replace(stop_id=stop, pad_id=stop if pad_stops else pad)
        ids = [[*pick.choices(others, k=seq)] for _ in range(rows)]
        for row in ids if prompt else ():
            row[pick.randrange(seq)] = {"stop": stop, "pad": pad}[prompt]
        numbers = []
        for number, text in enumerate(map(tuple, ids)):
            chain, ended = [], False
            for step in range(most):
                name = (planned or {}).get((number, step), "")
                made = (0, pick.random()) if ended else token_after(batch, text, name)
                if made is None:
                    break
                ended, text = ended or name == "stop", (*text, made[0])
                chain.append(made[1])
            if len(chain) < most:
                break
            numbers.append(tuple(chain))
        if len(numbers) == rows:
            given = None if greedy and batch.temperature else tuple(numbers)
            found.append(batch._replace(ids=tuple(map(tuple, ids)), uniforms=given))
    return found


def sharp(seed: int) -> Batch:
    """A draw by 0 of id 0, which is possible, and so rare that the others sum to 1 in float32."""
    model, ids = Model(seed), (1, 2)
    x = logits(model, ids)
    return Batch(model, (ids,), 1, max(0.01, (max(x) - x[0]) / 40), None, 1.0, ((0.0,),))


def fewer(call: Args) -> Iterator[Batch]:
    """The same without a row, or with fewer tokens."""
    batch = Batch(*call)
    for n in range(len(batch.ids) if len(batch.ids) > 1 else 0):
        numbers = batch.uniforms and batch.uniforms[:n] + batch.uniforms[n + 1 :]
        yield batch._replace(ids=batch.ids[:n] + batch.ids[n + 1 :], uniforms=numbers)
    if batch.max_new_tokens > 1:
        numbers = batch.uniforms and tuple(row[:-1] for row in batch.uniforms)
        yield batch._replace(max_new_tokens=batch.max_new_tokens - 1, uniforms=numbers)


class ModelledContract(GeneratorContract):
    """What takes models, tensors of ids and of numbers, and plain values, and gives rows of ids."""

    kind: Callable[..., Any]
    models: int = 1

    def given(self, call: Args, by_name: int = 0) -> tuple[Args, Kwargs]:
        """What the first stage takes comes by position; of what later ones brought, all that is no default, by name."""
        args, defaults = call[: self.signature.required - by_name], self.signature.defaults
        rest = zip(self.signature.inputs[len(args) :], call[len(args) :], strict=False)
        return args, {name: value for name, value in rest if name not in defaults or value != defaults[name]}

    def request(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Message:
        """What the worker is asked for."""

        def sent(value: Any) -> Any:
            return torch.tensor(value, device=attempt.device) if isinstance(value, tuple) else value

        asked = self.kind(*args, **kwargs)
        models = [[each.to(attempt.device) for each in weights(model)] for model in asked[: self.models]]
        settings = {name: sent(value) for name, value in kwargs.items()}
        asked = {"do": "modelled", "target": self.name, "models": models, "dtype": asked.model.dtype}
        return asked | {"args": [sent(value) for value in args[self.models :]], "settings": settings}

    def reply(self, attempt: Attempt, args: Args, kwargs: Kwargs, **more: Any) -> Message:
        found: Message = getattr(attempt, self.name).ask(**self.request(attempt, args, kwargs), **more)
        return found

    def answer(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Any:
        tokens = tensor(super().answer(attempt, args, kwargs), attempt.device)
        if tokens.dtype is not torch.int64:
            fail("the new tokens are int64", f"got {bare(tokens.dtype)}", call=self.words(args, kwargs))
        return tokens.cpu().tolist()

    def words(self, args: Args, kwargs: Kwargs) -> str:
        names = self.signature.inputs[self.models : len(args)]
        told = [*zip(names, args[self.models :], strict=True), *kwargs.items()]
        models = ", ".join(self.signature.inputs[: self.models])
        return f"{self.name}({models}, {', '.join(f'{name}={plain.shown(value)}' for name, value in told)})"

    def calls(self, attempt: Attempt, call: Args) -> list[list[Message]]:
        """The calls of each model."""
        found: list[list[Message]] = self.reply(attempt, *self.given(call))["calls"]
        return found

    def runs_without_autograd(self, attempt: Attempt, call: Args) -> None:
        for name, calls in zip(self.signature.inputs, self.calls(attempt, call), strict=False):
            if on := [number for number, each in enumerate(calls) if each["grad"]]:
                fail(f"the {name} runs without autograd", f"it is on in calls {on}", call=self.words(*self.given(call)))


class DecodeContract(ModelledContract):
    name = "decode"
    kind = Batch
    oracle = row_by_row
    simpler = fewer
    claims = {}


LATER = {
    "test_arguments_may_be_given_by_name": "what a stage brings is given by name in each of its checks",
    "test_global_state_is_left_alone": "stage 1 has it",
}


class TestGreedy(DecodeContract):
    stage = 1
    by_position = 1
    holds = {
        "Result": ("test_each_token", "test_a_prompt_may", "test_none", "test_the_prompts"),
        "Graph": ("test_the_model_runs",),
        "Cost": ("test_each_token_takes",),
    }
    claims = {
        "each token is the most probable one": lambda d: drawn(d, greedy=True),
        "a prompt may be one token": [(Model(1), ((3,), (5,)), 3)],
    }
    edges = {"none are given where none are asked for": [(Model(1), ((3, 1), (5, 2)), 0)]}

    @robust
    def test_the_prompts_are_left_as_they_were(self, attempt: Attempt, draw: Draw) -> None:
        """The caller's prompt grows, or changes, while it is continued a second time."""
        call = drawn(draw, 1, greedy=True)[0]
        left = self.reply(attempt, *self.given(call))["given"][0].tolist()
        if left != [*map(list, call.ids)]:
            fail("the prompts are left as they were", f"they are {left} now", call=self.words(*self.given(call)))

    @robust
    def test_the_model_runs_without_autograd(self, attempt: Attempt) -> None:
        """The graph of each step is kept for a backward that never comes, and memory grows with every token."""
        self.runs_without_autograd(attempt, self.base)

    @fast
    def test_each_token_takes_one_call_of_the_model(self, attempt: Attempt, draw: Draw) -> None:
        (call,) = drawn(draw, 1, greedy=True)
        if len(calls := self.calls(attempt, call)[0]) > call.max_new_tokens:
            seen = f"{call.max_new_tokens} tokens a row took {len(calls)} calls, the first with ids {calls[0]['shape']}"
            too_much("each token takes one call of the model, for the whole batch", seen)


class TestSampling(DecodeContract):
    stage = 2
    off = LATER
    holds = {
        "Greedy": ("test_temperature_0",),
        "Order": ("test_top_k", "test_each_filter"),
        "Crossing token": ("test_the_token", "test_the_most", "test_top_p_of_1"),
        "Draw": ("test_each_token", "test_temperature_divides", "test_the_ends"),
        "Half precision": ("test_probabilities",),
        "Cost": ("test_operation_count",),
    }
    claims = {
        "each token is drawn by its number": drawn,
        "temperature divides the logits": lambda d: [*drawn(d, temperature=0.6), *drawn(d, temperature=1.8)],
        "top-k keeps k tokens": lambda d: [*drawn(d, top_k=3), *drawn(d, 1, top_k=3, rarest=True)],
        "the token that crosses top-p stays": lambda d: [*drawn(d, 1, top_p=0.6), *drawn(d, top_p=0.6, rarest=True)],
        "the most probable token stays": lambda d: drawn(d, most=1, top_p=0.02),
        "temperature 0 is greedy": lambda d: drawn(d, 1, greedy=True, temperature=0.0),
    }
    edges = {
        "each filter works on what the one before has left": lambda d: [
            *drawn(d, temperature=2.0, top_k=5), *drawn(d, 3, temperature=2.0, top_p=0.6, rarest=True),
            *drawn(d, 3, temperature=0.5, top_p=0.6), *drawn(d, 3, top_k=4, top_p=0.7, rarest=True),
            *drawn(d, temperature=1.5, top_k=6, top_p=0.8),
        ],
        "top-k may exceed the vocabulary": lambda d: drawn(d, 1, top_k=100),
        "top-p of 1 keeps every token": lambda d: [sharp(d.random().getrandbits(30) + n) for n in range(30)],
    }  # fmt: skip

    @robust
    def test_the_ends_draw_a_token_of_positive_probability(self, attempt: Attempt, draw: Draw) -> None:
        """Once in millions of tokens one comes that the model bans, or an id one after the vocabulary."""
        pick = draw.random()
        for number in (0.0, NEARLY_ONE):
            for _ in range(3):
                model = Model(pick.getrandbits(30), 600, pick.randrange(3, 9), 600 - pick.randrange(3, 9))
                ids = tuple((pick.randrange(600), pick.randrange(600)) for _ in range(12))
                call = Batch(model, ids, 1, uniforms=((number,),) * 12)
                self.agrees(attempt, f"a number of {number:.8f} draws a token of positive probability", call)

    @robust
    @half_precisions
    def test_probabilities_are_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """With 8 bits a running sum stands still long before the end of the vocabulary, and late ids never come."""
        for call in drawn(draw, vocab=300, dtype=dtype, least=0.002):
            self.agrees(attempt, "probabilities are float32 where logits are in half precision", call)

    @fast
    def test_operation_count_does_not_grow_with_rows_or_vocabulary(self, attempt: Attempt) -> None:
        def count(rows: int, vocab: int) -> int:
            numbers = tuple((0.3 + 0.4 * row / rows,) * 2 for row in range(rows))
            call = Batch(Model(5, vocab), tuple((row % 9, 3) for row in range(rows)), 2, 0.9, 6, 0.8, numbers)
            request = self.request(attempt, *self.given(call))
            asked = {"do": "observe", "inner": [request], "watched": []}
            return operation_count(attempt.ask_of([], asked)["readings"])

        assert_constant_op_count("rows", (4, 40), lambda size: count(size, 24))
        assert_constant_op_count("the vocabulary", (16, 160), lambda size: count(4, size))


class TestStop(DecodeContract):
    stage = 3
    off = LATER
    holds = {
        "Stop": ("test_a_row_ends", "test_greedy_rows", "test_the_stop_id", "test_a_stop_id_in"),
        "After": ("test_the_pad_id",),
        "End": ("test_all_rows", "test_the_model_is_not"),
        "Uniforms": ("test_numbers",),
    }
    claims = {
        "a row ends with its first stop id": lambda d: drawn(d, planned={(0, 1): "stop"}),
        "greedy rows end too": lambda d: [
            call._replace(stop_id=row_by_row(*call)[0][1], pad_id=23) for call in drawn(d, 3, greedy=True)
        ],
        "all rows end with the longest": lambda d: drawn(
            d, planned={(0, 1): "stop", (1, 3): "stop", (2, 2): "stop"}, temperature=1.5
        ),
        "numbers go by row and step": lambda d: drawn(d, rows=4, planned={(0, 0): "stop", (2, 2): "stop"}),
    }
    edges = {
        "the pad id may be a token like others": lambda d: drawn(
            d, planned={(0, 0): "pad", (1, 1): "stop", (0, 3): "stop"}, prompt="pad", temperature=1.5
        ),
        "the stop id may be 0": lambda d: drawn(d, planned={(0, 1): "stop"}, stop_is_0=True),
        "the pad id may be the stop id": lambda d: drawn(d, planned={(0, 1): "stop", (1, 3): "stop"}, pad_stops=True),
        "a stop id in a prompt ends nothing": lambda d: drawn(d, planned={(1, 2): "stop"}, prompt="stop"),
    }

    @fast
    def test_the_model_is_not_called_once_all_rows_have_ended(self, attempt: Attempt, draw: Draw) -> None:
        (call,) = drawn(draw, 1, planned={(0, 1): "stop", (1, 0): "stop", (2, 2): "stop"}, temperature=1.5)
        if (count := len(self.calls(attempt, call)[0])) > 3:
            too_much("the model is not called once all rows have ended", f"3 tokens took {count} calls")


class Round(NamedTuple):
    """A call of `speculate`."""

    model: Model
    draft: Model
    ids: tuple[Row]
    k: int
    accept_uniforms: tuple[float, ...]
    draw_uniforms: tuple[float, ...]


def place_by_place(*call: Any) -> list[list[int]]:
    asked = Round(*call)
    (text,) = asked.ids
    q = []
    for number in asked.draw_uniforms[:-1]:
        q.append(shares(asked.draft, text)[0])
        text += (oracles.drawn(q[-1], number),)
    start, last = len(asked.ids[0]), asked.draw_uniforms[-1]
    for place, token in enumerate(text[start:]):
        p, _ = shares(asked.model, text[: start + place])
        if not asked.accept_uniforms[place] * q[place][token] < p[token]:
            return [[*text[start : start + place], oracles.drawn(beyond(p, q[place]), last)]]
    return [[*text[start:], oracles.drawn(shares(asked.model, text)[0], last)]]


def beyond(p: list[float], q: list[float]) -> list[float]:
    """What p has beyond q, in shares of it."""
    found = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
    total = math.fsum(found) or 1.0
    return [each / total for each in found]


def rounds(
    d: Draw, accepted: tuple[int, ...], k: int = 4, drift: float = 0.35, vocab: int = 24,
    dtype: torch.dtype = torch.float32, least: float = 0.02,
) -> list[Round]:  # fmt: skip
    """A round for each number of accepted draft tokens, its numbers near borders. Those after a rejection would fit."""
    pick, found = d.random(), list[Round]()
    while len(found) < len(accepted):
        count, chain = accepted[len(found)], list[tuple[float, float]]()
        model = Model(pick.getrandbits(30), vocab, dtype=dtype)
        draft = model._replace(drift=drift)
        text = start = tuple(pick.choices(range(vocab), k=3))
        for place in range(k):
            (p, _), (q, _) = shares(model, text), shares(draft, text)
            rejected = place == count
            fit = [i for i, each in enumerate(q) if each >= least and (p[i] < 0.7 * each or not rejected)]
            if not fit:
                break
            token = pick.choice(fit)
            ratio = min(1.0, p[token] / q[token])
            number = ratio + (1 - ratio) * INSIDE if rejected else ratio * (1 - INSIDE if place < count else INSIDE)
            chain.append((float(torch.tensor(number)), number_for(pick, q, token)))
            text += (token,)
        if len(chain) < k:
            continue
        p, q = (shares(each, text[: len(start) + count])[0] for each in (model, draft))
        rest = beyond(p, q) if count < k else p
        last = number_for(pick, rest, pick.choice([i for i, each in enumerate(rest) if each >= least]))
        accept, numbers = zip(*chain, strict=True)
        found.append(Round(model, draft, (start,), k, accept, (*numbers, last)))
    return found


class TestSpeculate(ModelledContract):
    stage = 4
    name = "speculate"
    kind = Round
    models = by_position = 2
    oracle = place_by_place
    holds = {
        "Acceptance": ("test_draft_tokens", "test_two_draft", "test_a_draft_by"),
        "Rejection": ("test_the_first_rejected", "test_one_draft"),
        "All accepted": ("test_one_more",),
        "Zero": ("test_what_the_model",),
        "Half precision": ("test_probabilities",),
        "Graph": ("test_both_models",),
        "Calls": ("test_one_round",),
    }
    claims = {
        "draft tokens are accepted up to the first that is not": lambda d: rounds(d, (1, 2, 3, 2, 1)),
        "the first rejected token is replaced": lambda d: rounds(d, (0,) * 5),
        "one more token follows where all are accepted": lambda d: rounds(d, (4, 4, 4)),
        "one draft token may be enough": lambda d: rounds(d, (0, 1), k=1),
        "a draft by the model itself is accepted": lambda d: [
            each._replace(accept_uniforms=(0.999,) * 4) for each in rounds(d, (4, 4), drift=0.0)
        ],
        "two draft tokens are checked": [
            (Model(1), Model(1, drift=0.3), ((3, 1),), 2, (0.25, 0.5), (0.125, 0.625, 0.25)),
        ],
    }  # fmt: skip

    @robust
    def test_what_the_model_never_says_is_never_taken(self, attempt: Attempt, draw: Draw) -> None:
        """Once in millions of rounds a banned token comes through, or an id one after the vocabulary."""
        pick = draw.random()
        for last in (0.0, NEARLY_ONE) * 8:
            model = Model(pick.getrandbits(30), 600, pick.randrange(3, 9), 600 - pick.randrange(3, 9))
            draft = Model(pick.getrandbits(30), 600, 0, 599)  # an id that the model bans is the first, and the last
            call = Round(model, draft, ((1, 2),), 1, (0.0,), (pick.choice((0.0, NEARLY_ONE)), last))
            self.agrees(attempt, f"a draft that is never said, and a number of {last:.8f}", call)

    @robust
    @half_precisions
    def test_probabilities_are_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """Rounded probabilities accept other tokens, and text of the large model alone is written no more."""
        for call in rounds(draw, (4, 0, 2, 4), vocab=300, dtype=dtype, least=0.002):
            self.agrees(attempt, "probabilities are float32 where logits are in half precision", call)

    @robust
    def test_both_models_run_without_autograd(self, attempt: Attempt) -> None:
        """The graphs of k + 1 calls are alive at once, for a backward that never comes."""
        self.runs_without_autograd(attempt, self.base)

    @fast
    def test_one_round_takes_one_call_of_the_model(self, attempt: Attempt, draw: Draw) -> None:
        for call in rounds(draw, (4, 1)):
            counts = [len(calls) for calls in self.calls(attempt, call)]
            if counts[0] > 1 or counts[1] > call.k:
                seen = f"the model was called {counts[0]} times, the draft {counts[1]} times"
                too_much(f"one round takes one call of the model, and {call.k} of the draft", seen)
