"""What `fit` and `loss` must do. The oracle goes sample by sample, with the sigmoid by cases."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Contract, Draw, robust

Line = tuple[Tensor, Tensor]


def sigmoid(z: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-z)) if z >= 0 else torch.exp(z) / (1 + torch.exp(z))


def sample_by_sample(x: Tensor, y: Tensor, steps: int, lr: float, l2: float) -> Line:
    weight, bias = x.new_zeros(x.shape[1]), x.new_zeros(())
    for _ in range(steps):
        errors = [sigmoid((row * weight).sum() + bias) - float(label) for row, label in zip(x, y, strict=True)]
        slope = sum(error * row for error, row in zip(errors, x, strict=True)) / len(x)
        weight, bias = weight - lr * (slope + l2 * weight), bias - lr * sum(errors) / len(x)
    return weight, bias


def by_sgd(x: Tensor, y: Tensor, steps: int, lr: float, l2: float) -> Line:
    weight, bias = (torch.zeros(shape, dtype=x.dtype, requires_grad=True) for shape in (x.shape[1], ()))
    groups = [{"params": [weight], "weight_decay": l2}, {"params": [bias]}]
    optimizer = torch.optim.SGD(groups, lr=lr)
    for _ in range(steps):
        with torch.enable_grad():
            F.binary_cross_entropy_with_logits(x @ weight + bias, y.to(x.dtype)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return weight.detach(), bias.detach()


def with_a_column_of_ones(x: Tensor, y: Tensor, steps: int, lr: float, l2: float) -> Line:
    """Running sums, the least accurate there are."""
    wide, both = torch.cat([x, torch.ones_like(x[:, :1])], 1), x.new_zeros(x.shape[1] + 1)
    decay = torch.full_like(both, l2).index_fill(0, torch.tensor([x.shape[1]]), 0.0)
    for _ in range(steps):
        error = 1 / (1 + torch.exp(-(wide * both).cumsum(1)[:, -1])) - y.to(x.dtype)
        both = both - lr * ((error[:, None] * wide).cumsum(0)[-1] / len(x) + decay * both)
    return both[:-1], both[-1]


def terms(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, l2: float) -> Tensor:
    z, sign = x @ weight + bias, 2 * y.to(x.dtype) - 1
    return torch.logaddexp(torch.zeros_like(z), -sign * z).mean() + l2 / 2 * (weight @ weight)


def softplus_less_the_label(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, l2: float) -> Tensor:
    """The least accurate where a sample is sure: a small difference of two logits."""
    z = x @ weight + bias
    return (F.softplus(z) - y.to(x.dtype) * z).mean() + l2 * (weight * weight).sum() / 2


def library(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, l2: float) -> Tensor:
    z = (x * weight).sum(-1) + bias
    return F.binary_cross_entropy_with_logits(z, y.to(x.dtype)) + l2 / 2 * weight.norm() ** 2


class SamplesContract(Contract):
    differentiable = False
    half = ()
    off = {
        "test_half_precision_is_computed_in_float32": "float32 and float64 alone",
        "test_each_call_stands_alone": "it changes labels to what is neither 0 nor 1",
    }
    holds = {
        "Labels": ("test_hard_cases",),
        "Large logits": ("test_logits_in",),
        "Dtype": ("test_hard_cases", "test_float64", "test_labels_in_float64"),
        "Errors": ("test_labels_of",),
    }

    @classmethod
    def samples(cls, draw: Draw, n: int, d: int, scale: float, labels: str) -> dict[str, Tensor]:
        y = draw.integers(0, 2, n)
        return {"x": draw.normal(n, d, scale=scale) + 0.5 * scale, "y": y.to(getattr(torch, labels))}

    @robust
    def test_logits_in_the_hundreds_are_accurate(self, attempt: Attempt, draw: Draw) -> None:
        """A feature that nobody has scaled gives a loss of inf, or nan from there on."""
        self.verify(attempt, draw, "logits_in_the_hundreds", type(self).call(draw, scale=100.0))

    @robust
    def test_labels_in_float64_leave_the_dtype_as_it_is(self, attempt: Attempt, draw: Draw) -> None:
        """Labels that come from NumPy are float64, and everything after the loss is in it too."""
        call = type(self).call(draw, labels="float64")
        callee, args, kwargs = self.prepare_call(attempt, call)
        with self.case_context(attempt, "labels_of_float64", call):
            got = callee.request(args, kwargs)["value"]
        self.compare(attempt, draw, "labels_of_float64", call, {"result": got})

    @robust
    def test_labels_of_another_shape_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A column of labels broadcasts to a matrix, whose mean trains too, to something else."""
        call = type(self).call(draw)
        y = call.inputs["y"]
        self.refuses_each(attempt, call, y=(y[:, None], y[:-1], y[:1]))


class TestFit(SamplesContract):
    name, results, through = "fit", ("weight", "bias"), "with_grad"
    oracle = sample_by_sample
    variants = (sample_by_sample, by_sgd, with_a_column_of_ones)
    axes = {"weight": "d"}
    cases = {
        "one_step": {"steps": 1},
        "many_steps": {"steps": 20},
        "a_penalty": {"l2": 0.3},
        "no_step": {"steps": 0},
    }
    hard_cases = {
        "labels_of_bool": {"labels": "bool", "steps": 2},
        "labels_of_int64": {"labels": "int64", "l2": 0.1},
        "labels_of_uint8": {"labels": "uint8"},
        "many_steps_of_small_features": {"steps": 120, "scale": 1e-3},
    }
    timed = {"n": 512, "d": 2048, "labels": "int64", "steps": 2}

    @classmethod
    def call(
        cls, draw: Draw, n: int = 11, d: int = 3, scale: float = 1.0, labels: str = "float32", steps: int = 3,
        lr: float = 0.5, **l2: float,
    ) -> Call:  # fmt: skip
        return Call(cls.samples(draw, n, d, scale, labels) | {"steps": steps, "lr": lr, **l2})


class TestLoss(SamplesContract):
    name = "loss"
    oracle, variants = terms, (terms, library, softplus_less_the_label)
    axes = {"x": "n d"}
    cases = {"no_penalty": {}, "a_penalty": {"l2": 0.3}, "one_sample": {"n": 1}}
    hard_cases = {
        "labels_of_bool": {"labels": "bool"},
        "labels_of_int64": {"labels": "int64", "l2": 0.1},
        "labels_of_uint8": {"labels": "uint8"},
    }
    timed = {"n": 1024, "d": 1024, "labels": "int64"}
    time_limit = 6.0

    @classmethod
    def call(
        cls, draw: Draw, n: int = 11, d: int = 3, scale: float = 1.0, labels: str = "float32", **l2: float
    ) -> Call:
        return Call(cls.samples(draw, n, d, scale, labels) | {"weight": draw.normal(d), "bias": draw.normal(), **l2})
