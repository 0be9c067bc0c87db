"""What the two functions must do. The oracles sort and add up in Python, row by row."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.contracts import (
    HALF,
    Attempt,
    Ban,
    Call,
    Contract,
    Draw,
    core,
    fail,
    half_precisions,
    match,
    oracles,
    robust,
)

APART = 2e-3  # how far choices lie from any border, in probability
UNCHANGED = (1.0, 1.0)  # other inputs would bring choices near a border
Filters = float | int | None


def by_sorting(logits: Tensor, temperature: float, **filters: Filters) -> Tensor:
    rows = [_row(row, temperature, **filters) for row in logits.reshape(-1, logits.shape[-1]).tolist()]
    return torch.tensor(rows, dtype=logits.dtype).reshape(logits.shape)


def _row(x: list[float], temperature: float, top_k: int | None, top_p: float | None, min_p: float | None) -> list:
    order = sorted(range(len(x)), key=lambda i: (-x[i], i))
    kept = order[: 1 if temperature == 0 else top_k]
    largest = x[order[0]]
    weight = {i: math.exp((x[i] - largest) / (temperature or 1.0)) for i in kept}
    if temperature > 0 and top_p is not None and top_p < 1:
        kept = [i for i, before in zip(kept, sums_before(list(weight.values())), strict=True) if before < top_p]
    if min_p is not None:
        kept = [i for i in kept if weight[i] >= min_p]
    found, total = [-math.inf] * len(x), math.fsum(weight[i] for i in kept)
    for i in kept:
        found[i] = (x[i] - largest) / (temperature or 1.0) - math.log(total)
    return found


def sums_before(weights: list[float]) -> list[float]:
    """What share of all stands before each weight."""
    sums, total = [0.0], math.fsum(weights)
    for weight in weights:
        sums.append(sums[-1] + weight / total)
    return sums[:-1]


def masked(logits: Tensor, temperature: float, **filters: Filters) -> Tensor:
    kept = by_sorting(logits.double(), temperature, **filters) > -torch.inf
    return torch.log_softmax((logits / (temperature or 1.0)).masked_fill(~kept, -torch.inf), -1)


def probabilities(logits: Tensor, temperature: float, **filters: Filters) -> Tensor:
    kept = by_sorting(logits.double(), temperature, **filters) > -torch.inf
    probs = torch.softmax(logits / (temperature or 1.0), -1) * kept
    return (probs / probs.cumsum(-1)[..., -1:]).log()


def rounded_in_each_step(logits: Tensor, temperature: float, **filters: Filters) -> Tensor:
    """The sum of the kept taken off the whole distribution: where one is kept, what should cancel need not."""
    kept = by_sorting(logits.double(), temperature, **filters) > -torch.inf
    every = torch.log_softmax(logits / (temperature or 1.0), -1)
    total = torch.where(kept, every, -torch.inf).logsumexp(-1, keepdim=True)
    slip = 2 * torch.finfo(every.dtype).eps * (1 + every.abs())
    return torch.where(kept, every - total + slip, -torch.inf)


def one_by_one(logprobs: Tensor, uniform: Tensor) -> Tensor:
    rows = logprobs.reshape(-1, logprobs.shape[-1]).tolist()
    ids = [
        oracles.drawn([math.exp(x) for x in row], u) for row, u in zip(rows, uniform.flatten().tolist(), strict=True)
    ]
    return torch.tensor(ids).reshape(uniform.shape)


class TestNextTokenLogprobs(Contract):
    name = "next_token_logprobs"
    oracle = by_sorting
    variants = (masked, probabilities, rounded_in_each_step)
    differentiable = False
    rounded_once = True
    ban = Ban(r"multinomial", ("torch.distributions.distribution.Distribution.__init__",))
    cases = {
        "plain": {},
        "warm": {"temperature": 1.7},
        "cold": {"temperature": 0.4},
        "greedy": {"temperature": 0.0},
        "greedy_with_filters": {"temperature": 0.0, "top_k": 3, "top_p": 0.5, "min_p": 0.1},
        "top_k": {"top_k": 3},
        "top_p": {"top_p": 0.7},
        "min_p": {"min_p": 0.2},
        "a_warm_nucleus": {"temperature": 2.0, "top_p": 0.6},
        "a_cold_min_p": {"temperature": 0.5, "min_p": 0.1},
        "top_k_before_top_p": {"top_k": 4, "top_p": 0.8, "scale": 0.5},
        "top_k_before_top_p_and_min_p": {"top_k": 4, "top_p": 0.8, "min_p": 0.05, "scale": 0.5},
        "top_p_before_min_p": {"top_p": 0.75, "min_p": 0.45, "scale": 0.5},
        "all_of_them": {"temperature": 1.5, "top_k": 6, "top_p": 0.85, "min_p": 0.2},
        "one_token_is_a_nucleus": {"top_p": 0.01},
    }
    more_shapes = {
        "one_row": {"shape": ()},
        "one_token": {"vocab": 1, "top_k": 1, "top_p": 0.5, "min_p": 0.3},
        "three_leading_dimensions": {"shape": (2, 1, 3), "top_k": 3, "top_p": 0.8, "min_p": 0.45},
        "two_leading_dimensions_of_top_p": {"shape": (2, 3), "top_p": 0.7},
        "two_leading_dimensions_of_min_p": {"shape": (2, 3), "min_p": 0.2},
        "one_greedy_row": {"shape": (), "temperature": 0.0},
    }
    hard_cases = {
        "more_than_the_vocabulary": {"top_k": 50},
        "ends_of_the_ranges": {"top_k": 9, "top_p": 1.0, "min_p": 0.0},
        "nothing_but_the_best": {"min_p": 1.0},
        "a_single_one": {"top_k": 1},
        "logits_of_minus_infinity": {"hidden": 4, "top_p": 0.8},
        "more_than_are_finite": {"hidden": 6, "top_k": 5},
        "greedy_beside_minus_infinity": {"hidden": 4, "temperature": 0.0},
        "large": {"offset": 1e4, "top_k": 4, "temperature": 0.8},
        "large_and_negative": {"offset": -1e4, "top_k": 4, "temperature": 0.8},
        "a_temperature_near_0": {"temperature": 2.0**-20, "scale": 2.0**-20},
        "a_nucleus_of_almost_nothing": {"shape": (40,), "top_p": 1e-9},
    }
    representative = ("warm", "all_of_them", "greedy", "top_p")
    near_300 = {"shape": (3,), "vocab": 70_001, "offset": 300.0, "repeated": 20, "temperature": 0.3}
    grows = {"the leading axes": "shape", "vocab": "vocab"}
    growth = {"the vocabulary under all filters": lambda d, n: TestNextTokenLogprobs.call(
        d, vocab=n, top_k=5, top_p=0.8, min_p=0.1)}  # fmt: skip
    growth_sizes = (8, 20)
    timed = {"shape": (48,), "vocab": 2048, "temperature": 0.9, "top_k": 50, "top_p": 0.9, "min_p": 0.02}
    timed_scale = UNCHANGED

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (4,), vocab: int = 9, scale: float = 1.0, offset: float = 0.0,
        hidden: int = 0, repeated: int = 0, **settings: Filters,
    ) -> Call:  # fmt: skip
        """Logits three quarters apart, exact in every dtype, and a top_p that no sum of probabilities comes near."""
        steps = d.positions(max(vocab + 3, 12), *shape, vocab)
        steps = steps % repeated if repeated else steps
        logits = offset + 0.75 * scale * steps
        if hidden:
            gone = torch.arange(vocab) < hidden
            logits = logits.masked_fill(gone[d.positions(vocab, vocab)], -torch.inf)
        top_p = settings.get("top_p")
        if top_p is not None and 0.05 < top_p < 1 and settings.get("temperature") != 0:
            settings["top_p"] = _between(logits, top_p, settings.get("temperature", 1.0), settings.get("top_k"))
        return Call({"logits": logits, **settings})

    @robust
    def test_of_equal_logits_the_lower_ids_stay(self, attempt: Attempt, draw: Draw) -> None:
        """More than k tokens are drawn from, or other ones on another device."""
        for case, more in {"top_k": {"top_k": 4}, "top_p": {"top_p": 0.6}, "greedy": {"temperature": 0.0}}.items():
            logits = torch.zeros(3, 7) if case == "top_p" else draw.integers(0, 3, 6, 40).float()
            self.verify(attempt, draw, f"equal logits, {case}", Call({"logits": logits, **more}))

    @robust
    def test_top_p_of_one_keeps_every_token(self, attempt: Attempt, draw: Draw) -> None:
        """Thousands of rare tokens can never be drawn: a sum in float32 reaches 1 long before its end."""
        logits = draw.normal(2, 20_000, scale=3.0)
        self.verify(attempt, draw, "top_p=1.0", Call({"logits": logits, "top_p": 1.0}))

    @robust
    def test_settings_out_of_range_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A top_p of 90 instead of 0.9 passes unseen, and so does all that the model would never say."""
        wrong = {"temperature": (-0.5,), "top_k": (0, -2), "top_p": (0.0, 1.5, -0.25), "min_p": (-0.25, 1.5)}
        for name, values in wrong.items():
            for value in values:
                for more in ({}, {"temperature": 0.0}):
                    call = Call({"logits": draw.normal(2, 5), **more})
                    self.refuses_each(attempt, call, **{name: [value]})


def _between(logits: Tensor, top_p: float, temperature: float, top_k: int | None) -> float:
    """The number nearest to top_p that no row's sum of probabilities comes near."""
    borders = set()
    for row in logits.reshape(-1, logits.shape[-1]).tolist():
        x = sorted(row, reverse=True)[:top_k]
        for kept in (x, sorted(row, reverse=True)):
            borders |= set(sums_before([math.exp((each - kept[0]) / temperature) for each in kept]))
    tried = sorted((n / 1024 for n in range(52, 1000)), key=lambda p: abs(p - top_p))
    return max(tried, key=lambda p: min(APART, *(abs(p - each) for each in borders)))


class TestSample(Contract):
    name = "sample"
    oracle = one_by_one
    variants = (one_by_one,)
    differentiable = False
    ban = TestNextTokenLogprobs.ban
    off = {"test_each_call_stands_alone": "other uniform numbers would leave [0, 1)"}
    cases = {"some_rows": {}, "one_possible": {"kept": 1}, "two_axes": {"shape": (2, 3)}, "all_possible": {"kept": 9}}
    more_shapes = {
        "one_row": {"shape": ()},
        "one_token": {"vocab": 1, "kept": 1},
        "three_leading_dimensions": {"shape": (2, 1, 3)},
    }
    growth_sizes = (8, 20)
    timed = {"shape": (64,), "vocab": 2048}
    timed_scale = UNCHANGED

    @classmethod
    def call(cls, d: Draw, shape: tuple = (6,), vocab: int = 9, kept: int = 5) -> Call:
        """Log-probabilities of some ids, -inf for the others, and numbers exact in every dtype, away from borders."""
        logprobs = d.normal(*shape, vocab)
        gone = d.positions(vocab, *shape, vocab) >= min(kept, vocab)
        logprobs = torch.log_softmax(logprobs.masked_fill(gone, -torch.inf), -1)
        sums = [logprobs.to(kind).double().softmax(-1).cumsum(-1) for kind in (torch.float32, *HALF)]
        borders = torch.cat(sums, -1).reshape(-1, 3 * vocab)
        grid = (2 * torch.arange(128) + 1) / 256
        near = (grid[:, None] - borders[:, None, :]).abs().amin(-1)  # rows × numbers
        near = near + 1e-9 * d.uniform(*near.shape)
        choice = torch.where(near > APART, d.uniform(*near.shape), -1.0).argmax(-1)
        return Call({"logprobs": logprobs, "uniform": grid[choice].reshape(shape)})

    def drawn(self, attempt: Attempt, told: str, logprobs: Tensor, uniform: Tensor) -> Tensor:
        """The ids of one call."""
        call = Call({"logprobs": logprobs, "uniform": uniform})
        ids = self.run(attempt, told, call)
        with self.case_context(attempt, told, call):
            if ids.shape != uniform.shape or ids.dtype is not torch.int64:
                fail("ids are int64, one for each uniform number", f"got {tuple(ids.shape)}, {ids.dtype}")
        return ids

    @core
    def test_each_id_gets_its_share_of_evenly_spaced_numbers(self, attempt: Attempt, draw: Draw) -> None:
        count = 4096
        row = torch.log_softmax(draw.normal(23, scale=2.0).masked_fill(draw.uniform(23) < 0.2, -torch.inf), -1)
        uniform = (torch.arange(count) + 0.5) / count
        ids = self.drawn(attempt, f"{count} evenly spaced numbers", row.expand(count, 23), uniform)
        found, exact = torch.zeros(23).scatter_add(0, ids.clamp(0, 22), torch.ones(count)), count * row.double().exp()
        match(found.double(), exact, torch.full((23,), 1.0).double(), "each id gets its share to within 1", "vocab")

    @robust
    @half_precisions
    def test_rounded_log_probabilities_are_normalised_anew(
        self, attempt: Attempt, draw: Draw, dtype: torch.dtype
    ) -> None:
        """The last ids are drawn too often, or one behind the vocabulary: rounded probabilities do not sum to 1."""
        count, shift = 4096, -0.25 if dtype is torch.bfloat16 else 0.25
        row = (torch.log_softmax(draw.normal(23), -1) + shift).to(dtype)
        uniform = (torch.arange(count) + 0.5) / count
        ids = self.drawn(attempt, "probabilities that do not sum to 1", row.expand(count, 23), uniform)
        found = torch.zeros(23).scatter_add(0, ids.clamp(0, 22), torch.ones(count))
        exact = count * row.double().softmax(-1)
        match(found.double(), exact, torch.full((23,), 1.0).double(), "probabilities are normalised anew", "vocab")

    @robust
    def test_the_ends_draw_ids_of_positive_probability(self, attempt: Attempt, draw: Draw) -> None:
        """Once in millions of tokens the id is one behind the vocabulary, or one that was filtered out."""
        rows, vocab = 64, 1000
        logprobs = draw.normal(rows, vocab)
        first, last = 3 + torch.arange(rows) % 5, vocab - 7 - torch.arange(rows) % 11
        ids = torch.arange(vocab)
        logprobs[(ids == first[:, None]) | (ids == last[:, None])] = 4.0
        logprobs = logprobs.masked_fill((ids < first[:, None]) | (ids > last[:, None]), -torch.inf).log_softmax(-1)
        for u, place in ((0.0, first), (1 - 2.0**-24, last)):
            got = self.drawn(attempt, f"uniform={u:.8f}", logprobs, torch.full((rows,), u))
            match(got, place, None, "the ends draw the first and the last id of positive probability", "rows")

    @robust
    def test_uniform_numbers_outside_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A number of 1.0 draws an id behind the vocabulary, and the embedding fails in the next step."""
        call = self.call(draw)
        for value in (1.0, 1.5, -0.25):
            uniform = call.inputs["uniform"].clone()
            uniform[2] = value
            told = (value, f"{value:.4f}", f"{value:.2f}", *((int(value), "1.") if value == 1 else ()))
            sentence = f"a uniform number of {value} is refused"
            self.refuses(attempt, call.with_inputs(uniform=uniform), told, sentence=sentence)
