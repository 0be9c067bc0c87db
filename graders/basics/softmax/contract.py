"""What `softmax` must do. The oracle is torch's own, in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Contract, Draw, core, fail, half_precisions, match, robust

LARGE = {
    "large": [1e4, 1e4 - 1, 0.0],
    "very_negative": [[-1e4, -1e4 + 1, -2e4]],
    "both_ends": [[1e4, -1e4, 0.0]],
}
LARGEST = {"largest": [[1e38, -1e38, 0.0], [1e38, 1e38, -1e38], [-1e38, -1e38, -1e38]]}
FAR = torch.tensor([[0, 300, -300, 80, -80], [-80, 0, 300, -300, 80], [80, -80, 0, 300, -300]])
IN_PYTHON = """
    torch._refs.softmax torch._refs.log_softmax torch._refs.logsumexp torch._decomp.decompositions._softmax
    torch._decomp.decompositions._log_softmax torch._decomp.decompositions.safe_softmax
    torch.distributions.transforms.SoftmaxTransform._call
"""


def library(x: Tensor, dim: int = -1) -> Tensor:
    return torch.softmax(x, dim)


def from_log_weights(x: Tensor, dim: int = -1) -> Tensor:
    return torch.log_softmax(x, dim).exp()


def shifted_by_maximum(x: Tensor, dim: int = -1) -> Tensor:
    weights = (x - x.detach().amax(dim, keepdim=True)).exp()
    return weights / weights.sum(dim, keepdim=True)


def by_one_norm(x: Tensor, dim: int = -1) -> Tensor:
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


def written_out(x: Tensor, dim: int = -1) -> Tensor:
    return _WrittenOut.apply(x, dim)


class TestSoftmax(Contract):
    name = "softmax"
    oracle = library
    variants = (library, from_log_weights, shifted_by_maximum, by_one_norm, written_out)
    axes = {"x": "batch rows columns", "result": "batch rows columns"}
    ban = Ban(r"softmax|log\w*sumexp|scaled_dot_product|_attention", tuple(IN_PYTHON.split()))
    rounded_once = True
    holds = {
        "Extremes": ("test_large_entries", "test_any_finite_input"),
        "Small weights": ("test_every_weight_is_accurate", "test_rows_sum_to_one"),
        "Empty rows": ("test_a_row_of_only_minus_infinity",),
        "Half precision": ("test_half_precision", "test_the_sum_of_a_long_row", "test_differences_to_the_maximum"),
    }
    cases = {
        "one_row": {"shape": (5,)},
        "rows_of_different_scale": {"shape": (3, 7), "scale": [[0.1], [5.0], [40.0]]},
        "first_dimension": {"shape": (3, 5, 7), "scale": 3.0, "dim": 0},
        "middle_dimension": {"shape": (3, 5, 7), "scale": 3.0, "dim": -2},
        "rows_far_apart": {"shape": (3, 5, 7), "offset": FAR[..., None]},
        "columns_far_apart": {"shape": (7, 3, 5), "offset": FAR, "dim": 0},
        "columns_with_entries_of_minus_infinity": {"shape": (7, 3, 5), "hidden": (7, 1, 5), "dim": 0},
        "long_row": {"shape": (2, 3001)},
        "some_entries_of_minus_infinity": {"shape": (3, 4, 7), "hidden": (3, 4, 7)},
    }
    more_shapes = {
        "one_entry": {"shape": (1,)},
        "length_one": {"shape": (3, 1)},
        "first_of_four_axes": {"shape": (5, 1, 3, 2), "dim": -4},
        "five_axes": {"shape": (2, 3, 1, 5, 4), "dim": 1},
        "first_of_five_axes": {"shape": (2, 3, 1, 5, 4), "dim": 0},
    }
    near_300 = {"shape": (3, 4096), "offset": 300.0}
    grows = {"rows": "rows", "columns": "columns"}
    growth = {
        "entries along the first axis": lambda d, n: Call({"x": d.normal(n, 5), "dim": 0}),
        "columns beside the first axis": lambda d, n: Call({"x": d.normal(5, n), "dim": 0}),
        "batch": lambda d, n: Call({"x": d.normal(n, 3, 5), "dim": 1}),
    }
    growth_sizes = (8, 20)  # no fewer entries than an online softmax has blocks
    memory_in = "columns"
    timed = {"rows": 512, "columns": 1024}

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (), rows: int = 3, columns: int = 5, scale: float | list = 1.0,
        offset: float | Tensor = 0.0, hidden: tuple = (), **dim: int,
    ) -> Call:  # fmt: skip
        """A call on normal inputs. Entries of -inf leave the first row and the first column alone."""
        x = d.normal(*(shape or (rows, columns))) * torch.tensor(scale) + offset
        if hidden:
            gone = d.uniform(*hidden) < 0.4
            gone[0] = gone[..., 0] = False
            x = x.masked_fill(gone, -torch.inf)
        return Call({"x": x, **dim})

    def is_accurate(self, attempt: Attempt, x: Tensor, share: float, sentence: str) -> None:
        """Each weight is off by no more than this share of it."""
        call, told = Call({"x": x}), f"x = {x.tolist()}"
        got, expected = self.run(attempt, told, call, x.dtype), torch.softmax(x.double(), -1)
        with self.case_context(attempt, told, call):
            match(got, expected, share * expected, sentence, self.axes["result"])

    @core
    def test_large_entries_give_finite_weights(self, attempt: Attempt, draw: Draw) -> None:
        for case, rows in LARGE.items():
            self.verify(attempt, draw, case, Call({"x": torch.tensor(rows)}), gradients=True)

    @robust
    def test_any_finite_input_gives_finite_weights(self, attempt: Attempt, draw: Draw) -> None:
        """A score that was masked with the smallest number there is turns its row into nan."""
        for case, rows in (LARGE | LARGEST).items():
            for dtype in (torch.float32, torch.float64):
                self.verify(attempt, draw, case, Call({"x": torch.tensor(rows)}), dtype, gradients=True)

    @robust
    def test_large_entries_cost_no_accuracy(self, attempt: Attempt) -> None:
        """Weights of large logits no longer sum to 1, and whoever compares two ways of computing finds them apart."""
        # Weights depend on differences alone, and those of large entries are exact: what rounds are large sums.
        x = torch.tensor(
            [[1e4, 1e4 - 1, 1e4 - 3], [-1e4, -1e4 - 2, -1e4 - 1], [1e38, 1e38, -1e38], [-1e38, -1e38, -1e38]]
        )
        self.is_accurate(attempt, x, 1e-5, "large entries cost no accuracy")

    @core
    def test_every_weight_is_accurate_however_small(self, attempt: Attempt) -> None:
        x = torch.tensor([[0.0, -20.0, -40.0, -60.0, -80.0, -torch.inf]])
        self.is_accurate(attempt, x, 1e-4, "every weight has four right digits")

    @robust
    def test_a_row_of_only_minus_infinity_gives_nan(self, attempt: Attempt, draw: Draw) -> None:
        """A mask that hides everything by mistake goes unnoticed: its rows look like answers."""
        x = draw.normal(3, 5)
        x[1] = -torch.inf
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            self.verify(attempt, draw, "one_row_all_minus_infinity", Call({"x": x}), dtype)

    @robust
    def test_the_sum_of_a_long_row_does_not_overflow_float16(self, attempt: Attempt, draw: Draw) -> None:
        """Over a long context, or a large vocabulary, all weights become 0."""
        self.verify(attempt, draw, "equal_entries", Call({"x": torch.full((1, 70_001), 300.0)}), torch.float16)

    @robust
    def test_rows_sum_to_one_in_float32(self, attempt: Attempt, draw: Draw) -> None:
        """Probabilities do not sum to 1: sampling from them is off, or refused."""
        sums = self.run(attempt, "long rows", Call({"x": draw.normal(7, 1000, scale=10)})).sum(-1)
        if not torch.allclose(sums, torch.ones(7), rtol=0, atol=1e-5):
            fail("the weights of a row sum to 1", f"sums lie between {sums.min():.6f} and {sums.max():.6f}")

    @robust
    def test_differences_to_the_maximum_are_taken_in_float32(self, attempt: Attempt, draw: Draw) -> None:
        """Small weights are off by many roundings. Code without `.float()` does this too: fine as long as the caller
        widens.
        """
        # In half precision 80 - 0.2 is 80, and 10 - 0.0035 is 10.
        for dtype, large, small in ((torch.bfloat16, 80.0, 0.2), (torch.float16, 9.5, 0.0035)):
            x = torch.tensor([[large] + [small] * 7], dtype=dtype)
            four_roundings = 2 * torch.finfo(dtype).eps
            self.is_accurate(attempt, x, four_roundings, "half precision is rounded once, at the end")

    @robust
    @half_precisions
    def test_half_precision_is_rounded_at_the_end_alone(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """Each rounding on the way adds an error to every weight, in every layer."""
        x = torch.linspace(-3.0, 3.0, 64).repeat(8, 1) + draw.uniform(8, 1)
        call = Call({"x": x}).cast(dtype)
        got, exact = self.run(attempt, "64 entries", call, dtype), torch.softmax(call.inputs["x"].double(), -1)
        allowed = 0.51 * torch.finfo(dtype).eps * exact
        with self.case_context(attempt, "64 entries", call):
            match(got, exact, allowed, "exponentials and sums stay in float32 until the end", self.axes["result"])
