"""What the search must find. The oracles take it at its word, or list every text; margins decide each choice."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dojo.contracts import Attempt, Draw, GeneratorContract, fast, noting, too_much
from dojo.judge.worker.drivers import next_token_logprobs

APART = 1e-3  # by which sums and scores differ where a choice hangs on them
WIDE = 1000  # wider than all texts are many
STATES = 6
NEVER = -1e9  # a logit that means -inf
kept = lru_cache(maxsize=1 << 14)


class Model(NamedTuple):
    """A model of random weights, in which every token of the prefix counts; `end` is added to the logit of `eos`."""

    seed: int
    vocab: int
    eos: int
    end: float = 0.0
    banned: tuple[int, ...] = ()


class Table(NamedTuple):
    """A model of the last token alone: a row of probabilities for each."""

    rows: tuple[tuple[float, ...], ...]

    @property
    def vocab(self) -> int:
        return len(self.rows)


Tokens = tuple[int, ...]
Hypothesis = tuple[Tokens, float]
Search = tuple  # (model, prompt, beam_width, max_new_tokens, eos_id) and, if given, length_penalty


@kept
def tensors(model: Model | Table) -> list[Tensor]:
    """The three tensors that the judge's `step` takes."""
    if isinstance(model, Table):
        size, rows = model.vocab, torch.tensor(model.rows, dtype=torch.float64)
        logits = rows.log().masked_fill(rows == 0, NEVER)
        return [40 * torch.eye(size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64), logits]
    d, size = Draw(model.seed), max(9, model.vocab)  # a smaller vocabulary is a part of the larger one
    embedding, recurrence = d.normal(size, STATES, scale=1.5), d.normal(STATES, STATES)
    output = d.normal(STATES, size, scale=1.3)
    embedding[:, 0], recurrence[:, 0] = 20.0, 0.0  # the first state is 1 at any time
    output[0, model.eos] += model.end
    output[0, list(model.banned)] = NEVER
    return [embedding[: model.vocab], recurrence, output[:, : model.vocab].contiguous()]


@kept
def extended(model: Model | Table, prompt: Tokens, hypothesis: Hypothesis) -> list[Hypothesis]:
    """The possible texts of one token more."""
    tokens, total = hypothesis
    each = next_token_logprobs(tensors(model), (*prompt, *tokens)).tolist()
    return [((*tokens, token), total + more) for token, more in enumerate(each) if more != -math.inf]


def value(pair: Hypothesis) -> float:
    return pair[1]


@kept
def rounds(
    model: Any, prompt: Tokens, width: int, count: int, eos: int, penalty: float = 0.0
) -> list[tuple[list[Hypothesis], float]]:
    """The beam after each round, the first being the start, and by how much the worst of it beats the next one.

    A penalty is one inside the search, where it does not belong.
    """

    def order(each: Hypothesis) -> float:
        return each[1] / math.pow(len(each[0]), penalty)

    found: list[tuple[list[Hypothesis], float]] = [([((), 0.0)], math.inf)]
    while len(found) <= count and any(tokens[-1:] != (eos,) for tokens, _ in found[-1][0]):
        stay = [each for each in found[-1][0] if each[0][-1:] == (eos,)]
        live = [each for each in found[-1][0] if each[0][-1:] != (eos,)]
        more = itertools.chain(stay, *(extended(model, prompt, each) for each in live))
        best = heapq.nlargest(width + 1, more, key=order)
        found.append((best[:width], best[width - 1][1] - best[width][1] if len(best) > width else math.inf))
    return found


def leaving(model: Any, prompt: Tokens, width: int, count: int, eos: int, penalty: float, early: bool) -> list[tuple]:
    """Finished texts leave the beam: until they are `width`, as in whisper, or to the end, as in transformers."""
    live: list[Hypothesis] = [((), 0.0)]
    done: list[Hypothesis] = []
    for _ in range(count):
        every = itertools.chain(*(extended(model, prompt, each) for each in live))
        best = heapq.nlargest(2 * width, every, key=value)
        live = [each for each in best if each[0][-1] != eos][:width]
        last = live[-1][1] if early and live else -math.inf
        done += [each for n, each in enumerate(best) if each[0][-1] == eos and (each[1] > last if early else n < width)]
        if early and len(done) >= width:
            break
    done = done[:width] + live[: max(0, width - len(done))] if early else done + live
    return ranked(done, width, penalty)


def ranked(found: list[Hypothesis], width: int, penalty: float) -> list[tuple]:
    scored = [(list(tokens), total / math.pow(len(tokens), penalty)) for tokens, total in found]
    return heapq.nlargest(width, scored, key=value)


def texts(model: Any, prompt: Tokens, count: int, eos: int) -> Iterator[Hypothesis]:
    """Every text and its sum."""
    live: list[Hypothesis] = [((), 0.0)]
    for number in range(count):
        every = [text for each in live for text in extended(model, prompt, each)]
        live = [each for each in every if each[0][-1] != eos]
        yield from every if number == count - 1 else (each for each in every if each[0][-1] == eos)


def search(model: Any, prompt: Tokens, width: int, count: int, eos: int, penalty: float = 0.0) -> list[tuple]:
    """By the definition; of all texts, where the beam has room for them."""
    last = list(texts(model, prompt, count, eos)) if width == WIDE else rounds(model, prompt, width, count, eos)[-1][0]
    return ranked(last, width, penalty)


@kept
def clear(call: Search) -> bool:
    """Whether all choices are safe in float32."""
    gaps = [gap for _, gap in rounds(*call[:5])] if call[2] < WIDE else []
    scores = [score for _, score in search(*call)]
    return all(gap >= APART for gap in (*gaps, *(a - b for a, b in itertools.pairwise(scores))))


def drawn(
    d: Draw, count: int = 4, width: int = 3, most: int = 4, end: float = 0.0, penalty: float = 0.0, vocab: int = 8,
    banned: int = 0, last: bool = False, agreed: bool = False, plain: bool = False,
) -> list[Search]:  # fmt: skip
    """Searches whose choices are clear. With `last` the prompt ends in the end token; `agreed` by both schools.

    Of `plain` ones a penalty inside the search would change the result.
    """
    pick, found = d.random(), []
    while len(found) < count:
        eos = pick.randrange(4)
        others = [token for token in range(vocab) if token != eos]
        prompt = [pick.choice([token for token in range(4) if token != eos]) for _ in range(pick.randint(1, 4))]
        model = Model(pick.getrandbits(30), vocab, eos, end, tuple(sorted(pick.sample(others, banned))))
        call = (model, (*prompt, eos) if last else tuple(prompt), width, most, eos, penalty)
        if agreed and any(leaving(*call, early) != search(*call) for early in (True, False)):
            continue
        if plain and ranked(rounds(*call)[-1][0], width, penalty) == search(*call):
            continue
        if clear(call) and (not agreed or any(tokens[-1] == eos for tokens, _ in search(*call))):
            found.append(call)
    return found


EXAMPLE = Table(((0, 0.6, 0.4, 0, 0), (0, 0, 0, 0.55, 0.45), (0, 0, 0, 0.1, 0.9), *((0, 0, 0, 1, 0),) * 2))
ENDS = Table(((0, 0.7, 0.3), (0, 0, 0), (0.4, 0.6, 0)))  # nothing comes after token 1
SOON = Table(((0, 0), (0.6, 0.4))), (1,), 2, 6, 0, 0.0  # all are finished after two rounds of six


class TestBeamSearch(GeneratorContract):
    name = "beam_search"
    oracle = search
    relative = absolute = 1e-5
    by_position = 1
    holds = {
        "Candidates": ("test_the_best_of", "test_a_wider", "test_a_beam_of"),
        "Finished texts": ("test_finished_texts", "test_nothing_follows"),
        "Impossible tokens": ("test_what_is_impossible", "test_a_beam_wider"),
        "Prompt": ("test_a_prompt_that", "test_scores_are"),
        "Cost": ("test_step_is_called", "test_time_stays"),
    }
    claims = {
        "a wider beam finds what a greedy search misses": [(EXAMPLE, (0,), n, 2, 0, 0.0) for n in (1, 2)],
        "the best of all candidates stay": lambda d: [
            *(each for width in (2, 3, 5) for each in drawn(d, 2, width, end=NEVER)),
            *drawn(d, 2, 3, most=1),
        ],
        "a beam of one is greedy search": lambda d: drawn(d, 3, 1, most=6, end=0.5),
        "nothing follows the end token": lambda d: [
            *drawn(d, 3, 3, most=5, end=1.5, agreed=True),
            *drawn(d, 2, 2, most=15, end=4.0, agreed=True),
        ],
        "scores are sums over a power of the length": lambda d: [
            each for penalty in (1.0, 0.6, 2.5) for each in drawn(d, 2, 4, 5, 1.5, penalty, agreed=True)
        ],
    }
    edges = {
        "a beam wider than all texts finds every text": lambda d: [
            each for penalty in (0.0, 1.0) for each in drawn(d, 1, WIDE, 4, 0.5, penalty, vocab=4)
        ],
        "finished texts keep their places": lambda d: [
            *drawn(d, 5, 4, most=6, end=2.0),
            *drawn(d, 3, 2, most=15, end=4.0),
            *drawn(d, 3, 4, 5, 1.5, penalty=1.0, plain=True),
        ],
        "what is impossible never enters": lambda d: [
            *drawn(d, 2, 5, most=3, banned=4),
            *drawn(d, 2, 5, most=3, end=1.0, vocab=5, banned=3),
            *((ENDS, (2,), 3, n, 0) for n in (1, 2, 4)),
        ],
        "a prompt that ends in the end token is extended": lambda d: drawn(d, 3, 3, end=1.0, last=True, agreed=True),
    }
    timed = (Model(7, 50257, 0, NEVER), (1, 2, 3), 4, 6, 0, 0.0)
    time_limit = 12.0

    def arguments(self, attempt: Attempt, call: Search) -> tuple:
        model, prompt, *others = call
        return model, list(prompt), *others

    def reply(self, attempt: Attempt, args: tuple, kwargs: dict, **more: Any) -> dict:
        model, *given = args
        asked = {"do": "scored", "target": self.name, "model": tensors(model), "args": given, "settings": kwargs}
        return attempt.beam_search.ask(**asked, **more)

    def words(self, args: tuple, kwargs: dict) -> str:
        model, *given = self.arguments(None, (*args, *kwargs.values()))
        named = (f"{name}={value}" for name, value in zip(self.signature.inputs[1:], given, strict=False))
        return f"beam_search(step, {', '.join(named)}), a vocabulary of {model.vocab}"

    @fast
    def test_step_is_called_once_a_round(self, attempt: Attempt, draw: Draw) -> None:
        for call in (SOON, *drawn(draw, 3, 3, most=5, end=1.5), *drawn(draw, 2, 3, most=15, end=4.0)):
            _, prompt, width, *_ = call
            last = len(rounds(*call[:5])) - 1
            calls = self.reply(attempt, self.arguments(attempt, call), {})["calls"]
            expected = [len(prompt) + number for number in range(last)]
            if [length for _, length in calls] != expected or any(rows > width for rows, _ in calls):
                seen = ", ".join(f"{rows} × {length}" for rows, length in calls) or "never"
                with noting(inputs=[self.words(call, {})]):
                    sentence = "step is called once a round, with at most beam_width prefixes"
                    too_much(sentence, f"called with rows × length {seen}; lengths {expected} are enough")
