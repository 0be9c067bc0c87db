"""What the four functions must do. The oracles sort in Python, token by token, and add up expert by expert."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Contract,
    Draw,
    RoundedOnceContract,
    core,
    match,
    robust,
)


def by_sorting(logits: Tensor, k: int, normalize: bool) -> tuple[Tensor, Tensor]:
    weights, experts = [], []
    for row in logits.reshape(-1, logits.shape[-1]):
        odds = (row - row.max().detach()).exp()
        chosen = ranked(row.tolist())[:k]
        experts.append(chosen)
        weights.append(odds[chosen] / (odds[chosen].sum() if normalize else odds.sum()))
    return _shaped(logits, weights, experts)


def ranked(values: list[float]) -> list[int]:
    return sorted(range(len(values)), key=lambda place: (-values[place], place))


def _shaped(logits: Tensor, weights: list[Tensor], experts: list[list[int]]) -> tuple[Tensor, Tensor]:
    shape = (*logits.shape[:-1], len(experts[0]))
    return torch.stack(weights).reshape(shape), torch.tensor(experts).reshape(shape)


def of_all(logits: Tensor, k: int, normalize: bool) -> tuple[Tensor, Tensor]:
    values, experts = torch.softmax(logits, -1).sort(dim=-1, descending=True, stable=True)
    weights = values[..., :k]
    return weights / weights.cumsum(-1)[..., -1:] if normalize else weights, experts[..., :k]


def of_the_chosen(logits: Tensor, k: int, normalize: bool) -> tuple[Tensor, Tensor]:
    x, experts = logits.sort(dim=-1, descending=True, stable=True)
    weights = torch.softmax(x[..., :k], -1) if normalize else (x[..., :k] - x.logsumexp(-1, keepdim=True)).exp()
    return weights, experts[..., :k]


def unevenly(logits: Tensor, k: int, normalize: bool) -> tuple[Tensor, Tensor]:
    """Gradients that should cancel need not: each factor of a probability is off by some roundings."""
    experts = logits.argsort(dim=-1, descending=True, stable=True)[..., :k]
    weights = slipping(torch.softmax(logits, -1)).gather(-1, experts)
    return slipping(weights / weights.sum(-1, keepdim=True) if normalize else weights), experts


def slipping(x: Tensor) -> Tensor:
    """The same, with a gradient off by up to four roundings."""
    slips = 4 * torch.finfo(x.dtype).eps * torch.cos(13 * torch.arange(x.numel())).view_as(x).to(x)
    if x.requires_grad:
        x.register_hook(lambda grad: grad * (1 + slips))
    return x


def expert_by_expert(logits: Tensor, experts: Tensor) -> Tensor:
    probs = torch.softmax(logits, -1)
    share = [(experts == e).sum().item() / experts.numel() for e in range(logits.shape[-1])]
    return logits.shape[-1] * sum(f * probs[..., e].mean() for e, f in enumerate(share))


def by_table(logits: Tensor, experts: Tensor) -> Tensor:
    probs = torch.softmax(logits, -1).reshape(-1, logits.shape[-1])
    counts = torch.nn.functional.one_hot(experts.reshape(-1), logits.shape[-1]).to(probs)
    return logits.shape[-1] * (counts.mean(0) * probs.mean(0)).sum()


def in_turn(logits: Tensor, experts: Tensor) -> Tensor:
    probs = slipping(torch.softmax(logits, -1).reshape(-1, logits.shape[-1]))
    counts = experts.reshape(-1).bincount(minlength=logits.shape[-1]).to(probs)
    return (counts / experts.numel() * probs).cumsum(0)[-1].sum() / len(probs) * logits.shape[-1]


def group_by_group(
    logits: Tensor, bias: Tensor, k: int, num_groups: int, top_groups: int, scale: float
) -> tuple[Tensor, Tensor]:
    weights, experts, size = [], [], logits.shape[-1] // num_groups
    for row in logits.reshape(-1, logits.shape[-1]):
        choice = [1 / (1 + math.exp(-x)) + b for x, b in zip(row.tolist(), bias.tolist(), strict=True)]
        groups = [sum(sorted(choice[g * size : (g + 1) * size])[-2:]) for g in range(num_groups)]
        kept = ranked(groups)[:top_groups]
        chosen = [e for e in ranked(choice) if e // size in kept][:k]
        scores = 1 / (1 + (-row[chosen]).exp())
        experts.append(chosen)
        weights.append(scale * scores / (scores.sum() + 1e-20))
    return _shaped(logits, weights, experts)


def library(logits: Tensor, scale: float, **more: Any) -> tuple[Tensor, Tensor]:
    return _weighted(torch.sigmoid(logits), logits, scale, **more)


def by_exponential(logits: Tensor, scale: float, **more: Any) -> tuple[Tensor, Tensor]:
    return _weighted(slipping(1 / (1 + (-logits).exp())), logits, scale, **more)


def _weighted(scores: Tensor, logits: Tensor, scale: float, bias: Tensor, **more: Any) -> tuple[Tensor, Tensor]:
    _, experts = group_by_group(logits.detach().double(), bias.detach().double(), scale=1.0, **more)
    weights = scores.gather(-1, experts)
    return slipping(weights / (weights.sum(-1, keepdim=True) + 1e-20) * scale), experts


def one_expert_at_a_time(bias: Tensor, experts: Tensor, rate: float) -> Tensor:
    ids, found = experts.flatten().tolist(), []
    for e, value in enumerate(bias):
        over = ids.count(e) * len(bias) - len(ids)
        found.append(value - rate * ((over > 0) - (over < 0)))
    return torch.stack(found)


def moved(bias: Tensor, experts: Tensor, rate: float) -> Tensor:
    load = experts.flatten().bincount(minlength=len(bias)).double()
    return bias + rate * torch.sign(load.mean() - load).to(bias.dtype)


class RouterContract(RoundedOnceContract):
    results = ("weights", "experts")
    axes = {"weights": "batch k", "experts": "batch k"}
    grows = {"tokens": "shape", "experts": "experts"}
    growth_sizes = (8, 24)


class TestRoute(RouterContract):
    name = "route"
    oracle = by_sorting
    variants = (of_all, of_the_chosen, unevenly)
    cases = {
        "two_of_eight": {},
        "as_they_are": {"normalize": False},
        "three_of_seven": {"experts": 7, "k": 3},
        "all_of_them": {"experts": 5, "k": 5},
        "one_as_it_is": {"k": 1, "normalize": False},
    }
    more_shapes = {
        "one_token": {"shape": ()},
        "a_single_row": {"shape": (1,), "normalize": False},
        "three_leading_dimensions": {"shape": (2, 1, 3)},
    }
    hard_cases = {
        "tokens_far_apart": lambda d: Call({"logits": far_apart(spaced(d, (4,), 8)), "k": 2}),
        "probabilities_that_float16_rounds_to_0": lambda d: Call(
            {"logits": torch.tensor([[-22.0, -21.0, -20.0, 0.0]]), "k": 3, "normalize": False}
        ),
    }
    representative = (*cases, "probabilities_that_float16_rounds_to_0")
    near_300 = {"offset": 300.0}
    timed = {"shape": (2048,), "experts": 64, "k": 6}

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (9,), experts: int = 8, k: int = 2, offset: float = 0.0,
        **normalize: bool,
    ) -> Call:  # fmt: skip
        return Call({"logits": offset + spaced(d, shape, experts), "k": k, **normalize})

    @core
    def test_the_weight_of_one_expert_is_one(self, attempt: Attempt, draw: Draw) -> None:
        self.verify(attempt, draw, "one of eight", self.call(draw, k=1))

    @robust
    def test_of_equal_experts_the_lower_id_is_chosen(self, attempt: Attempt, draw: Draw) -> None:
        """In half precision equal logits are common: a token then has other experts on another device."""
        calls = [("whole logits", Call({"logits": draw.integers(0, 3, 20, 16).float(), "k": 4}))]
        calls.append(("equal logits", Call({"logits": torch.zeros(2, 40), "k": 3, "normalize": False})))
        calls.append(("one of them", Call({"logits": draw.integers(0, 3, 20, 16).float(), "k": 1})))
        self.verify_all(attempt, draw, calls)

    @robust
    def test_wrong_k_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """With no expert a token is lost, and nobody is told."""
        self.refuses_each(attempt, self.call(draw), k=(0, -1, 9))


def spaced(d: Draw, shape: tuple, experts: int) -> Tensor:
    """Logits three quarters apart, exact in every dtype: no dtype and no way of computing changes their order."""
    return 0.75 * (d.positions(max(experts, 8), *shape, experts) - experts // 2)


def far_apart(logits: Tensor) -> Tensor:
    """The same rows, each 200 above the one before: one maximum for all of them makes zeros of the others."""
    return logits + 200.0 * torch.arange(len(logits))[:, None]


class TestBalanceLoss(RouterContract):
    name = "balance_loss"
    oracle = expert_by_expert
    variants = (by_table, in_turn)
    results = ()
    cases = {
        "two_of_eight": {},
        "one_of_five": {"experts": 5, "k": 1},
        "unused_experts": {"experts": 9, "used": 3},
        "a_batch": {"shape": (2, 3), "k": 3},
    }
    more_shapes = {"one_token": {"shape": ()}, "three_leading_dimensions": {"shape": (2, 1, 3)}}
    hard_cases = {
        "tokens_far_apart": lambda d: Call(
            {"logits": far_apart(d.normal(4, 5, scale=2.0)), "experts": d.positions(5, 4, 2)}
        )
    }
    near_300 = {"offset": 300.0}
    timed = {"shape": (2048,), "experts": 64}

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (9,), experts: int = 8, k: int = 2, used: int = 0,
        offset: float = 0.0,
    ) -> Call:  # fmt: skip
        chosen = d.positions(used or experts, *shape, k)
        return Call({"logits": offset + d.normal(*shape, experts, scale=2.0), "experts": chosen})

    @core
    def test_balanced_experts_lose_one(self, attempt: Attempt) -> None:
        for k in (1, 2, 4):
            call = Call({"logits": torch.zeros(8, 4), "experts": (torch.arange(8)[:, None] + torch.arange(k)) % 4})
            with self.case_context(attempt, f"balanced, k={k}", call):
                loss = self.run(attempt, f"balanced, k={k}", call)
                match(loss.double(), torch.ones(()).double(), torch.tensor(1e-5), "a balanced load has the loss 1", "")

    @robust
    def test_float16_loads_above_65504_are_counted(self, attempt: Attempt, draw: Draw) -> None:
        """A count in float16 is inf from there on, and the loss with it."""
        call = Call({"logits": draw.normal(66_000, 2), "experts": torch.zeros(66_000, 1, dtype=torch.int64)})
        self.verify(attempt, draw, "66,000 tokens with one expert", call, torch.float16)


class TestBiasedRoute(RouterContract):
    name = "biased_route"
    oracle = group_by_group
    variants = (library, by_exponential)
    constants = ("bias",)
    cases = {
        "no_groups": {},
        "scaled": {"scale": 2.5},
        "two_of_four_groups": {"num_groups": 4, "top_groups": 2, "k": 3},
        "one_of_two_groups": {"experts": 12, "num_groups": 2, "k": 2},
        "one_of_three_groups_below_zero": {"experts": 12, "num_groups": 3, "k": 4, "offset": -4.0},
        "all_groups": {"num_groups": 2, "top_groups": 2, "k": 3, "scale": 0.5},
    }
    more_shapes = {
        "one_token": {"shape": ()},
        "three_leading_dimensions": {"shape": (2, 1, 3), "num_groups": 4, "top_groups": 2},
    }
    hard_cases = {
        "groups_of_one": {"num_groups": 8, "top_groups": 3, "k": 2},
        "all_of_the_chosen_groups": {"num_groups": 4, "top_groups": 2, "k": 4},
        "biases_far_below_zero": lambda d: Call(
            {"logits": d.normal(3, 4), "bias": -1e30 * torch.tensor([4.0, 5.0, 2.0, 1.0]), "k": 2, "num_groups": 2}
        ),
        "scores_that_half_precision_rounds_to_1": lambda d: Call(
            {"logits": torch.tensor([[9.0, 10.0, 11.0, 12.0]]), "bias": torch.zeros(4), "k": 2}, wide=("bias",)
        ),
        "a_bias_finer_than_half_precision": lambda d: Call(
            {"logits": torch.zeros(2, 4), "bias": 1.0 + 1e-4 * d.positions(4, 4), "k": 3}, wide=("bias",)
        ),
    }
    representative = (*cases, "scores_that_half_precision_rounds_to_1", "a_bias_finer_than_half_precision")
    timed = {"shape": (512,), "experts": 64, "num_groups": 8, "top_groups": 4, "k": 6}
    timed_scale = (1.0, 1.0)  # other logits would bring two choices near one another
    growth = {
        "tokens in groups": lambda d, n: TestBiasedRoute.call(d, (n,), num_groups=4, top_groups=2, k=3),
        "experts in groups": lambda d, n: TestBiasedRoute.call(d, experts=n, num_groups=4, top_groups=2, k=3),
    }

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (9,), experts: int = 8, k: int = 2, num_groups: int = 1,
        offset: float = 0.0, **more: float,
    ) -> Call:  # fmt: skip
        """Logits and a bias, exact in every dtype, whose sums of score and bias lie apart, and those of groups."""
        groups = {"num_groups": num_groups} if num_groups > 1 else {}
        bias = offset + d.positions(4 * experts, experts) / 16
        rows = math.prod(shape)
        tried = d.integers(-8, 9, 40 * max(rows, 8), experts) / 4.0
        choice = tried.double().sigmoid() + bias
        sums = choice.unflatten(-1, (num_groups, -1)).sort(-1).values[..., -2:].sum(-1)
        near = [(each.sort(-1).values.diff(dim=-1)).amin(-1) for each in (choice, sums) if each.shape[-1] > 1]
        order = torch.stack(near).amin(0).argsort(descending=True)
        kept = order[: len(order) // 8][d.positions(len(order) // 8, rows)]
        return Call({"logits": tried[kept].reshape(*shape, experts), "bias": bias, "k": k, **groups, **more})

    @core
    def test_the_bias_chooses_and_does_not_weight(self, attempt: Attempt, draw: Draw) -> None:
        logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
        for bias, chosen in (([0.0, 0.0, 0.0, 0.0], [0, 1]), ([0.0, 0.0, 3.0, 5.0], [3, 2])):
            call = Call({"logits": logits, "bias": torch.tensor(bias), "k": 2})
            self.verify(attempt, draw, f"a bias for experts {chosen}", call)
            self.verify(attempt, draw, f"one expert, a bias for {chosen}", call.with_inputs(k=1))
        thousands = Call({"logits": logits, "bias": 1000.0 * torch.arange(4.0), "k": 2})
        self.verify(attempt, draw, "biases of thousands", thousands)
        low = Call({"logits": logits - 46.0, "bias": torch.arange(4.0), "k": 2})
        self.verify(attempt, draw, "scores about as small as 1e-20", low)
        self.verify(attempt, draw, "a scale of 0", call.with_inputs(scale=0.0))

    @robust
    def test_of_equal_sums_the_lower_id_is_chosen(self, attempt: Attempt, draw: Draw) -> None:
        """A new router has equal scores: all tokens go to other experts on another device."""
        call = Call({"logits": torch.zeros(2, 40), "bias": torch.zeros(40), "k": 3, "num_groups": 20, "top_groups": 3})
        self.verify(attempt, draw, "equal sums", call)

    @robust
    def test_wrong_groups_and_k_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Fewer experts than k are left, and some of the chosen ones are none."""
        wrong = [((2, 3, 1), (3, 8)), ((2, 0, 1), (0,)), ((2, -2, 1), (-2,)), ((2, 4, 0), (0,)), ((2, 4, 5), (5,))]
        wrong += [((3, 1, 2), (2,)), ((0, 1, 1), (0,)), ((9, 1, 1), (9,)), ((5, 4, 2), (5,))]
        for (k, num_groups, top_groups), values in wrong:
            sentence = f"k={k}, num_groups={num_groups}, top_groups={top_groups} with 8 experts is refused"
            inputs = {"logits": draw.normal(3, 8), "bias": draw.normal(8), "k": k}
            call = Call(inputs | {"num_groups": num_groups, "top_groups": top_groups})
            self.refuses(attempt, call, *values, sentence=sentence)


class TestUpdateBias(Contract):
    name = "update_bias"
    oracle = one_expert_at_a_time
    variants = (moved,)
    differentiable = False
    grows = RouterContract.grows
    growth_sizes = RouterContract.growth_sizes
    cases = {
        "seven_experts": {},
        "a_sequence": {"shape": (2, 5), "k": 3},
        "a_large_rate": {"rate": 0.75},
        "unused_experts": {"used": 3},
    }
    more_shapes = {"one_token": {"shape": ()}, "three_leading_dimensions": {"shape": (2, 1, 3)}}
    hard_cases = {
        "loads_that_half_precision_rounds_to_the_mean": lambda d: Call(
            {
                "bias": d.normal(3),
                "experts": torch.arange(3).repeat_interleave(torch.tensor([2049, 2048, 2047]))[:, None],
                "rate": 0.5,
            }
        )
    }
    representative = (*cases, *hard_cases)
    timed = {"shape": (4096,), "experts": 61}
    time_limit = 5.0

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (6,), experts: int = 7, k: int = 2, used: int = 0,
        rate: float = 0.01,
    ) -> Call:  # fmt: skip
        chosen = d.positions(used or experts, *shape, k)
        return Call({"bias": d.normal(experts), "experts": chosen, "rate": rate})

    @core
    def test_an_expert_with_the_mean_load_keeps_its_bias(self, attempt: Attempt, draw: Draw) -> None:
        experts = torch.tensor([[0, 1], [2, 3], [0, 1], [1, 2]])  # loads of 2, 3, 2 and 1
        call = Call({"bias": draw.normal(4), "experts": experts, "rate": 0.5})
        self.verify(attempt, draw, "two of four experts have the mean load", call)
        experts = torch.tensor([[0, 1]] * 2 + [[1, 0]] * 4 + [[2, 3], [3, 4], [4, 2]] * 3)  # 2/15 + 4/15 ≠ 2/5
        call = Call({"bias": draw.normal(5), "experts": experts, "rate": 0.5})
        self.verify(attempt, draw, "all of five experts have the mean load", call)
