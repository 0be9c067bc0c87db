"""What `LossScaler` and `train_step` must do. The oracle trains without a scale, and keeps it as a number beside."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Ban,
    Draw,
    core,
    fail,
    fast,
    match,
    robust,
    stating,
    too_much,
)
from dojo.contracts.checks.timing import Reading, assert_time_within, clocked, race
from dojo.judge.worker.drivers import PLAIN

SHAPES = ((3, 2), (4,), (5,), (2, 3))
GROUPS = [{"params": [2, 0]}, {"params": [1, 3], "lr": 0.05}]
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD with momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "AdamW": ("AdamW", {"lr": 0.02, "weight_decay": 0.5}),
}
SMALL = {"init_scale": 64.0, "growth_interval": 3}
BY_STEP, BY_HAND = ("backward", "step", "update"), ("backward", "unscale_", "clip", "step", "update")
BAN = Ban("_amp_", tuple(f"torch.amp.GradScaler.{name}" for name in "scale unscale_ step update".split()))
Step = dict[str, Any]
Grads = list[Tensor | None]


def step(
    d: Draw, words: Sequence[str] = BY_STEP, bad: tuple[int, float] | None = None, without: Sequence[int] = (),
    shapes: Sequence[tuple[int, ...]] = SHAPES,
) -> Step:  # fmt: skip
    """Losses with gradients of 1/64 to 15/64, exact in float16 at any scale; `bad` is a leaf and an entry."""
    losses: list[Grads] = []
    for _ in range(max(1, words.count("backward"))):
        drawn = [d.integers(1, 16, *shape) * d.normal(*shape).sign() / 64 for shape in shapes]
        losses.append([None if leaf in without else grad for leaf, grad in enumerate(drawn)])
    if bad is not None:
        grad = losses[-1][bad[0]].view(-1)
        grad[int(d.integers(0, len(grad), 1))] = bad[1]
    return {"losses": losses, "words": list(words)}


def without_a_scale(asked: dict[str, Any], init: dict[str, Any]) -> list[tuple[list[Tensor], Grads, float]]:
    """After each step every leaf and its gradient, which is None where the step was skipped, and the scale."""
    leaves = [torch.nn.Parameter(value.cpu().double()) for value in asked["values"]]
    given = [group | {"params": [leaves[number] for number in group["params"]]} for group in asked["groups"]]
    optimizer, found = PLAIN[asked["optimiser"]](given, **asked["settings"]), []
    scale, count = init["init_scale"], 0
    for each in asked["steps"]:
        grads: Grads = [None] * len(leaves)
        scaled = [grad.cpu() * scale for loss in each["losses"] for grad in loss if grad is not None]
        finite = all(bool(one.half().isfinite().all()) for one in scaled)
        if finite:
            for loss in each["losses"]:
                pairs = zip(grads, loss, strict=True)
                grads = [a if b is None else b.cpu().double() + (0 if a is None else a) for a, b in pairs]
            if {"clip", "train_step"} & {*each["words"]}:
                entries = [entry for grad in grads if grad is not None for entry in grad.flatten().tolist()]
                factor = min(1.0, asked["max_norm"] / math.hypot(*entries))
                grads = [grad if grad is None else grad * factor for grad in grads]
            for leaf, grad in zip(leaves, grads, strict=True):
                leaf.grad = grad
            optimizer.step()
        count = count + 1 if finite else 0
        if not finite:
            scale *= init["backoff_factor"]
        elif count == init["growth_interval"]:
            scale, count = scale * init["growth_factor"], 0
        found.append(([leaf.detach().clone() for leaf in leaves], grads, scale))
    return found


class TestLossScaler:
    holds = {
        "Skip": ("test_parameters_move", "test_one_inf_or_nan", "test_uses_only"),
        "Clip": ("test_gradients_are_unscaled_once", "test_train_step"),
        "Growth": ("test_the_scale",),
        "No gradient": ("test_a_gradient_of_none",),
        "Iterations": ("test_iterations",),
        "Waits": ("test_the_cpu_waits", "test_time"),
    }

    @core
    def test_parameters_move_as_without_a_scale(self, attempt: Attempt, draw: Draw) -> None:
        for told, (optimiser, settings) in OPTIMIZERS.items():
            self.follow(attempt, draw, told, [step(draw) for _ in range(4)], optimiser, settings)

    @core
    def test_one_inf_or_nan_skips_the_step(self, attempt: Attempt, draw: Draw) -> None:
        for told, value in ("AdamW", math.inf), ("SGD with momentum", -math.inf), ("AdamW", math.nan):
            steps = [step(draw)] + [step(draw, bad=bad) for leaf in range(4) for bad in ((leaf, value), None)]
            self.follow(attempt, draw, f"{told}, {value} in one tensor after the other", steps, *OPTIMIZERS[told])

    @core
    def test_gradients_are_unscaled_once(self, attempt: Attempt, draw: Draw) -> None:
        steps = [step(draw, BY_HAND, bad) for bad in (None, None, (1, math.inf), None)]
        self.follow(attempt, draw, "unscale_, clipping, step", steps, max_norm=0.3)
        again = [step(draw, ("backward", "backward", *words)) for words in (BY_STEP[1:], BY_HAND[1:])]
        self.follow(attempt, draw, "two losses to a step", again, max_norm=0.4)

    @core
    def test_train_step_clips_the_true_gradients(self, attempt: Attempt, draw: Draw) -> None:
        for told, max_norm in ("SGD", 0.25), ("SGD with momentum", 100.0), ("AdamW", 0.25):
            steps = [step(draw, ("train_step",), bad) for bad in (None, None, (3, math.nan), None, (0, math.inf), None)]
            self.follow(attempt, draw, f"train_step, {told}", steps, *OPTIMIZERS[told], max_norm=max_norm)

    @core
    def test_the_scale_follows_the_steps(self, attempt: Attempt, draw: Draw) -> None:
        for init in (
            {"init_scale": 8.0, "growth_interval": 2},
            {"init_scale": 65536.0, "growth_interval": 1},
            {"init_scale": 2.0**17, "growth_interval": 3},
            {"init_scale": 16.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 2},
        ):
            steps = [step(draw, bad=(0, math.inf) if number in (3, 10) else None) for number in range(1, 15)]
            self.follow(attempt, draw, f"{init}, inf in steps 3 and 10", steps, init=init, scales=True)
        many = step(draw, ("backward", *1999 * ("step", "update")))
        got = attempt.train_step.ask(**self.asked(draw, attempt, [many, step(draw)], init={}))["scales"]
        if got != [65536.0, 131072.0]:
            fail("without arguments the scale is 65,536 and grows after 2,000 steps", f"after 1,999 and 2,000: {got}")

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        steps = [step(draw), step(draw, ("train_step",)), step(draw, bad=(0, math.inf))]
        BAN.judge(self.readings(attempt, self.asked(draw, attempt, steps), BAN.functions), attempt.parts)

    @robust
    def test_a_gradient_of_none_stays_none(self, attempt: Attempt, draw: Draw) -> None:
        """A frozen layer, or an expert without tokens, decays with every step, or ends the run with an error."""
        for words in (BY_STEP, BY_HAND, ("train_step",)):
            steps = [step(draw, words, bad, without=(1, 2)) for bad in (None, (0, math.inf), None)]
            self.follow(attempt, draw, f"no gradient, {', '.join(words)}", steps, *OPTIMIZERS["AdamW"], max_norm=0.3)

    @robust
    def test_iterations_are_independent(self, attempt: Attempt, draw: Draw) -> None:
        """After one overflow nothing is learned any more; or every second step goes by the scaled gradients."""
        cases = (BY_HAND, None), (BY_STEP, None), (BY_HAND, (2, math.nan)), (BY_STEP, None), (BY_STEP, (0, math.inf))
        steps = [step(draw, words, bad) for words, bad in (*cases, (BY_HAND, None), (("train_step",), None))]
        self.follow(attempt, draw, "steps with unscale_ and without", steps, *OPTIMIZERS["SGD with momentum"])

    @fast
    def test_the_cpu_waits_once_a_step(self, attempt: Attempt, draw: Draw) -> None:
        def waits(tensors: int) -> int:
            shapes = ((2,),) * tensors
            asked = self.asked(draw, attempt, [step(draw, ("train_step",), shapes=shapes)], shapes=shapes)
            return self.readings(attempt, asked)["operations"].get("_local_scalar_dense", 0)

        few, many = waits(4), waits(24)
        if many > few:
            seen = f"it waits {few} times with 4 parameters, {many} times with 24"
            too_much("how often a step waits for the device does not grow with the number of parameters", seen)

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        shapes = ((300, 300),) * 3
        steps = [step(draw, ("train_step",), shapes=shapes) for _ in range(3)]

        def timer(each: Attempt) -> Callable[[], Reading]:
            asked = self.asked(draw, each, steps, shapes=shapes)
            return lambda: clocked(each, lambda: each.train_step.ask(**asked))

        assert_time_within(15.0, race(timer(attempt), timer(reference), 15.0, draw.random()))

    def asked(
        self, d: Draw, attempt: Attempt, steps: list[Step], optimiser: str = "SGD",
        settings: dict[str, Any] | None = None, max_norm: float = 1.0, init: dict[str, Any] | None = None,
        shapes: Sequence[tuple[int, ...]] = SHAPES,
    ) -> dict[str, Any]:  # fmt: skip
        """The request of these steps under a new scaler."""
        init = SMALL if init is None else init
        groups = GROUPS if shapes is SHAPES else [{"params": [*range(len(shapes))]}]
        there = [
            each | {"losses": [[g if g is None else g.to(attempt.device) for g in loss] for loss in each["losses"]]}
            for each in steps
        ]
        return {
            "do": "scaled", "target": "train_step", "scaler": attempt.LossScaler.keep(**init), "steps": there,
            "values": [(1 + d.normal(*shape)).to(attempt.device) for shape in shapes], "groups": groups,
            "optimiser": optimiser, "settings": settings or {"lr": 0.1}, "max_norm": max_norm,
        }  # fmt: skip

    def readings(self, attempt: Attempt, asked: dict[str, Any], watched: Sequence[str] = ()) -> dict[str, Any]:
        found: dict[str, Any] = attempt.train_step.ask(do="observe", inner=[asked], watched=[*watched])["readings"]
        return found

    def follow(
        self, attempt: Attempt, draw: Draw, told: str, steps: list[Step], optimiser: str = "SGD",
        settings: dict[str, Any] | None = None, max_norm: float = 1.0, init: dict[str, Any] | None = None,
        scales: bool = False,
    ) -> None:  # fmt: skip
        """Hold every leaf, its gradient and the scale after every step against the oracle; `scales` holds it alone."""
        asked = self.asked(draw, attempt, steps, optimiser, settings, max_norm, init)
        defaults = {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000}
        exact = without_a_scale(asked, defaults | (SMALL if init is None else init))
        with stating({*(init or ())}):
            got = attempt.train_step.ask(**asked)
        if wrong := [type(each).__name__ for each in got["scales"] if not isinstance(each, float)]:
            fail("get_scale() gives a float", f"got a {wrong[0]}: {told}")
        lr = asked["settings"]["lr"]
        for number, (leaves, grads, _) in enumerate([] if scales else exact, 1):
            for which, leaf in enumerate(leaves):
                where = f"{told}: tensor {which} after step {number}"
                # Roundings of float32; torch's own clipping adds 1e-6 to a norm of 0.3.
                allowed = 64 * torch.finfo(torch.float32).eps * (1 + leaf.abs()) + 1e-4 * lr * number
                axes = " ".join(f"axis{axis}" for axis in range(leaf.dim()))
                value = got["values"][number - 1][which].cpu()
                match(value, leaf, allowed, f"parameters move as without a scale: {where}", axes)
                grad, words = got["grads"][number - 1][which], steps[number - 1]["words"]
                if all(loss[which] is None for loss in steps[number - 1]["losses"]):
                    if grad is not None:
                        fail("a gradient of None stays None", f"it is a tensor: {where}")
                elif "train_step" in words:
                    if grad is not None and grad.count_nonzero():
                        fail("train_step clears the gradients", f"one is left: {where}")
                elif grads[which] is not None:
                    sentence = f"gradients are unscaled once: {where}"
                    match(grad.cpu(), grads[which], 1e-5 * (1 + grads[which].abs()), sentence, axes)
        expected = torch.tensor([scale for _, _, scale in exact], dtype=torch.float64)
        match(torch.tensor(got["scales"], dtype=torch.float64), expected, None, f"the scale: {told}", "step")
