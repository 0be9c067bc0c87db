"""What the mended decoding must do. The oracle feeds the whole text anew for each token, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Callee,
    CandidateTest,
    Contract,
    Draw,
    Fault,
    ModuleContract,
    core,
    fail,
    match,
    oracles,
    tensor,
)

APART = 2e-3  # how far draws and filters lie from any border, in probability
VOCAB, END = 11, 1
KEPT = ("test_values_match_the_definition", "test_holds_exactly_the_parameters_of_the_contract")
GIVEN = "the program is given: it is mended and not written"
OFF = {check: GIVEN for check in dir(ModuleContract) if check.startswith("test_")}
CUTS = ((7,), (4, 1, 1, 1), (2, 3, 2), (1,) * 7)
Rotate = Callable[[Tensor, float], Tensor]


def attention(attend: Callable[..., Tensor], rotate: Rotate) -> Callable[..., Tensor]:
    def formula(init: dict, params: dict, x: Tensor) -> Tensor:
        q, k, v = x.chunk(3, -1)
        return attend(rotate(q, 10000.0), rotate(k, 10000.0), v, oracles.causal(x.shape[1]))

    return formula


def model(attend: Callable[..., Tensor], rotate: Rotate) -> Callable[..., Tensor]:
    def formula(init: dict, params: dict, ids: Tensor) -> Tensor:
        x = params["embedding.weight"][ids]
        x = x + attention(attend, rotate)({}, {}, oracles.project(params, "qkv_proj", x))
        return oracles.project(params, "lm_head", x)

    return formula


WAYS = (
    (oracles.stage_by_stage, oracles.apply_rope_by_float32_angles),
    (oracles.normalised_last, oracles.apply_rope),
    (oracles.term_by_term, oracles.apply_rope_by_float32_angles),
)


@contextmanager
def told(text: str) -> Iterator[None]:
    """A context in which a fault also tells the input."""
    try:
        yield
    except Fault as fault:
        fault.failure.inputs.append(text)
        raise


class TestCache:
    holds = {"Cache": ("test_append",)}

    @core
    def test_append_gives_all_so_far_and_length_counts_them(self, attempt: Attempt, draw: Draw) -> None:
        cache = Callee(attempt, attempt.Cache.keep(9))
        k, v = draw.normal(2, 2, 7, 3)
        held = 0
        for new in (3, 1, 1, 2):
            before, held = held, held + new
            with told(f"{new} tokens appended to {before}"):
                parts = (each[:, before:held].to(attempt.device) for each in (k, v))
                got = cache.method("append", *parts)
                if not (isinstance(got, (tuple, list)) and len(got) == 2):
                    fail("append gives keys and values", f"got {got!r:.200}")
                for what, given, each in zip(("keys", "values"), got, (k, v), strict=True):
                    sentence = f"append gives the {what} of all tokens so far, oldest first"
                    match(tensor(given, attempt.device).cpu(), each[:, :held], None, sentence, "batch length dim")
                if (length := cache.read("length")) != held:
                    fail("length counts the tokens in the cache", f"got {length!r:.200} for {held} tokens")


class TestAttend(Contract):
    name = "attend"
    holds = {"Attention": ("test_however",)}
    oracle = attention(oracles.library, oracles.apply_rope)
    variants = tuple(attention(*ways) for ways in WAYS)
    off = OFF
    cases: dict = {"seven_tokens": {}}

    @classmethod
    def call(cls, d: Draw) -> Call:
        return Call({"x": d.normal(2, 7, 18)})

    @core
    def test_however_tokens_are_cut_into_calls_the_values_match_the_definition(
        self, attempt: Attempt, draw: Draw
    ) -> None:
        for cut in CUTS:
            call = self.call(draw)
            cache = attempt.Cache.keep(9)
            parts = call.inputs["x"].to(attempt.device).split(cut, dim=1)
            request = {"do": "call", "target": "attend", "kwargs": {}}
            with told(f"x (batch 2, seq 7, 3 * dim 18) in pieces of {', '.join(map(str, cut))} tokens"):
                asked = [(attempt.attend, request | {"args": (part, cache)}) for part in parts]
                got = [tensor(each["value"], attempt.device).cpu() for each in attempt.ask_each(asked)]
                expected = type(self).oracle({}, {}, x=call.inputs["x"].double()).split(cut, dim=1)
                budget = self.budget(draw, call, torch.float32)
                allowed = budget.allowed("result").split(cut, dim=1)
                for number, (mine, right, most) in enumerate(zip(got, expected, allowed, strict=True), 1):
                    sentence = f"the values match the definition: call {number} of {len(cut)} with one cache"
                    match(mine, right, most, sentence, "batch seq dim")


class TestModel(ModuleContract):
    name = "Model"
    holds = {"Draws": ("test_each_token",), "Prompts": ("test_rows",), "Ends": ("test_the_id",)}
    oracle = model(oracles.library, oracles.apply_rope)
    variants = tuple(model(*ways) for ways in WAYS)
    off = {check: why for check, why in OFF.items() if check not in KEPT}
    cases: dict = {"some_tokens": {}, "one_token": {"seq": 1}}

    @classmethod
    def call(cls, d: Draw, seq: int = 5) -> Call:
        init = {"vocab_size": VOCAB, "dim": 6}
        return Call({"ids": d.integers(0, VOCAB, 2, seq)}, init, cls.params(d, init, lm_head=2.0))

    @core
    def test_each_token_is_drawn_by_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        self.continues(attempt, draw, "warm", (1, 1, 1), temperature=1.7)
        self.continues(attempt, draw, "top_p", (2, 2, 2), top_p=0.6)
        self.continues(attempt, draw, "a_warm_nucleus", (2, 2, 2), temperature=2.0, top_p=0.7)

    @core
    def test_rows_of_unequal_length_are_written_as_each_alone(self, attempt: Attempt, draw: Draw) -> None:
        self.continues(attempt, draw, "rows of unequal length", (4, 1, 6, 2))

    @core
    def test_the_id_1_ends_a_row(self, attempt: Attempt, draw: Draw) -> None:
        self.continues(attempt, draw, "two rows that end", (3, 2, 3), ends={0: 2, 1: 0})

    def continues(self, attempt: Attempt, draw: Draw, case: str, lengths: tuple[int, ...], **settings: Any) -> None:
        """Rows are continued as the oracle continues them."""
        made, prompt, uniform, expected = planned(draw, lengths, **settings)
        settings.pop("ends", None)
        count = expected.shape[1]
        words = "".join(f", {name}={value}" for name, value in settings.items())
        module = self.ready(attempt, made)
        args = (module.target, prompt.to(attempt.device), count, uniform.to(attempt.device))
        request = {"do": "call", "target": "generate", "args": args, "kwargs": settings}
        short = [[round(u, 3) for u in row] for row in uniform.tolist()]
        with told(f"case `{case}`: prompt={prompt.tolist()}, n={count}, uniform={short}{words}"):
            got = tensor(attempt.ask_of([module], request)["value"], attempt.device).cpu()
            if got.dtype is not torch.int64:
                fail("ids are int64", f"got {got.dtype}")
            match(got, expected, None, "generate draws the tokens of the definition", "batch token")


def planned(
    d: Draw, lengths: tuple[int, ...], temperature: float = 1.0, top_p: float = 1.0, ends: dict[int, int] | None = None
) -> tuple[Call, Tensor, Tensor, Tensor]:
    """A model, a prompt, uniform numbers away from all borders, and the tokens that are then drawn."""
    n = 6
    while True:
        made = TestModel.call(d)
        params = {name: value.double() for name, value in made.params.items()}
        prompt = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
        uniform, expected = d.uniform(len(lengths), n), torch.zeros(len(lengths), n, dtype=torch.int64)
        for row, length in enumerate(lengths):
            prompt[row, :length] = d.integers(2, VOCAB, length)
            text, last = prompt[row, :length].tolist(), (ends or {}).get(row, n)
            for step in range(min(last + 1, n)):
                logits = TestModel.oracle({}, params, ids=torch.tensor([text]))[0, -1].tolist()
                drawn = _drawn(d, _chances(logits, temperature, top_p), step == last)
                if drawn is None:
                    break
                uniform[row, step], expected[row, step] = drawn
                text.append(int(drawn[1]))
        if all((line != 0).sum() == min((ends or {}).get(row, n) + 1, n) for row, line in enumerate(expected)):
            return made, prompt, uniform, expected


def _chances(logits: list[float], temperature: float, top_p: float) -> list[float] | None:
    """The probability of each id, None where a sum comes too near to top_p."""
    weights = [0.0, *(math.exp(each / temperature) for each in logits[1:])]
    probs = [each / math.fsum(weights) for each in weights]
    before = [math.fsum(other for other in probs if other > each) for each in probs]
    if top_p < 1 and any(abs(each - top_p) < APART for each in before):
        return None
    kept = [p if sum_before < top_p else 0.0 for p, sum_before in zip(probs, before, strict=True)]
    return [each / math.fsum(kept) for each in kept]


def _drawn(d: Draw, chances: list[float] | None, end: bool) -> tuple[float, int] | None:
    """A uniform number and the token that it draws, which ends the row or not as is asked for."""
    sums = [math.fsum(chances[: i + 1]) for i in range(VOCAB)] if chances else []
    for u in (round(u, 3) for u in (d.uniform(64).tolist() if sums else ())):
        token = next((i for i, each in enumerate(sums) if each > u), VOCAB)
        if token < VOCAB and (token == END) is end and min(abs(u - each) for each in [*sums, 1.0, 0.0]) > APART:
            return u, token
    return None


class Testtest(CandidateTest):
    planted = (
        "cache off by one",
        "positions counted from 0 in each call",
        "the token that crosses top-p dropped",
        "last logits of the padding",
    )
    but = ("no mask at all", "no temperature")  # others stand for them
