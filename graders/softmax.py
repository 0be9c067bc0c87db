"""What `softmax` must do. The oracle is torch's own, in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo import rule
from dojo.bugs import WIDER, Bug, Equivalent
from dojo.contract import Contract, core, robust
from dojo.expect import Ban, Call, Draw, fail, match, tensor
from dojo.judge.proxy import Attempt
from dojo.verdict import Label, Section


def library(init: dict, params: dict, x: Tensor, dim: int = -1) -> Tensor:
    return torch.softmax(x, dim)


def from_log_weights(init: dict, params: dict, x: Tensor, dim: int = -1) -> Tensor:
    return torch.log_softmax(x, dim).exp()


def shifted_by_maximum(init: dict, params: dict, x: Tensor, dim: int = -1) -> Tensor:
    weights = (x - x.detach().amax(dim, keepdim=True)).exp()
    return weights / weights.sum(dim, keepdim=True)


def by_one_norm(init: dict, params: dict, x: Tensor, dim: int = -1) -> Tensor:
    """The norm adds up one entry after the other, which is the least accurate sum there is."""
    return F.normalize((x - x.amax(dim, keepdim=True)).exp(), p=1, dim=dim)


class _WrittenOut(torch.autograd.Function):
    """Softmax with the gradient w ⊙ (g - Σ g w), whose sum is off by more than its terms may round.

    Where one weight is nearly 1 the difference cancels, and what is left of the roundings may by chance be the same in
    every way of computing, but need not be in the attempt's.
    """

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, dim: int) -> Tensor:
        weights = torch.softmax(x, dim)
        ctx.save_for_backward(weights)
        ctx.dim = dim
        return weights

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        terms = weights * grad
        slip = 4 * torch.finfo(weights.dtype).eps * terms.abs()
        return weights * (grad - (terms + slip).sum(ctx.dim, keepdim=True)), None


def written_out(init: dict, params: dict, x: Tensor, dim: int = -1) -> Tensor:
    return _WrittenOut.apply(x, dim)


FAR = torch.tensor([0.0, 300.0, -300.0, 80.0, -80.0])
IN_PYTHON = (
    "torch._refs.softmax",
    "torch._refs.log_softmax",
    "torch._refs.logsumexp",
    "torch._decomp.decompositions._softmax",
    "torch._decomp.decompositions._log_softmax",
    "torch._decomp.decompositions.safe_softmax",
    "torch.distributions.transforms.SoftmaxTransform._call",
)


class TestSoftmax(Contract):
    name = "softmax"
    oracle = library
    variants = (library, from_log_weights, shifted_by_maximum, by_one_norm, written_out)
    axes = {"x": "batch rows columns", "result": "batch rows columns"}
    ban = Ban(r"softmax|log\w*sumexp|scaled_dot_product|_attention", IN_PYTHON)
    rounded_once = True
    growth_sizes = (8, 20)  # no fewer entries than an online softmax has blocks

    cases = {
        "one_row": lambda d: Call({"x": d.normal(5)}),
        "rows_of_different_scale": lambda d: Call({"x": d.normal(3, 7) * torch.tensor([[0.1], [5.0], [40.0]])}),
        "first_dimension": lambda d: Call({"x": d.normal(3, 5, 7, scale=3), "dim": 0}),
        "middle_dimension": lambda d: Call({"x": d.normal(3, 5, 7, scale=3), "dim": -2}),
        "last_dimension_by_number": lambda d: Call({"x": d.normal(3, 5, 7, scale=3), "dim": 2}),
        "rows_far_apart": lambda d: Call(
            {"x": d.normal(3, 5, 7) + torch.stack([FAR, FAR.roll(1), FAR.roll(2)])[..., None]}
        ),
        "columns_far_apart": lambda d: Call(
            {"x": d.normal(7, 3, 5) + torch.stack([FAR, FAR.roll(1), FAR.roll(2)]), "dim": 0}
        ),
        "columns_with_entries_of_minus_infinity": lambda d: Call(
            {
                "x": d.normal(7, 3, 5).masked_fill(
                    ~d.mask(7, 1, 5, share=0.5) & (torch.arange(7) > 0)[:, None, None], -torch.inf
                ),
                "dim": 0,
            }
        ),
        "long_row": lambda d: Call({"x": d.normal(2, 3001)}),
        "some_entries_of_minus_infinity": lambda d: Call(
            {"x": d.normal(3, 5, 7).masked_fill(~d.mask(3, 5, 7) & d.mask(1, 5, 1), -torch.inf)[:, [0, 2, 3, 4]]}
        ),
    }
    more_shapes = {
        "one_entry": lambda d: Call({"x": d.normal(1)}),
        "length_one": lambda d: Call({"x": d.normal(3, 1)}),
        "one_axis_by_number": lambda d: Call({"x": d.normal(5), "dim": 0}),
        "first_of_four_axes": lambda d: Call({"x": d.normal(5, 1, 3, 2), "dim": -4}),
        "five_axes": lambda d: Call({"x": d.normal(2, 3, 1, 5, 4), "dim": 1}),
        "first_of_five_axes": lambda d: Call({"x": d.normal(2, 3, 1, 5, 4), "dim": 0}),
        "fourth_of_five_axes": lambda d: Call({"x": d.normal(2, 3, 1, 5, 4), "dim": -2}),
    }

    @staticmethod
    def near_300(d: Draw) -> Call:
        return Call({"x": 300 + d.normal(3, 4096)})

    growth = {
        "rows": lambda d, n: Call({"x": d.normal(n, 5)}),
        "columns": lambda d, n: Call({"x": d.normal(3, n)}),
        "entries along the first axis": lambda d, n: Call({"x": d.normal(n, 5), "dim": 0}),
        "columns beside the first axis": lambda d, n: Call({"x": d.normal(5, n), "dim": 0}),
        "batch": lambda d, n: Call({"x": d.normal(n, 3, 5), "dim": 1}),
    }

    @staticmethod
    def linear_in(d: Draw, n: int) -> Call:
        return Call({"x": d.normal(3, n)})

    @staticmethod
    def timed(d: Draw) -> Call:
        return Call({"x": d.normal(512, 1024)})

    time_limit = 15.0

    @core
    def test_any_finite_input_gives_finite_weights(self, attempt: Attempt, draw: Draw) -> None:
        big = 1e38
        for case, rows in {
            "large": [1e4, 1e4 - 1, 0.0],
            "very_negative": [[-1e4, -1e4 + 1, -2e4]],
            "both_ends": [[1e4, -1e4, 0.0]],
            "largest": [[big, -big, 0.0], [big, big, -big], [-big, -big, -big]],
        }.items():
            for dtype in (torch.float32, torch.float64):
                self.verify(attempt, draw, case, Call({"x": torch.tensor(rows)}), dtype, gradients=True)

    @core
    def test_large_entries_cost_no_accuracy(self, attempt: Attempt) -> None:
        """Weights depend on differences alone, and those of large entries are exact: what rounds are large sums."""
        big = 1e38
        x = torch.tensor([[1e4, 1e4 - 1, 1e4 - 3], [-1e4, -1e4 - 2, -1e4 - 1], [big, big, -big], [-big, -big, -big]])
        got, expected = tensor(attempt.softmax(x.to(attempt.device)), attempt.device), torch.softmax(x.double(), -1)
        context = Section(Label.INPUT, f"x = {x.tolist()}")
        match(got.cpu(), expected, 1e-5 * expected, "large entries cost no accuracy", "rows columns", context)

    @core
    def test_every_weight_is_accurate_however_small(self, attempt: Attempt) -> None:
        x = torch.tensor([[0.0, -20.0, -40.0, -60.0, -80.0, -torch.inf]])
        got, expected = tensor(attempt.softmax(x.to(attempt.device)), attempt.device), torch.softmax(x.double(), -1)
        context = Section(Label.INPUT, f"x = {x.tolist()}")
        match(got.cpu(), expected, 1e-4 * expected, "every weight has four right digits", "rows columns", context)

    @core
    def test_dim_is_the_second_argument(self, attempt: Attempt, draw: Draw) -> None:
        call = Call({"x": draw.normal(3, 5), "dim": 0})
        got = {"result": attempt.softmax(call.inputs["x"].to(attempt.device), 0)}
        self.compare(attempt, draw, "softmax(x, 0)", call, got, torch.float32, None)

    @core
    def test_a_row_of_only_minus_infinity_gives_nan(self, attempt: Attempt, draw: Draw) -> None:
        x = draw.normal(3, 5)
        x[1] = -torch.inf
        for dtype in (torch.float32, torch.float64, *rule.HALF):
            self.verify(attempt, draw, "one_row_all_minus_infinity", Call({"x": x}), dtype)

    @robust
    def test_the_sum_of_a_long_row_does_not_overflow_float16(self, attempt: Attempt, draw: Draw) -> None:
        self.verify(attempt, draw, "equal_entries", Call({"x": torch.full((1, 70_001), 300.0)}), torch.float16)

    @robust
    def test_rows_sum_to_one_in_float32(self, attempt: Attempt, draw: Draw) -> None:
        x = draw.normal(7, 1000, scale=10).to(attempt.device)
        sums = tensor(attempt.softmax(x), attempt.device).cpu().sum(-1)
        if not torch.allclose(sums, torch.ones(7), rtol=0, atol=1e-5):
            fail("the weights of a row sum to 1", f"sums lie between {sums.min():.6f} and {sums.max():.6f}")

    @robust
    def test_differences_to_the_maximum_are_taken_in_float32(self, attempt: Attempt, draw: Draw) -> None:
        """In half precision 80 - 0.2 is 80, and 10 - 0.0035 is 10: small weights would be off by many roundings."""
        for dtype, large, small in ((torch.bfloat16, 80.0, 0.2), (torch.float16, 9.5, 0.0035)):
            x = torch.tensor([[large] + [small] * 7], dtype=dtype)
            got, expected = tensor(attempt.softmax(x.to(attempt.device)), attempt.device), torch.softmax(x.double(), -1)
            one_rounding = torch.finfo(dtype).eps / 2 * expected
            context = Section(Label.INPUT, f"a row of one {large} and seven {small}, {dtype}")
            sentence = "half precision is rounded once, at the end"
            match(got.cpu(), expected, 4 * one_rounding, sentence, "rows columns", context)


BUGS = [
    Bug(
        "no shift by the maximum",
        "exp overflows float32 above 88, and inf / inf is nan; a row far below 0 becomes 0 / 0.",
        "shifted = x.to(acc) - row_max",
        "shifted = x.to(acc)",
    ),
    Bug(
        "the maximum of the whole tensor instead of the row",
        "a row far below the largest entry of another row underflows to 0 / 0.",
        "row_max = x.detach().amax(dim=dim, keepdim=True)",
        "row_max = x.detach().max()",
    ),
    Bug(
        "dim ignored: always the last dimension",
        "the weights must sum to 1 along `dim`, whichever it is.",
        "total = exp.sum(dim=dim, keepdim=True)",
        "total = exp.sum(dim=-1, keepdim=True)",
    ),
    Bug(
        "normalised over the whole tensor",
        "each row has a normaliser of its own.",
        "total = exp.sum(dim=dim, keepdim=True)",
        "total = exp.sum()",
    ),
    Bug(
        "not normalised",
        "the exponentials must be divided by their sum.",
        "return (exp / total).to(x.dtype)",
        "return exp.to(x.dtype)",
    ),
    Bug(
        "a small constant added to the denominator",
        "the sum is at least 1 once the maximum is subtracted, so nothing needs saving; now rows sum to less than 1.",
        "total = exp.sum(dim=dim, keepdim=True)",
        "total = exp.sum(dim=dim, keepdim=True) + 1e-3",
    ),
    Bug(
        "detached from the graph",
        "the values are right but no gradient flows back to `x`.",
        "shifted = x.to(acc) - row_max",
        "shifted = x.detach().to(acc) - row_max",
    ),
    Bug(
        "the normaliser detached",
        "the gradient of softmax is y ⊙ (g − Σ g y); without the path through the sum only the first term is left.",
        "total = exp.sum(dim=dim, keepdim=True)",
        "total = exp.sum(dim=dim, keepdim=True).detach()",
    ),
    Bug(
        "computed in half precision",
        "the difference to the maximum, rounded to half precision, is off by whole units once it is large.",
        "acc = torch.promote_types(x.dtype, torch.float32)",
        "acc = x.dtype",
    ),
    Bug(
        "the result left in float32",
        "the result has the dtype of the input.",
        "return (exp / total).to(x.dtype)",
        "return exp / total",
    ),
    Bug(
        "the maximum subtracted in place",
        "the caller's tensor is modified.",
        "shifted = x.to(acc) - row_max",
        "shifted = x.to(acc).sub_(row_max) if not x.requires_grad else x.to(acc) - row_max",
    ),
    Bug(
        "base 2 instead of e",
        "exp2 is a softmax at temperature 1 / ln 2.",
        "exp = torch.exp(shifted)",
        "exp = torch.exp2(shifted)",
    ),
    Bug(
        "nan hidden in rows of only minus infinity",
        "such a row has no answer; torch gives nan, and zeros would hide the mistake that made it.",
        "return (exp / total).to(x.dtype)",
        "return torch.nan_to_num(exp / total).to(x.dtype)",
    ),
    Bug(
        "maximum and logarithm of the sum subtracted at once",
        "beside a maximum of 1e4 the logarithm is rounded to three digits, and beside 1e38 it is lost.",
        "return (exp / total).to(x.dtype)",
        "return torch.exp(x.to(acc) - (row_max + total.log())).to(x.dtype)",
    ),
]

EQUIVALENT = (
    WIDER,
    Equivalent(r"x\.detach\(\)\.amax.*→.*x\.amax", "the gradients through the maximum cancel."),
)
