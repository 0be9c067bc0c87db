"""What `checkpoint` must do. The oracle is the function itself, with the same random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import Attempt, Ban, Draw, bare, core, fail, fast, match, robust, tensor
from dojo.contracts.checks.timing import Reading, assert_time_within, clocked, race
from dojo.judge.protocol import mapped
from dojo.judge.worker.drivers import checkpointed

WIDTH = 6
BAN = Ban("", tuple(f"torch.utils.checkpoint.{name}" for name in (
    "checkpoint", "checkpoint_sequential", "CheckpointFunction.forward", "_checkpoint_without_reentrant_generator",
)))  # fmt: skip
Asked = dict[str, Any]


def asked(
    d: Draw, *inputs: Any, blocks: int = 1, depth: int = 3, rows: int = 5, width: int = WIDTH, **more: Any
) -> Asked:
    """A request: blocks of matrices, and inputs, the first a tensor of normal numbers."""
    return {
        "inputs": [d.normal(rows, width), *inputs], "takes": [0], "cotangent": d.normal(rows, width),
        "blocks": [[d.normal(width, width, scale=width**-0.5) for _ in range(depth)] for _ in range(blocks)],
        "seed": int(d.integers(0, 2**31, 1)), **more,
    }  # fmt: skip


def plainly(made: Asked, dtype: torch.dtype) -> dict[str, Any]:
    """What it gives without checkpoints."""

    def cast(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

    return checkpointed(lambda function, *inputs: function(*inputs), **mapped(cast, made))


class TestCheckpoint:
    holds = {
        "Random numbers": ("test_a_dropout",),
        "Inputs": ("test_inputs",),
        "Upstream gradient": ("test_gradients",),
        "Runs": ("test_the_function", "test_in_no_grad", "test_uses_only", "test_time"),
        "Nesting": ("test_a_checkpoint",),
        "Memory": ("test_what_is_alive",),
    }

    @core
    def test_gradients_are_those_of_the_function(self, attempt: Attempt, draw: Draw) -> None:
        for blocks in (1, 3):
            self.follow(attempt, f"blocks: {blocks}", asked(draw, blocks=blocks))

    @core
    def test_the_function_runs_once_each_way(self, attempt: Attempt, draw: Draw) -> None:
        runs = self.ask(attempt, asked(draw, blocks=2))["runs"]
        if runs != [[1, 2], [1, 2]]:
            seen = [
                f"block {number} ran {first} times, and {last - first}" for number, (first, last) in enumerate(runs)
            ]
            fail("the function runs once forward and once backward", *seen)

    @core
    def test_what_is_alive_does_not_grow_with_depth(self, attempt: Attempt, draw: Draw) -> None:
        few, many = (self.ask(attempt, asked(draw, depth=depth, rows=64, width=64))["held"] for depth in (2, 10))
        if many >= few + 64 * 64 * 4:
            seen = f"{few} bytes behind 2 layers, {many} behind 10, whose activations have 16384 each"
            fail("between forward and backward inputs and result alone are kept", seen)

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        for nested in (False, True):
            inner = [{"do": "checkpointed", "target": "checkpoint", **asked(draw, nested=nested)}]
            request = {"do": "observe", "inner": inner, "watched": [*BAN.functions], "counted": False}
            BAN.judge(attempt.checkpoint.ask(**request)["readings"] | {"operations": {}}, attempt.parts)

    @robust
    def test_a_dropout_has_the_same_mask_in_both_runs(self, attempt: Attempt, draw: Draw) -> None:
        """The gradients are those of another function, and all later random numbers differ from a run without. Code
        that keeps no random state does this: fine as long as nothing is drawn.
        """
        for blocks in (1, 2):
            self.follow(attempt, f"dropout, blocks: {blocks}", asked(draw, blocks=blocks, p=0.4))

    @robust
    def test_inputs_without_gradients_are_passed_through(self, attempt: Attempt, draw: Draw) -> None:
        """A mask, positions or a flag beside the hidden states end the run, or take their gradients."""
        more = (draw.normal(5, WIDTH), draw.integers(1, 3, 5, 1), None, draw.mask(5, WIDTH), 0.5)
        for told, takes in (("the first", [0]), ("the second", [1]), ("two", [0, 1])):
            self.follow(attempt, f"of several inputs {told} take gradients", asked(draw, *more) | {"takes": takes})

    @robust
    def test_a_checkpoint_within_a_checkpoint(self, attempt: Attempt, draw: Draw) -> None:
        """Segments within segments, and a block that somebody else has checkpointed already."""
        for p in (0.0, 0.4):
            self.follow(attempt, f"nested, dropout {p}", asked(draw, depth=4, blocks=2, nested=True, p=p))

    @robust
    def test_in_no_grad_mode_it_runs_once(self, attempt: Attempt, draw: Draw) -> None:
        """In evaluation there is no backward, and whoever prepares for one holds memory."""
        made = asked(draw, grad=False)
        self.follow(attempt, "in no-grad mode", made)
        got = self.ask(attempt, made)
        if got["graph"] or got["runs"] != [[1, 1]]:
            seen = f"it ran {got['runs'][0][1]} times, and the result {'has' if got['graph'] else 'has no'} graph"
            fail("in no-grad mode the function runs once and leaves no graph", seen)

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        made = asked(draw, depth=2, rows=512, width=128)

        def timer(each: Attempt) -> Callable[[], Reading]:
            return lambda: clocked(each, lambda: self.ask(each, made))

        assert_time_within(6.0, race(timer(attempt), timer(reference), 6.0, draw.random()))

    def ask(self, attempt: Attempt, made: Asked) -> dict[str, Any]:
        there = mapped(lambda each: each.to(attempt.device) if isinstance(each, Tensor) else each, made)
        found: dict[str, Any] = attempt.checkpoint.ask(do="checkpointed", target="checkpoint", **there)
        return found

    def follow(self, attempt: Attempt, told: str, made: Asked) -> None:
        """Hold the result, all gradients and the random numbers against the function itself."""
        got, exact, single = self.ask(attempt, made), plainly(made, torch.float64), plainly(made, torch.float32)
        matrices = [f"{n}.{m}" for n, block in enumerate(made["blocks"]) for m in range(len(block))]
        names = ["the result", *(f"the gradient of input {number}" for number in made["takes"])]
        names += [f"the gradient of matrix {each}" for each in matrices]
        leaves = [[each["value"], *each["gradients"]] for each in (got, exact, single)]
        if len(leaves[0]) != len(names):
            fail("inputs and parameters have gradients", f"{len(leaves[0]) - 1} of {len(names) - 1} came back")
        for name, value, expected, rounded in zip(names, *leaves, strict=True):
            if expected is None:
                continue
            if value is None:
                fail("inputs and parameters have gradients", f"{name} is None: {told}")
            if (dtype := tensor(value, attempt.device).dtype) is not torch.float32:
                fail("results and gradients have the dtype of the input", f"{name} is {bare(dtype)}: {told}")
            size = expected.abs() + expected.square().mean().sqrt()
            allowed = 32 * (rounded - expected).abs() + 32 * torch.finfo(torch.float32).eps * size
            match(value.cpu(), expected, allowed, f"{name} is that of the function itself: {told}", "rows columns")
        sentence = f"the generator stands where it would without checkpointing: {told}"
        match(got["drawn"], exact["drawn"], None, sentence, "number")
