"""What clipping and accumulating must do. The oracles make one long vector, and one sum over tokens."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Contract, Draw, RoundedOnceContract, core, fail, match, robust, tensor

Grads = list[Tensor | None]


def wide(grads: Grads) -> torch.dtype:
    return torch.promote_types(next(grad for grad in grads if grad is not None).dtype, torch.float32)


def scaled(grads: Grads, factor: Tensor) -> Grads:
    return [grad if grad is None else (grad.to(wide(grads)) * factor).to(grad.dtype) for grad in grads]


def one_long_vector(grads: Grads, max_norm: float, eps: float) -> tuple:
    whole = torch.cat([grad.to(wide(grads)).flatten() for grad in grads if grad is not None])
    norm = (whole * whole).cumsum(0)[-1] ** 0.5  # the least accurate sum there is
    return scaled(grads, max_norm / (norm + eps) if norm > max_norm else torch.ones_like(norm)), norm


def norm_of_norms(grads: Grads, max_norm: float, eps: float) -> tuple:
    norms = [torch.linalg.vector_norm(grad, dtype=wide(grads)) for grad in grads if grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(norms))
    factor = torch.clamp(max_norm / (norm + eps), max=1.0)
    return [grad if grad is None else grad * factor for grad in grads], norm


def by_a_rounded_factor(grads: Grads, max_norm: float, eps: float) -> tuple:
    """The factor in the dtype of the gradients, as a product in place has it on a GPU."""
    _, norm = norm_of_norms(grads, max_norm, eps)
    factor = (max_norm / (norm + eps)).clamp(max=1.0)
    return [grad if grad is None else grad * factor.to(grad.dtype) for grad in grads], norm


def over_tokens(grads: list[Grads], counts: list[int]) -> Grads:
    found: Grads = []
    for parts in zip(*grads, strict=True):
        sums = [part * n for part, n in zip(parts, counts, strict=True) if part is not None and n]
        some = next((part for part in parts if part is not None), None)
        found.append(some if some is None else sum(sums, torch.zeros_like(some)) / max(1, sum(counts)))
    return found


def weighted(grads: list[Grads], counts: list[int]) -> Grads:
    found = over_tokens(grads, [0] * len(counts))
    for i, n in enumerate(counts):
        added = [part is not None and n > 0 for part in grads[i]]
        found = [f + g * (n / sum(counts)) if add else f for f, g, add in zip(found, grads[i], added, strict=True)]
    return found


class TestClipByGlobalNorm(Contract):
    name = "clip_by_global_norm"
    oracle = one_long_vector
    variants = (one_long_vector, norm_of_norms, by_a_rounded_factor)
    results = ("clipped", "norm")
    differentiable = False
    ban = Ban(r"clip_grad|_foreach_clip", ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.get_total_norm",
              "torch.nn.utils.clip_grads_with_norm_", "torch.nn.utils.clip_grad_value_"))  # fmt: skip
    off = {
        "test_each_call_stands_alone": "what is clipped may be the tensors that came",
        "test_inputs_and_global_state_are_left_as_they_were": "they may be scaled in place",
    }
    holds = {
        "In place": ("test_any_memory",),
        "Unclipped": ("test_what_need_not",),
        "None": ("test_hard",),
        "Half precision": ("test_half", "test_float16", "test_gradients_of_different"),
    }
    cases = {
        "clipped": {},
        "not_clipped": {"max_norm": 100.0},
        "a_large_eps": {"eps": 0.5},
        "tensors_of_different_size": {"shapes": ((3, 2), (5,)), "scales": (10.0, 0.1)},
    }
    hard_cases = {"with_none": {"none": True}}
    more_shapes = {"a_number": {"shapes": ((), (3,))}, "many_axes": {"shapes": ((2, 1, 3, 2), (1,))}}
    near_300 = {"shapes": ((64, 3),), "offset": 300.0}
    grows = {"entries": "entries"}
    memory_in = "entries"
    timed = {"entries": 200_000, "max_norm": 1e5}  # not clipped, so that the tensors stay as the clock takes them
    time_limit = 8.0

    @classmethod
    def call(
        cls, d: Draw, shapes: tuple = ((3, 2), (4,), (2, 2, 2)), scales: tuple = (1.0, 1.0, 1.0), max_norm: float = 0.7,
        none: bool = False, entries: int = 0, offset: float = 0.0, **eps: float,
    ) -> Call:  # fmt: skip
        shapes = ((entries, 2), (entries,)) if entries else shapes
        grads: Grads = [scale * (offset + d.normal(*shape)) for shape, scale in zip(shapes, scales, strict=False)]
        return Call({"grads": [None, *grads[:1], None, *grads[1:]] if none else grads, "max_norm": max_norm, **eps})

    def result_dtype(self, name: str, call: Call, dtype: torch.dtype) -> torch.dtype:
        return torch.promote_types(dtype, torch.float32) if name == "norm" else dtype

    @core
    def test_what_need_not_be_clipped_comes_back_bit_for_bit(self, attempt: Attempt, draw: Draw) -> None:
        grads = [draw.normal(3, 4), draw.normal(5), draw.normal(2) * 1e-30]
        norm = math.sqrt(sum(grad.double().square().sum().item() for grad in grads))
        near = [grad * (15.999 / norm) for grad in grads]
        for given, largest in ((near, 16.0), (grads, 20.0), (grads, 1e30)):
            clipped, _ = self.leaves_of(attempt, f"max_norm {largest}", Call({"grads": given, "max_norm": largest}))
            for got, grad in zip(clipped, given, strict=True):
                match(got, grad, None, "what need not be clipped comes back bit for bit", "rows columns")

    @robust
    def test_gradients_of_different_dtypes_keep_theirs(self, attempt: Attempt, draw: Draw) -> None:
        """Weights of norms stay in float32 beside bfloat16: the optimizer meets a dtype it did not expect."""
        for kinds in ((torch.bfloat16, torch.float32), (torch.float32, torch.float64)):
            grads = [draw.normal(3, 2).to(kinds[0]), draw.normal(4).to(kinds[1])]
            clipped, norm = self.leaves_of(attempt, "two dtypes", Call({"grads": grads, "max_norm": 0.5}))
            found = [each.dtype for each in (*clipped, norm)]
            if found != [*kinds, kinds[1]]:
                fail("each gradient keeps its dtype, and the norm has the widest", f"got {found} for {kinds}")
            exact = torch.tensor([grad.double().norm() for grad in grads]).double().norm()
            match(norm.double(), exact, 1e-5 * exact, "the norm of all", "")

    @robust
    def test_any_memory_layout_gives_the_same(self, attempt: Attempt, draw: Draw) -> None:
        """Weights are transposed in memory, and so are their gradients: `view` fails on them."""
        call = self.call(draw, shapes=((3, 2), (2, 3, 4)))
        relaid = call.with_inputs(grads=[grad.mT.contiguous().mT for grad in call.inputs["grads"]])
        self.verify(attempt, draw, "transposed in memory", relaid)

    def leaves_of(self, attempt: Attempt, told: str, call: Call) -> tuple[list, Tensor]:
        """The clipped gradients and the norm, on the CPU."""
        with self.case_context(attempt, told, call):
            args, kwargs = self.arguments(call.to(attempt.device))
            result = attempt.clip_by_global_norm.request(args, kwargs)["value"]
            self.named(result)
            clipped, norm = result
            return [tensor(each, attempt.device).cpu() for each in clipped], tensor(norm, attempt.device).cpu()


def parts_that_cancel(d: Draw) -> Call:
    """What is left of three parts is less than the rounding of one in half precision."""
    first, second = d.normal(3, 4), d.normal(3, 4)
    return Call({"grads": [[first], [second], [-(first + 2 * second) / 3]], "counts": [1, 2, 3]})


def many_small_parts(d: Draw) -> Call:
    """A large part, and a hundred that half precision does not see beside it."""
    large, *small = d.uniform(101, 5, low=0.3, high=0.45)
    return Call({"grads": [[1 + large], *([each] for each in small)], "counts": [900] + [1] * 100})


class TestAccumulateGradients(RoundedOnceContract):
    name = "accumulate_gradients"
    oracle = over_tokens
    variants = (over_tokens, weighted)
    differentiable = False
    holds = {
        "None": ("test_hard",),
        "Half precision": ("test_half",),
        "No tokens": ("test_a_microbatch",),
        "Errors": ("test_other_numbers",),
    }
    cases = {
        "two_microbatches": {},
        "three_of_different_counts": {"counts": (1, 5, 3)},
        "one_microbatch": {"counts": (4,)},
    }
    more_shapes = {"a_number": {"shapes": ((), (1,))}}
    in_half = {"parts_that_cancel": parts_that_cancel, "many_small_parts": many_small_parts}
    hard_cases = in_half | {"none_in_some_and_in_all": {"none": True}}
    representative = (*cases, *in_half)
    grows = {"entries": "entries"}
    memory_in = "entries"
    timed = {"entries": 200_000}
    time_limit = 8.0

    @classmethod
    def call(
        cls, d: Draw, shapes: tuple = ((3, 2), (4,)), counts: tuple = (2, 6), none: bool = False, entries: int = 0
    ) -> Call:
        shapes = ((entries, 2), (entries,)) if entries else shapes
        grads = [[d.normal(*shape) for shape in shapes] for _ in counts]
        if none:
            grads = [[*each, None, d.normal(2) if number else None] for number, each in enumerate(grads)]
        return Call({"grads": grads, "counts": list(counts)})

    @robust
    def test_a_microbatch_without_tokens_takes_no_part(self, attempt: Attempt, draw: Draw) -> None:
        """The mean over no tokens is nan, and one such microbatch makes every weight nan."""
        for counts in ((2, 0, 5), (0, 0, 0)):
            call = self.call(draw, counts=counts)
            first, empty, last = call.inputs["grads"]
            for garbage in (0.0, math.nan):
                spoilt = [garbage + each for each in empty]
                told = f"counts {list(counts)}, the second {'finite' if garbage == 0 else 'nan'}"
                self.verify(attempt, draw, told, call.with_inputs(grads=[first, spoilt, last]))

    @robust
    def test_other_numbers_of_counts_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Gradients of one microbatch are dropped without a word."""
        for counts, values in (([2], (1, 2)), ([2, 3, 4], (2, 3))):
            call, sentence = self.call(draw), f"counts {counts} for 2 microbatches are refused"
            self.refuses(attempt, call.with_inputs(counts=counts), *values, sentence=sentence)
