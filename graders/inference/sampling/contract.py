"""What the two functions must do. The oracles sort and add up in Python, row by row."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Contract, Draw, core, half_precisions, match, oracles, robust

Filters = float | int | None


def by_sorting(logits: Tensor, temperature: float, **filters: Filters) -> Tensor:
    rows = [_row(row, temperature, **filters) for row in logits.reshape(-1, logits.shape[-1]).tolist()]
    return torch.tensor(rows, dtype=logits.dtype).reshape(logits.shape)


def _row(x: list[float], temperature: float, top_k: int | None, top_p: float | None, min_p: float | None) -> list:
    order = sorted(range(len(x)), key=lambda i: -x[i])
    kept, largest = order[: 1 if temperature == 0 else top_k], x[order[0]]
    weight = {i: math.exp((x[i] - largest) / (temperature or 1.0)) for i in kept}
    if top_p is not None and top_p < 1:
        total = math.fsum(weight.values())
        kept = [i for place, i in enumerate(kept) if math.fsum(weight[j] for j in kept[:place]) < top_p * total]
    kept = {i for i in kept if weight[i] >= (min_p or 0.0)}
    total = math.log(math.fsum(weight[i] for i in kept))
    return [(x[i] - largest) / (temperature or 1.0) - total if i in kept else -math.inf for i in range(len(x))]


def masked(logits: Tensor, temperature: float, **filters: Filters) -> Tensor:
    kept = by_sorting(logits.double(), temperature, **filters) > -torch.inf
    return torch.log_softmax((logits / (temperature or 1.0)).masked_fill(~kept, -torch.inf), -1)


def rounded_in_each_step(logits: Tensor, temperature: float, **filters: Filters) -> Tensor:
    """The sum of the kept taken off the whole distribution: where one is kept, what should cancel need not."""
    kept = by_sorting(logits.double(), temperature, **filters) > -torch.inf
    every = torch.log_softmax(logits / (temperature or 1.0), -1)
    total = torch.where(kept, every, -torch.inf).logsumexp(-1, keepdim=True)
    slip = 2 * torch.finfo(every.dtype).eps * (1 + every.abs())
    return torch.where(kept, every - total + slip, -torch.inf)


def one_by_one(logprobs: Tensor, uniform: Tensor) -> Tensor:
    rows = zip(logprobs.reshape(-1, logprobs.shape[-1]).tolist(), uniform.flatten().tolist(), strict=True)
    return torch.tensor([oracles.drawn([math.exp(x) for x in row], u) for row, u in rows]).reshape(uniform.shape)


class TestNextTokenLogprobs(Contract):
    name = "next_token_logprobs"
    oracle = by_sorting
    variants = (masked, rounded_in_each_step)
    differentiable = False
    rounded_once = True
    ban = Ban(r"multinomial", ("torch.distributions.distribution.Distribution.__init__",))
    holds = {
        "Filter order": ("test_filters_work",),
        "Nucleus": ("test_top_p_keeps", "test_top_p_of_one"),
        "Greedy": ("test_temperature_0",),
        "Extremes": ("test_hard_cases",),
        "Half precision": ("test_half_precision",),
        "Errors": ("test_settings_out",),
    }
    cases = {
        "plain": {},
        "warm": {"temperature": 1.7, "offset": 40.0},
        "cold": {"temperature": 0.4, "top_k": 3},
        "min_p": {"min_p": 0.25},
        "top_k_and_top_p": {"top_k": 4, "top_p": 0.55},
    }
    more_shapes = {
        "one_row": {"shape": (), "top_p": 0.7},
        "three_leading_dimensions": {"shape": (2, 1, 3), "top_k": 6, "top_p": 0.7, "min_p": 0.45},
    }
    hard_cases = {
        "more_than_the_vocabulary": {"top_k": 50},
        "nothing_but_the_best": {"min_p": 1.0},
        "logits_of_minus_infinity": {"hidden": 4, "top_p": 0.7},
        "large": {"offset": 1e4, "top_k": 4, "temperature": 0.8},
        "far_apart": {"temperature": 0.0025},
    }
    growth = {
        "rows under all filters": lambda d, n: TestNextTokenLogprobs.call(d, (n,), top_k=4, top_p=0.55, min_p=0.1),
        "vocab under all filters": lambda d, n: TestNextTokenLogprobs.call(d, vocab=n, top_k=4, top_p=0.55, min_p=0.1),
    }
    timed = {"shape": (48,), "vocab": 2048, "temperature": 0.9, "top_k": 50, "top_p": 0.7, "min_p": 0.02}
    timed_scale = (1.0, 1.0)  # other inputs would bring choices near a border

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (4,), vocab: int = 9, offset: float = 0.0, hidden: int = 0, **settings: Filters
    ) -> Call:
        """Logits in a random order, so that sums of probabilities are known and none is near top_p.

        They are half a unit apart in one row, and a unit in the next. At temperature 1 the sums before the best, the
        second … of nine are 0, 0.398, 0.639, 0.786, and 0, 0.632, 0.865, 0.950.
        """
        rank, rows = d.positions(vocab, *shape, vocab), torch.arange(math.prod(shape))
        apart = (0.5 + 0.5 * (rows % 2)).reshape(*shape, 1)
        return Call({"logits": (offset - apart * rank).masked_fill(rank >= vocab - hidden, -torch.inf), **settings})

    @core
    def test_top_p_keeps_the_token_that_crosses(self, attempt: Attempt, draw: Draw) -> None:
        """Where the most probable token alone exceeds p none is left, and else the text is blander than asked for."""
        calls = {f"top_p={p}": self.call(draw, top_p=p) for p in (0.01, 0.3, 0.5, 0.7, 0.97)}
        self.verify_all(attempt, draw, calls.items())

    @robust
    def test_filters_work_in_their_order(self, attempt: Attempt, draw: Draw) -> None:
        """The same settings give other text than in transformers: a nucleus of another distribution."""
        settings = {
            "temperature before top-p": {"temperature": 2.0, "top_p": 0.65},
            "temperature before min-p": {"temperature": 0.5, "min_p": 0.25},
            "top-k before top-p": {"top_k": 4, "top_p": 0.7},
            "top-p before min-p": {"top_p": 0.7, "min_p": 0.3},
            "all of them": {"temperature": 2.0, "top_k": 6, "top_p": 0.65, "min_p": 0.7},
        }
        self.verify_all(attempt, draw, ((told, self.call(draw, **more)) for told, more in settings.items()))

    @robust
    def test_top_p_of_one_keeps_every_token(self, attempt: Attempt, draw: Draw) -> None:
        """Thousands of rare tokens can never be drawn: a sum in float32 reaches 1 long before its end."""
        rare = draw.normal(2, 1000) - 25
        rare[:, 5] = 0.0  # in float32 its probability is 1
        self.verify(attempt, draw, "top_p=1.0", Call({"logits": rare, "top_p": 1.0}))

    @robust
    def test_temperature_0_gives_everything_to_the_largest_logit(self, attempt: Attempt, draw: Draw) -> None:
        """Evaluations run at temperature 0, and dividing by it gives nan."""
        for told, more in {"alone": {}, "with filters": {"top_k": 3, "top_p": 0.5, "min_p": 0.1}}.items():
            self.verify(attempt, draw, f"greedy, {told}", self.call(draw, (2, 3), temperature=0.0, **more))

    @robust
    def test_settings_out_of_range_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A top_p of 90 instead of 0.9 passes unseen, and so does all that the model would never say."""
        self.refuses_each(attempt, self.call(draw), temperature=(-0.5,), top_p=(0.0, 1.5, -0.25))


class TestSample(Contract):
    name = "sample"
    oracle = one_by_one
    variants = (one_by_one,)
    differentiable = False
    ban = TestNextTokenLogprobs.ban
    off = {"test_each_call_stands_alone": "other uniform numbers would leave [0, 1)"}
    holds = {
        "Id order": ("test_hard_cases", "test_each_id_gets"),
        "Ends": ("test_the_ends",),
        "Half precision": ("test_half_precision", "test_rounded_log"),
    }
    cases = {"some_rows": {}, "one_possible": {"kept": 1}}
    hard_cases = {"ids_in_any_order": {"shape": (12,), "sorted_ids": False}}
    timed_scale = TestNextTokenLogprobs.timed_scale

    @classmethod
    def call(cls, d: Draw, shape: tuple = (6,), vocab: int = 9, kept: int = 5, sorted_ids: bool = True) -> Call:
        """Log-probabilities half a unit apart, and for each row the middle of the share that one of its ids has.

        With the more probable ids first it does not matter in which order shares are summed.
        """
        rank = torch.arange(vocab).expand(*shape, vocab) if sorted_ids else d.positions(vocab, *shape, vocab)
        logprobs = (-0.5 * rank).masked_fill(rank >= kept, -torch.inf).log_softmax(-1)
        drawn = rank == d.integers(0, min(kept, vocab), *shape, 1)
        shares = logprobs.exp()
        return Call({"logprobs": logprobs, "uniform": ((shares.cumsum(-1) - shares / 2) * drawn).sum(-1)})

    def shares(self, attempt: Attempt, told: str, row: Tensor) -> None:
        """Evenly spaced numbers draw each id as often as its share of them, to within 1."""
        count, vocab = 4096, len(row)
        uniform = (torch.arange(count) + 0.5) / count
        ids = self.run(attempt, told, Call({"logprobs": row.expand(count, vocab), "uniform": uniform}))
        found = torch.zeros(vocab).scatter_add(0, ids.long().clamp(0, vocab - 1), torch.ones(count)).double()
        sentence = "each id gets its share of evenly spaced numbers"
        match(found, count * row.double().softmax(-1), torch.ones(vocab).double(), sentence, "vocab")

    @core
    def test_each_id_gets_its_share_of_evenly_spaced_numbers(self, attempt: Attempt, draw: Draw) -> None:
        row = draw.normal(23, scale=2.0).masked_fill(draw.uniform(23) < 0.2, -torch.inf).log_softmax(-1)
        self.shares(attempt, "4096 evenly spaced numbers", row)

    @robust
    @half_precisions
    def test_rounded_log_probabilities_are_renormalized(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """The last ids are drawn too often, or one after the vocabulary: rounded probabilities do not sum to 1."""
        shift = -0.25 if dtype is torch.bfloat16 else 0.25
        self.shares(attempt, "shares that do not sum to 1", (draw.normal(23).log_softmax(-1) + shift).to(dtype))

    @robust
    def test_the_ends_draw_ids_of_positive_probability(self, attempt: Attempt, draw: Draw) -> None:
        """Once in millions of tokens the id is one after the vocabulary, or one that was filtered out."""
        rows, vocab = 64, 1000
        first, last = 3 + torch.arange(rows) % 5, vocab - 7 - torch.arange(rows) % 11
        ids = torch.arange(vocab)
        ends, outside = (ids == first[:, None]) | (ids == last[:, None]), (ids < first[:, None]) | (ids > last[:, None])
        logprobs = draw.normal(rows, vocab).masked_fill(ends, 4.0).masked_fill(outside, -torch.inf).log_softmax(-1)
        for u, place in ((0.0, first), (1 - 2.0**-24, last)):
            call = Call({"logprobs": logprobs, "uniform": torch.full((rows,), u)})
            got = self.run(attempt, f"uniform={u:.8f}", call)
            match(got, place, None, "the ends draw the first and the last id of positive probability", "rows")
