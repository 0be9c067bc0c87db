"""What clipping and accumulating must do. The oracles make one long vector, and one sum over tokens."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Ban,
    Call,
    Contract,
    Draw,
    core,
    fail,
    match,
    robust,
    tensor,
)

Grads = list[Tensor | None]


def one_long_vector(grads: Grads, max_norm: float, eps: float) -> tuple:
    whole = torch.cat([grad.flatten() for grad in grads if grad is not None])
    norm = (whole * whole).sum() ** 0.5
    if norm + eps <= max_norm:
        return [grad if grad is None else 1 * grad for grad in grads], norm
    return [grad if grad is None else grad * max_norm / (norm + eps) for grad in grads], norm


def norm_of_norms(grads: Grads, max_norm: float, eps: float) -> tuple:
    wide = torch.promote_types(next(grad for grad in grads if grad is not None).dtype, torch.float32)
    norms = [torch.linalg.vector_norm(grad, dtype=wide) for grad in grads if grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(norms))
    factor = torch.clamp(max_norm / (norm + eps), max=1.0)
    return [grad if grad is None else (grad * factor).to(grad.dtype) for grad in grads], norm


def in_turn(grads: Grads, max_norm: float, eps: float) -> tuple:
    """Squares one after the other, which is the least accurate sum there is."""
    wide = torch.promote_types(next(grad for grad in grads if grad is not None).dtype, torch.float32)
    squares = torch.cat([grad.to(wide).flatten() for grad in grads if grad is not None]).square().cumsum(0)
    norm = squares[-1].sqrt()
    factor = torch.minimum(max_norm / (norm + eps), torch.ones_like(norm))
    return [grad if grad is None else (grad.to(wide) * factor).to(grad.dtype) for grad in grads], norm


def over_tokens(grads: list[Grads], counts: list[int]) -> Grads:
    found: Grads = []
    for parts in zip(*grads, strict=True):
        sums = [part * n for part, n in zip(parts, counts, strict=True) if part is not None and n]
        some = next((part for part in parts if part is not None), None)
        found.append(some if some is None else sum(sums, torch.zeros_like(some)) / max(1, sum(counts)))
    return found


def weighted(grads: list[Grads], counts: list[int]) -> Grads:
    total = max(1, sum(counts))
    found: Grads = []
    for parts in zip(*grads, strict=True):
        there = [(part, n) for part, n in zip(parts, counts, strict=True) if part is not None]
        if not there:
            found.append(None)
            continue
        dtype = there[0][0].dtype
        wide = torch.promote_types(dtype, torch.float32)
        kept = [part.to(wide) * n / total for part, n in there if n]
        found.append((sum(kept) if kept else torch.zeros_like(there[0][0])).to(dtype))
    return found


class TestClipByGlobalNorm(Contract):
    name = "clip_by_global_norm"
    oracle = one_long_vector
    variants = (norm_of_norms, in_turn)
    results = ("clipped", "norm")
    ban = Ban(r"clip_grad|_foreach_clip", ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.get_total_norm",
              "torch.nn.utils.clip_grads_with_norm_", "torch.nn.utils.clip_grad_value_"))  # fmt: skip
    off = {"test_each_call_stands_alone": "what is not clipped may be the tensors that came"}
    cases = {
        "clipped": {},
        "with_none": {"none": True},
        "not_clipped": {"max_norm": 100.0},
        "one_tensor": {"shapes": ((4, 3),)},
        "a_large_eps": {"eps": 0.5},
        "clipped_for_eps_alone": {"eps": 100.0, "max_norm": 50.0},
        "tensors_of_different_size": {"shapes": ((3, 2), (5,)), "scales": (10.0, 0.1)},
    }
    more_shapes = {
        "a_number": {"shapes": ((), (3,))},
        "no_entries": {"shapes": ((0, 3), (4,))},
        "many_axes": {"shapes": ((2, 1, 3, 2), (1,))},
    }
    near_300 = {"shapes": ((64, 3),), "offset": 300.0}
    grows = {"entries": "entries"}
    memory_in = "entries"
    timed = {"entries": 200_000}
    time_limit = 8.0

    @classmethod
    def call(
        cls, d: Draw, shapes: tuple = ((3, 2), (4,), (2, 2, 2)), scales: tuple = (), max_norm: float = 0.7,
        none: bool = False, entries: int = 0, offset: float = 0.0, **eps: float,
    ) -> Call:  # fmt: skip
        shapes = ((entries, 2), (entries,)) if entries else shapes
        grads: Grads = [offset + d.normal(*shape) for shape in shapes]
        grads = [grad * scale for grad, scale in zip(grads, scales or [1.0] * len(grads), strict=True)]
        return Call({"grads": [None, *grads[:1], None, *grads[1:]] if none else grads, "max_norm": max_norm, **eps})

    def result_dtype(self, name: str, call: Call, dtype: torch.dtype) -> torch.dtype:
        return torch.promote_types(dtype, torch.float32) if name == "norm" else dtype

    @core
    def test_what_need_not_be_clipped_comes_back_bit_for_bit(self, attempt: Attempt, draw: Draw) -> None:
        grads = [draw.normal(3, 4), draw.normal(5), draw.normal(2) * 1e-30]
        norm = math.sqrt(sum(grad.double().square().sum().item() for grad in grads))
        near = [grad * (15.999 / norm) for grad in grads]
        for given, largest in ((near, 16.0), (grads, 20.0), (grads, 1e3), (grads, 1e30)):
            call = Call({"grads": given, "max_norm": largest})
            with self.case_context(attempt, f"max_norm {largest}", call):
                clipped, _ = self.leaves_of(attempt, call)
                for got, grad in zip(clipped, given, strict=True):
                    match(got, grad, None, "what need not be clipped comes back bit for bit", "rows columns")

    @robust
    def test_gradients_of_different_dtypes_keep_theirs(self, attempt: Attempt, draw: Draw) -> None:
        """In mixed precision norms stay in float32 and matrices in bfloat16: the optimiser meets a dtype it did not
        expect.
        """
        for kinds in ((torch.bfloat16, torch.float32), (torch.float16, torch.bfloat16), (torch.float32, torch.float64)):
            grads = [draw.normal(3, 2).to(kinds[0]), draw.normal(4).to(kinds[1])]
            call = Call({"grads": grads, "max_norm": 0.5})
            with self.case_context(attempt, "two dtypes", call):
                clipped, norm = self.leaves_of(attempt, call)
                for got, grad in zip(clipped, grads, strict=True):
                    if got.dtype is not grad.dtype:
                        fail("each gradient keeps its dtype", f"got {got.dtype} for {grad.dtype}")
                wide = torch.float64 if torch.float64 in kinds else torch.float32
                if norm.dtype is not wide:
                    fail("the norm is float32, or float64 if a gradient is", f"got {norm.dtype} for {kinds}")
                exact = math.sqrt(sum(grad.double().square().sum().item() for grad in grads))
                match(norm.double(), torch.tensor(exact).double(), torch.tensor(1e-5 * exact), "the norm of all", "")

    @robust
    def test_nothing_has_the_norm_zero(self, attempt: Attempt) -> None:
        """A model that is frozen whole makes the step fail."""
        for grads in ([], [None, None], [torch.zeros(3)]):
            call = Call({"grads": grads, "max_norm": 1.0})
            with self.case_context(attempt, f"{len(grads)} gradients, none of them above 0", call):
                clipped, norm = self.leaves_of(attempt, call)
                match(norm, torch.tensor(0.0), None, "the norm of nothing is 0, in float32", "")
                if norm.dtype is not torch.float32:
                    fail("the norm of nothing is 0, in float32", f"got {norm.dtype}")
                if len(clipped) != len(grads) or any((a is None) is not (b is None) for a, b in zip(clipped, grads)):  # noqa: B905
                    fail("None stays None", f"got {clipped} for {grads}")
                for got, grad in zip(clipped, grads, strict=True):
                    if grad is not None:
                        match(got, grad, None, "gradients of 0 stay 0", "n")

    @robust
    def test_a_max_norm_that_is_not_positive_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """With 0 nothing is ever learnt, and with a negative number the step goes uphill."""
        self.refuses_each(attempt, Call({"grads": [draw.normal(3)]}), max_norm=(0.0, -0.5))

    def leaves_of(self, attempt: Attempt, call: Call) -> tuple[list, Tensor]:
        """The clipped gradients and the norm, on the CPU."""
        args, kwargs = self.arguments(call.to(attempt.device))
        result = attempt.clip_by_global_norm.request(args, kwargs)["value"]
        self.named(result)
        clipped, norm = result
        device = attempt.device if any(each is not None for each in clipped) else "cpu"  # of no gradients on none
        return [each if each is None else tensor(each, device).cpu() for each in clipped], tensor(norm, device).cpu()


def parts_that_cancel(d: Draw) -> Call:
    """What is left of three parts is less than the rounding of one in half precision."""
    first, second = d.normal(3, 4), d.normal(3, 4)
    return Call({"grads": [[first], [second], [-(first + 2 * second) / 3]], "counts": [1, 2, 3]})


def many_small_parts(d: Draw) -> Call:
    """A large part, and a hundred that half precision does not see beside it."""
    large, *small = d.uniform(101, 5, low=0.3, high=0.45)
    return Call({"grads": [[1 + large], *([each] for each in small)], "counts": [900] + [1] * 100})


class TestAccumulateGradients(Contract):
    name = "accumulate_gradients"
    oracle = over_tokens
    variants = (weighted,)
    ban = TestClipByGlobalNorm.ban
    rounded_once = True
    cases = {
        "two_microbatches": {},
        "of_many_sizes": {"counts": (1, 7, 3, 100)},
        "one_microbatch": {"counts": (5,)},
        "none_in_one_and_none_in_all": {"none": True},
    }
    more_shapes = {"a_number": {"shapes": ((), (1,))}, "no_entries": {"shapes": ((0, 3), (2,))}}
    hard_cases = {"parts_that_cancel": parts_that_cancel, "many_small_parts": many_small_parts}
    representative = (*cases, *hard_cases)
    near_300 = {"counts": (3, 2000, 1), "offset": 300.0}
    grows = {"entries": "entries"}
    memory_in = "entries"
    timed = {"entries": 200_000}
    time_limit = 8.0

    @classmethod
    def call(
        cls, d: Draw, shapes: tuple = ((3, 2), (4,)), counts: tuple = (2, 6), none: bool = False, entries: int = 0,
        offset: float = 0.0,
    ) -> Call:  # fmt: skip
        shapes = ((entries, 2), (entries,)) if entries else shapes
        grads = [[offset + d.normal(*shape) for shape in shapes] for _ in counts]
        if none:
            grads = [[*each, None, d.normal(2) if number else None] for number, each in enumerate(grads)]
        return Call({"grads": grads, "counts": list(counts)})

    @core
    def test_a_microbatch_without_tokens_takes_no_part(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, counts=(2, 0, 5))
        self.verify(attempt, draw, "a count of 0", call)
        first, empty, last = call.inputs["grads"]
        for garbage in (math.nan, math.inf):
            spoilt = [torch.full_like(each, garbage) for each in empty]
            self.verify(attempt, draw, f"a count of 0 with {garbage}", call.with_inputs(grads=[first, spoilt, last]))

    @robust
    def test_no_tokens_at_all_give_zeros(self, attempt: Attempt, draw: Draw) -> None:
        """A batch whose answers were all cut off divides by 0, and every weight is nan."""
        for none in (False, True):
            self.verify(attempt, draw, "counts of 0 alone", self.call(draw, counts=(0, 0), none=none))

    @robust
    def test_wrong_counts_and_lengths_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Gradients of one microbatch are dropped without a word, or subtracted."""
        call = self.call(draw)
        for counts, values in (([2, -1], (-1,)), ([2], (1, 2)), ([2, 3, 4], (2, 3))):
            sentence = f"counts {counts} for 2 microbatches are refused"
            self.refuses(attempt, call.with_inputs(counts=counts), *values, sentence=sentence)
        long, short = self.call(draw, shapes=((3, 2), (4,), (5,), (2,))).inputs["grads"]
        for counts in ([2, 3], [2, 0]):
            unlike, sentence = (
                Call({"grads": [long, short[:3]], "counts": counts}),
                "microbatches of 4 and of 3 gradients",
            )
            self.refuses(attempt, unlike, 4, 3, sentence="microbatches of 4 and of 3 gradients are refused")
