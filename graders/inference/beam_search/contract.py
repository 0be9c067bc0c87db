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

from dojo.contracts import Attempt, Draw, GeneratorContract, fail, fast, noting, robust, too_much
from dojo.contracts.plain.shrinking import shorter
from dojo.judge.worker.drivers import next_token_logprobs
from dojo.verdict.mismatch import plain
from dojo.verdict.types import Label, Section

APART = 1e-3  # by which sums and scores differ where a choice hangs on them, if they are not equal
WIDE = 1000  # wider than all texts are many
LARGEST, STATES = 9, 6
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
    """A model of the last token alone: a row of probabilities for each, or of log-probabilities, below 0."""

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
        logits = torch.where(rows < 0, rows, rows.log().masked_fill(rows == 0, NEVER))
        return [40 * torch.eye(size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64), logits]
    d = Draw(model.seed)
    embedding, recurrence, output = (
        d.normal(LARGEST, STATES, scale=1.5),
        d.normal(STATES, STATES),
        d.normal(STATES, LARGEST, scale=1.3),
    )
    embedding[:, 0], recurrence[:, 0] = 20.0, 0.0  # the first state is 1 at any time
    output[0, model.eos] += model.end
    output[0, list(model.banned)] = NEVER
    return [embedding[: model.vocab], recurrence, output[:, : model.vocab].contiguous()]


@kept
def logprobs(model: Model | Table, prefix: Tokens) -> list[float]:
    return next_token_logprobs(tensors(model), prefix).tolist()


@kept
def rounds(model: Any, prompt: Tokens, width: int, count: int, eos: int) -> list[tuple[list[Hypothesis], float]]:
    """The beam behind each round, the first being the start, and by how much the worst of it beats the next one."""
    found: list[tuple[list[Hypothesis], float]] = [([((), 0.0)], math.inf)]
    while len(found) <= count and any(map(_live(eos), (tokens for tokens, _ in found[-1][0]))):
        candidates: list[Hypothesis] = []
        for tokens, total in found[-1][0]:
            if not _live(eos)(tokens):
                candidates.append((tokens, total))
                continue
            for token, each in enumerate(logprobs(model, (*prompt, *tokens))):
                if each != -math.inf:
                    candidates.append(((*tokens, token), total + each))
        best = heapq.nlargest(width + 1, candidates, key=_value)
        found.append((best[:width], best[width - 1][1] - best[width][1] if len(best) > width else math.inf))
    return found


def _live(eos: int) -> Any:
    return lambda tokens: not tokens or tokens[-1] != eos


def _value(pair: Hypothesis) -> float:
    return pair[1]


def texts(model: Any, prompt: Tokens, count: int, eos: int) -> Iterator[Hypothesis]:
    """Every text and its sum."""
    for tokens in itertools.chain(*(itertools.product(range(model.vocab), repeat=n + 1) for n in range(count))):
        ends = tokens[-1] == eos
        if eos not in tokens[:-1] and (ends or len(tokens) == count):
            parts = (logprobs(model, prompt + tokens[:n])[token] for n, token in enumerate(tokens))
            yield tokens, math.fsum(parts)


def search(model: Any, prompt: Tokens, width: int, count: int, eos: int, penalty: float = 0.0) -> list[tuple]:
    """By the definition; of all texts, where the beam has room for them."""
    last = list(texts(model, prompt, count, eos)) if width == WIDE else rounds(model, prompt, width, count, eos)[-1][0]
    scored = [(list(tokens), total / math.pow(len(tokens), penalty)) for tokens, total in last]
    return heapq.nlargest(width, scored, key=_value)


@kept
def clear(call: Search, ties: bool = True) -> bool:
    """Whether all choices are safe in float32: equal, where there may be ties, or well apart."""
    gaps = [gap for _, gap in rounds(*call[:5])] if call[2] < WIDE else []
    scores = [score for _, score in search(*call)]
    return all((ties and gap == 0) or gap >= APART for gap in (*gaps, *(a - b for a, b in itertools.pairwise(scores))))


def drawn(
    d: Draw, count: int = 4, width: int = 3, most: int = 4, end: float = 0.0, penalty: float = 0.0, vocab: int = 8,
    banned: int = 0, last: bool = False,
) -> list[Search]:  # fmt: skip
    """Searches whose choices are clear and without ties. With `last` the prompt ends in the end token."""
    pick, found = d.random(), []
    while len(found) < count:
        eos = pick.randrange(4)
        others = [token for token in range(vocab) if token != eos]
        prompt = [pick.choice([token for token in range(4) if token != eos]) for _ in range(pick.randint(1, 4))]
        model = Model(pick.getrandbits(30), vocab, eos, end, tuple(sorted(pick.sample(others, banned))))
        call = (model, (*prompt, eos) if last else tuple(prompt), width, most, eos, penalty)
        if clear(call, ties=False):
            found.append(call)
    return found


def simpler(call: Search) -> Iterator[Search]:
    """Fewer rounds, a narrower beam, no penalty, a smaller vocabulary, a shorter prompt."""
    model, prompt, width, count, eos, penalty = (*call, 0.0)[:6]
    tried = [(model, prompt, width, n, eos, penalty) for n in range(1, count)]
    tried += [(model, prompt, n, count, eos, penalty) for n in range(1, min(width, 6))]
    tried += [(model, prompt, width, count, eos, 0.0)] if penalty else []
    if isinstance(model, Model):
        sizes = range(max(2, eos + 1, max(prompt) + 1), model.vocab)
        less = [model._replace(vocab=n, banned=tuple(each for each in model.banned if each < n)) for n in sizes]
        tried += [(each, prompt, width, count, eos, penalty) for each in less]
    tried += [(model, less, width, count, eos, penalty) for less in shorter(prompt) if less]
    return (each for each in tried if clear(each))


EXAMPLE = Table(((0.0, 0.6, 0.4, 0.0, 0.0), *((0, 0, 0, 0.55, 0.45), (0, 0, 0, 0.1, 0.9)), *((0, 0, 0, 1, 0),) * 2))
UNIFORM = Table(((0.2,) * 5,) * 5)
ALIKE = Table(((0.05, 0.15, 0.3, 0.5),) * 4)  # the order of two tokens does not matter
ENDS = Table(((0, 0.7, 0.3), (0, 0, 0), (0.4, 0.6, 0)))  # nothing comes behind token 1
FAINT = Table(((0.75, 0.25, -9e5), (0.6, 0.4, -9e5), (0.7, 0.3, -9e5)))  # the last token is all but impossible
HALVES = Table(((1, 0, 0), (0, 1, 0), (0.5, 0.5, 0)))  # tokens 0 and 1 go on as they are
SILENT = Table(((0.0, 0.0, 0.0),) * 3)
ONE = Model(1, 8, 0)


class TestBeamSearch(GeneratorContract):
    name = "beam_search"
    oracle = search
    relative = absolute = 1e-5
    simpler = simpler
    claims = {
        "a wider beam finds what a greedy search misses": [(EXAMPLE, (0,), n, 2, 3, 0.0) for n in (1, 2)],
        "the best of all candidates stay": lambda d: [
            *(each for width in (2, 3, 5) for each in drawn(d, 2, width, end=0.5)),
            *drawn(d, 2, 3, most=1),
        ],
        "a beam of one is greedy search": lambda d: drawn(d, 3, 1, most=6, end=0.5),
        "finished hypotheses keep their place": lambda d: drawn(d, 5, 4, most=6, end=2.0),
        "it ends when none is live": lambda d: drawn(d, 3, 2, most=15, end=4.0),
        "scores are sums over a power of the length": lambda d: [
            each for penalty in (1.0, 0.6, -0.5, 2.5) for each in drawn(d, 2, 4, 5, 1.5, penalty)
        ],
        "a wide beam finds every text": lambda d: [
            each for penalty in (0.0, 1.0) for each in drawn(d, 1, WIDE, 4, 0.5, penalty, vocab=4)
        ],
    }
    edges = {
        "of equal sums the earlier one comes first": [
            *((UNIFORM, (1,), 3, n, 4) for n in (1, 2, 3)),
            *((ALIKE, (1,), n, 2, 0) for n in (2, 3, 6)),
            (UNIFORM, (2, 1), 7, 3, 0),
            *((HALVES, (2,), 2, 3, eos) for eos in (0, 1)),
        ],
        "what is impossible never enters": lambda d: [
            *drawn(d, 2, 5, most=3, banned=4),
            *drawn(d, 2, 5, most=3, end=1.0, vocab=5, banned=3),
            *((ENDS, (2,), 3, n, 0) for n in (1, 2, 4)),
        ],
        "what is all but impossible enters": [(FAINT, (1,), 3, 1, 0), (FAINT, (0,), 4, 2, 2)],
        "an empty beam gives an empty list": [(SILENT, (1,), 2, 3, 0), (ENDS, (1,), 2, 3, 0), (ENDS, (2,), 1, 3, 0)],
        "a prompt that ends in the end token is continued": lambda d: drawn(d, 3, 3, end=1.0, last=True),
        "each call starts afresh": lambda d: _alternating(drawn(d, 3, 3, most=3, end=0.5)),
    }
    refused = {
        "a beam_width below 1 is refused": {(ONE, (1,), n, 3, 0): (n,) for n in (0, -2)},
        "max_new_tokens below 1 are refused": {(ONE, (1,), 2, n, 0): (n,) for n in (0, -3)},
        "an empty prompt is refused": {(ONE, (), 2, 3, 0): ()},
    }

    by_position = 1

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

    def picture(self, call: Search, got: Any, exact: Any) -> list[Section]:
        """The tree of all that was in the beam, or is in the answer."""
        model, prompt, width, count, eos = call[:5]
        try:
            found = [{tuple(tokens): (n, float(score)) for n, (tokens, score) in enumerate(e, 1)} for e in (got, exact)]
            named = {tokens[:n] for each in found for tokens in each for n in range(1, len(tokens) + 1)}
            assert all(type(token) is int and 0 <= token < model.vocab for tokens in named for token in tokens)
        except (TypeError, ValueError, AssertionError):
            return []
        beams = rounds(model, prompt, min(width, 8), count, eos)
        nodes = sorted(named | {tokens for beam, _ in beams for tokens, _ in beam if tokens})
        lines = [f"{'tree of new tokens':<30} {'sum':>8}  {'got':<13} expected"]
        for node in nodes[:24]:
            total = sum(logprobs(model, (*prompt, *node[:n]))[token] for n, token in enumerate(node))
            branch = f"{'   ' * (len(node) - 1)}└─ {node[-1]}{' end' * (node[-1] == eos)}"
            places = [f"{each[node][0]}. {each[node][1]:.4f}" if node in each else "" for each in found]
            lines.append(f"{branch:<30} {total:>8.4f}  {places[0]:<13} {places[1]}".rstrip())
        return [Section(Label.MAP, "\n".join(lines + ["…"] * (len(nodes) > 24)))]

    @robust
    def test_the_prompt_is_left_as_it_was(self, attempt: Attempt) -> None:
        """The caller's next search goes on from the text of this one."""
        given = self.arguments(attempt, self.base)
        after = self.reply(attempt, given, {})["args"]
        if after[0] != given[1]:
            fail("the prompt is not modified", f"it was {given[1]}, and is {plain.shown(after[0])}")

    @fast
    def test_step_is_called_once_a_round_with_the_live_hypotheses_alone(self, attempt: Attempt, draw: Draw) -> None:
        for call in (*drawn(draw, 3, 3, most=5, end=1.5), *drawn(draw, 2, 3, most=15, end=4.0)):
            _, prompt, _, count, eos = call[:5]
            beams = [beam for beam, _ in rounds(*call[:5])][:count]
            alive = [sum(map(_live(eos), (tokens for tokens, _ in beam))) for beam in beams]
            expected = [f"{rows} × {len(prompt) + n}" for n, rows in enumerate(alive) if rows]
            calls = self.reply(attempt, self.arguments(attempt, call), {})["calls"]
            seen = [" × ".join(map(str, each)) for each in calls]
            if seen != expected:
                sentence = "step is called once a round, with the live hypotheses alone"
                told = f"called with rows × length {', '.join(seen) or 'never'}, expected {', '.join(expected)}"
                with noting(inputs=[self.words(call, {})]):
                    too_much(sentence, told)


def _alternating(calls: list[Search]) -> list[Search]:
    """The same arguments with one model after the other, and with the first again; margins that are clear."""
    first, *others = calls
    same = [(each[0]._replace(eos=first[4]), *first[1:]) for each in others]
    return [first, *(each for each in same if clear(each, ties=False)), first]
