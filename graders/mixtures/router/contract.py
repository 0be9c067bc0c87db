"""What the three functions must do. The oracles sort in Python, token by token, and add up expert by expert."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Contract, Draw, RoundedOnceContract

LEADING = {"one_token": {"shape": ()}, "three_leading_axes": {"shape": (2, 1, 3)}}
Pairs = tuple[Tensor, Tensor]


class PairsContract(RoundedOnceContract):
    """Pairs of weight and expert in any order: they are compared in that of the ids."""

    results = ("weights", "experts")
    axes = dict.fromkeys(results, "batch k")
    more_shapes = LEADING
    grows = {"tokens": "shape", "experts": "experts"}
    growth_sizes = (8, 24)

    @classmethod
    def in_order(cls, result: Pairs) -> Pairs:
        weights, experts = result
        if not (_ids(experts) and isinstance(weights, Tensor) and weights.shape == experts.shape):
            return result
        order = experts.argsort(dim=-1)
        return weights.gather(-1, order), experts.gather(-1, order)

    def named(self, result: Any, case: str = "") -> dict[str, Any]:
        found = super().named(result, case)
        whole = tuple(found) == self.results
        return dict(zip(found, self.in_order(tuple(found.values())), strict=True)) if whole else found

    def verify_all(
        self, attempt: Attempt, draw: Draw, calls: Iterable[tuple[str, Call]], dtype: torch.dtype = torch.float32,
        gradients: bool = False, training: bool = True,
    ) -> None:  # fmt: skip
        """Gradients are pulled back from what belongs to each pair, in the attempt's order, which a call tells."""
        if not gradients:
            super().verify_all(attempt, draw, calls, dtype)
            return
        for case, made in calls:
            call = made.cast(dtype)
            budget = self.budget(draw, call, dtype, gradients=True)
            if self.only_case in ("", case):
                callee, args, kwargs = self.prepare_call(attempt, call)
                request, pull = {"target": callee.target, "args": args, "kwargs": kwargs}, budget.cotangents["weights"]
                with self.case_context(attempt, case, call):
                    experts = Contract.named(self, callee.ask(do="call", **request)["value"]).get("experts")
                    if _ids(experts) and experts.shape == pull.shape:
                        pull = pull.gather(-1, experts.cpu().argsort(-1).argsort(-1))
                    answer = callee.ask(do="forward_backward", cotangents=[pull.to(attempt.device)], **request)
                got = {"result": answer["value"]}
                got |= {f"gradient of {name}": grad for name, grad in zip(call.inputs, answer["inputs"], strict=False)}
                self.compare(attempt, draw, case, call, got, dtype, budget)
            if case in (self.only_case, self.last_case):
                break


def _ids(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype is torch.int64 and value.dim() > 0


def best(values: list[float], k: int) -> list[int]:
    return sorted(range(len(values)), key=lambda place: -values[place])[:k]


def shaped(logits: Tensor, weights: list[Tensor], experts: list[list[int]]) -> Pairs:
    shape = (*logits.shape[:-1], len(experts[0]))
    return torch.stack(weights).reshape(shape), torch.tensor(experts).reshape(shape)


def by_odds(logits: Tensor) -> Tensor:
    odds = (logits - logits.detach().amax(-1, keepdim=True)).exp()
    return odds / slipping(odds.sum(-1, keepdim=True))


def slipping(total: Tensor) -> Tensor:
    """The same, with a gradient off by some roundings: what should cancel need not."""
    if total.requires_grad:
        total.register_hook(lambda grad: grad * (1 + 8 * torch.finfo(total.dtype).eps))
    return total


def by_sorting(logits: Tensor, k: int, normalize: bool) -> Pairs:
    weights, experts = [], []
    for row in logits.reshape(-1, logits.shape[-1]):
        odds = (row - row.max().detach()).exp()
        experts.append(sorted(best(row.tolist(), k)))
        weights.append(odds[experts[-1]] / (odds[experts[-1]].sum() if normalize else odds.sum()))
    return shaped(logits, weights, experts)


def of_all(logits: Tensor, k: int, normalize: bool) -> Pairs:
    experts = logits.topk(k, dim=-1).indices.sort(dim=-1).values
    weights = by_odds(logits).gather(-1, experts)
    return weights / slipping(weights.cumsum(-1)[..., -1:]) if normalize else weights, experts


def of_the_chosen(logits: Tensor, k: int, normalize: bool) -> Pairs:
    experts = logits.topk(k, dim=-1).indices.sort(dim=-1).values
    x = logits.gather(-1, experts)
    return torch.softmax(x, -1) if normalize else (x - logits.logsumexp(-1, keepdim=True)).exp(), experts


SMALL = torch.tensor([*range(-30, -19), 0.0])  # the others' probabilities are 0 in float16


class TestRoute(PairsContract):
    name = "route"
    oracle = by_sorting
    variants = (of_all, of_the_chosen)
    holds = {"Half precision": ("test_half_precision",)}
    cases = {
        "two_of_eight": {},
        "as_they_are": {"normalize": False},
        "three_of_seven": {"experts": 7, "k": 3},
        "one": {"k": 1},
        "one_as_it_is": {"k": 1, "normalize": False},
    }
    hard_cases = {"small_probabilities": lambda d: Call({"logits": torch.stack([SMALL, SMALL.flip(0)]), "k": 3})}
    representative = (*cases, *hard_cases)

    @classmethod
    def call(cls, d: Draw, shape: tuple = (9,), experts: int = 8, k: int = 2, **more: bool) -> Call:
        """Logits three quarters apart, exact in every dtype: no way of computing changes their order."""
        return Call({"logits": 0.75 * (d.positions(experts, *shape, experts) - experts // 2), "k": k, **more})


def expert_by_expert(logits: Tensor, experts: Tensor) -> Tensor:
    probs = torch.softmax(logits, -1)
    share = [(experts == e).sum().item() / experts.numel() for e in range(logits.shape[-1])]
    return logits.shape[-1] * sum(f * probs[..., e].mean() for e, f in enumerate(share))


def in_turn(logits: Tensor, experts: Tensor) -> Tensor:
    probs = by_odds(logits).reshape(-1, logits.shape[-1])
    counts = experts.reshape(-1).bincount(minlength=logits.shape[-1]).to(probs)
    return (counts / experts.numel() * probs).cumsum(0)[-1].sum() / len(probs) * logits.shape[-1]


class TestBalanceLoss(RoundedOnceContract):
    name = "balance_loss"
    oracle = expert_by_expert
    variants = (in_turn,)
    holds = {"Share": ("test_hard",), "Half precision": ("test_half",)}
    cases = {"one_of_eight": {}, "one_of_five": {"experts": 5}, "unused_experts": {"experts": 9, "used": 3}}
    more_shapes = LEADING
    hard_cases = {
        "two_of_eight": {"k": 2},
        "three_of_eight_in_a_batch": {"k": 3, "shape": (2, 5)},
    }
    grows, growth_sizes = PairsContract.grows, PairsContract.growth_sizes
    timed = {"shape": (2048,), "experts": 64}

    @classmethod
    def call(cls, d: Draw, shape: tuple = (9,), experts: int = 8, k: int = 1, used: int = 0) -> Call:
        chosen = d.positions(used or experts, *shape, k)
        return Call({"logits": d.normal(*shape, experts, scale=2.0), "experts": chosen})


def group_by_group(logits: Tensor, bias: Tensor, k: int, num_groups: int, top_groups: int) -> Pairs:
    weights, experts, size = [], [], logits.shape[-1] // num_groups
    for row in logits.reshape(-1, logits.shape[-1]):
        choice = [1 / (1 + math.exp(-x)) + b for x, b in zip(row.tolist(), bias.tolist(), strict=True)]
        groups = [sum(sorted(choice[g * size : (g + 1) * size])[-2:]) for g in range(num_groups)]
        kept = best(groups, top_groups)
        experts.append(sorted([e for e in best(choice, len(choice)) if e // size in kept][:k]))
        scores = 1 / (1 + (-row[experts[-1]]).exp())
        weights.append(scores / scores.sum())
    return shaped(logits, weights, experts)


def by_sigmoid(logits: Tensor, bias: Tensor, **more: Any) -> Pairs:
    _, experts = group_by_group(logits.detach().double(), bias.detach().double(), **more)
    weights = torch.sigmoid(logits).gather(-1, experts)
    return weights / (slipping(weights.sum(-1, keepdim=True)) + 1e-20), experts


def by_exponential(logits: Tensor, bias: Tensor, **more: Any) -> Pairs:
    _, experts = group_by_group(logits.detach().double(), bias.detach().double(), **more)
    weights = 1 / (1 + (-logits.gather(-1, experts)).exp())
    return weights / slipping(weights.cumsum(-1)[..., -1:]), experts


# Largest of them is the first by its best, the second by its two best, the third by all.
GROUPS = torch.tensor([[16.0, 0.0, 0.0], [12.0, 12.0, 0.0], [10.0, 10.0, 10.0], [4.0, 2.0, 0.0]])

HIGH = torch.arange(6.0, 14)  # whose sigmoids are 1 in half precision


class TestBiasedRoute(PairsContract):
    name = "biased_route"
    oracle = group_by_group
    variants = (by_sigmoid, by_exponential)
    constants = ("bias",)
    holds = {"Groups": ("test_hard",), "Bias": ("test_values", "test_constants"), "Half precision": ("test_half",)}
    # In ordinary cases k / top_groups is 2, and there is no choice below zero.
    cases = {
        "no_groups": {},
        "two_of_four_groups": {"shape": (2, 3), "num_groups": 4, "top_groups": 2, "k": 4},
        "one_of_three_groups": {"experts": 12, "num_groups": 3},
    }
    hard_cases = {
        "three_of_two_groups": {"num_groups": 4, "top_groups": 2, "k": 3},
        "four_of_one_group_below_zero": {"experts": 12, "num_groups": 3, "k": 4, "offset": -20.0},
        "scores_that_half_precision_rounds_to_1": lambda d: Call(
            {"logits": torch.stack([HIGH, HIGH.flip(0)]), "bias": torch.zeros(8), "k": 2}, wide=("bias",)
        ),
        "a_bias_finer_than_half_precision": lambda d: Call(
            {"logits": torch.zeros(2, 40), "bias": 1.0 + 5e-5 * d.positions(40, 40), "k": 5}, wide=("bias",)
        ),
    }
    representative = (*cases, "scores_that_half_precision_rounds_to_1", "a_bias_finer_than_half_precision")
    timed = {"shape": (512,), "experts": 64, "num_groups": 8, "top_groups": 4, "k": 8}
    timed_scale = (1.0, 1.0)  # other logits would bring two choices near one another

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (9,), experts: int = 8, k: int = 2, num_groups: int = 1, offset: float = 0.0,
        **more: int,
    ) -> Call:  # fmt: skip
        """Logits and a bias whose sums of score and bias lie apart; of groups each rule finds others the best."""
        bias, rows = offset + d.positions(experts, experts) / 8, math.prod(shape)
        if num_groups > 1:
            size, kinds = experts // num_groups, GROUPS.repeat(-(-num_groups // 4), 1)[:num_groups]
            kinds = kinds[d.positions(num_groups, num_groups)][:, [0, 1, *[2] * (size - 2)]]
            bias = offset + (bias - offset) / experts + kinds[:, d.positions(size, size)].flatten()
        tried = d.integers(-8, 9, 40 * max(rows, 8), experts) / 4.0
        choice = tried.double().sigmoid() + bias
        order = choice.sort(-1).values.diff(dim=-1).amin(-1).argsort(descending=True)
        kept = order[: len(order) // 8][d.positions(len(order) // 8, rows)]
        groups = {"num_groups": num_groups} if num_groups > 1 else {}
        return Call({"logits": tried[kept].reshape(*shape, experts), "bias": bias, "k": k, **groups, **more})
