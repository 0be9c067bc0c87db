"""What `AdamW` must do. The oracle is torch's own function, in float64."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.optim.adamw import adamw

from dojo.contracts import (
    Attempt,
    Ban,
    Draw,
    assert_constant_op_count,
    assert_raises,
    bare,
    core,
    fail,
    fast,
    half_precisions,
    match,
    operation_count,
    robust,
    stating,
)
from dojo.contracts.checks.timing import Reading, assert_time_within, clocked, race
from dojo.judge.worker.drivers import MOVED

DEFAULTS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
PLAIN = {"foreach": False, "amsgrad": False, "maximize": False}
# Whether decay comes first or last, and eps before or after the correction, moves less than the allowed error.
MILD = {"lr": 1e-3, "betas": (0.8, 0.95), "eps": 1e-8, "weight_decay": 0.3}
STRONG = {"lr": 0.1, "betas": (0.8, 0.95), "eps": 0.1, "weight_decay": 0.5}
SHAPES = ((3, 2), (3, 2), (5,), ())
MIXED = (torch.float32, torch.bfloat16, torch.float64, torch.bfloat16)


def optimizers() -> tuple[str, ...]:
    """The functions of torch.optim that take steps, by dotted name."""
    found = [f"torch.optim.{name}.step" for name in vars(torch.optim) if name[0].isupper() and name != "Optimizer"]
    for path, module in sorted(sys.modules.items()):
        if path.startswith("torch.optim.") and path != "torch.optim.optimizer":
            found += [f"{path}.{k}" for k, v in vars(module).items() if getattr(v, "__module__", "") == path]
    return tuple(found)


class TestAdamW:
    holds = {
        "Formula": ("test_values_match", "test_decay_is_first", "test_uses_only"),
        "Groups": ("test_groups_have",),
        "No gradient": ("test_a_tensor_without",),
        "In place": (
            "test_a_step_writes", "test_values_are_written", "test_any_memory", "test_operations_and", "test_time",
        ),
        "Half precision": ("test_half_precision",),
        "Errors": ("test_settings_out",),
    }  # fmt: skip

    @core
    def test_values_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        for told, settings in {
            "all settings": MILD,
            "no decay": {"lr": 0.1, "weight_decay": 0.0},
            "betas of 0": {"lr": 0.1, "betas": (0.0, 0.0), "weight_decay": 0.0},
            "default settings": {},
        }.items():
            self.follow(attempt, told, self.made(attempt, draw, **settings))

    @core
    def test_a_tensor_without_a_gradient_takes_no_step(self, attempt: Attempt, draw: Draw) -> None:
        for told, missing in (
            ("later on", {2: (0,), 3: (0,), 5: (1,)}),
            ("at first", {0: (0, 1, 2), 1: (1, 2), 3: (0,)}),
        ):
            self.follow(attempt, f"gradients are None {told}", self.made(attempt, draw, missing=missing, **MILD))

    @core
    def test_groups_have_settings_that_a_schedule_may_change(self, attempt: Attempt, draw: Draw) -> None:
        for name, other in {"lr": 2e-3, "weight_decay": 0.0, "betas": (0.5, 0.7)}.items():
            asked = self.made(attempt, draw, [{"params": [2, 0]}, {"params": [1, 3], name: other}], **MILD)
            if name != "betas":  # early on β^t may also be kept as a product of what β was
                asked["steps"][2]["settings"] = [{name: other / 2}, {}]
                asked["steps"][4]["settings"] = [{}, {name: 0.1 * MILD[name]}]
            self.follow(attempt, f"a group with its own {name}", asked)

    @core
    def test_a_step_writes_values_and_nothing_else(self, attempt: Attempt, draw: Draw) -> None:
        sentence = "a step changes the values of parameters, and zero_grad() the gradients, and nothing else"
        self.without_misdeeds(attempt, draw, sentence, moved=False)

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        ban = Ban(r"_fused_(ada|sgd)", optimizers())
        asked = self.made(attempt, draw, missing={0: (0,)}, dtypes=MIXED)
        ban.judge(self.readings(attempt, asked, ban.functions), attempt.parts)

    @robust
    def test_decay_is_first_and_eps_is_added_after_the_correction(self, attempt: Attempt, draw: Draw) -> None:
        """A run that goes on from a PyTorch checkpoint takes other steps where gradients are as small as eps."""
        groups = [{"params": [2, 0]}, {"params": [1, 3], "eps": 0.5}]
        self.follow(attempt, "a large eps and strong decay", self.made(attempt, draw, groups, **STRONG))
        for told, scale in (("gradients of 1e-6", 1e-6), ("gradients of 0", 0.0)):
            self.follow(attempt, told, self.made(attempt, draw, scale=scale, lr=0.1))

    @robust
    def test_values_are_written_where_they_lie(self, attempt: Attempt, draw: Draw) -> None:
        """What shares the memory keeps the old values: a flat buffer, a tied layer, a captured graph."""
        self.without_misdeeds(attempt, draw, "a step writes values in the memory where they lie", moved=True)

    @robust
    @half_precisions
    def test_half_precision_has_float32_moments_and_is_rounded_once(
        self, attempt: Attempt, draw: Draw, dtype: torch.dtype
    ) -> None:
        """Small gradients vanish in float16, and moments in bfloat16 stand still: the step has a wrong length."""
        dtypes = (dtype, torch.float64, dtype)
        asked = self.made(attempt, draw, None, ((40, 8), (30,), (6, 9)), scale=0.01, dtypes=dtypes, lr=0.1)
        asked["values"] = [(0.2 * value).to(value.dtype) for value in asked["values"]]
        self.follow(attempt, f"{bare(dtype)}, and float64 beside it", asked, anew=True)

    @robust
    def test_any_memory_layout_gives_the_same(self, attempt: Attempt, draw: Draw) -> None:
        """Weights are transposed in memory, and the gradient of a sum is expanded: `view` fails on them."""
        asked = self.made(attempt, draw, None, ((4, 3), (2, 5, 3)), **MILD)
        asked["values"] = [value.mT for value in asked["values"]]
        for step in asked["steps"]:
            first, second = step["grads"]
            step["grads"] = [first.mT[:1].expand(3, 4), second.mT]
        self.follow(attempt, "layouts", asked)

    @robust
    def test_settings_out_of_range_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """With a negative rate it climbs, and with a beta of 1 it divides by 0: the loss is nan at the first step."""
        for name, value, held in (("lr", -0.1, -0.1), ("eps", -1e-3, -1e-3), ("weight_decay", -0.5, -0.5),
                                  ("betas", (1.0, 0.999), 1.0), ("betas", (0.9, -0.75), -0.75)):  # fmt: skip
            for groups in (None, [{"params": [0]}, {"params": [1], name: value}]):
                settings = {} if groups else {name: value}
                asked = self.made(attempt, draw, groups, ((2,), (3,)), count=0, **settings)
                sentence = f"{name}={value} in {'a dict' if groups else 'the constructor'} is refused"
                assert_raises(partial(attempt.AdamW.ask, **asked), held, sentence=sentence)

    @fast
    def test_operations_and_memory_do_not_grow_with_entries(self, attempt: Attempt, draw: Draw) -> None:
        def count(size: int) -> int:
            asked = self.made(attempt, draw, None, ((size, 16), (size,)), count=2)
            readings = self.readings(attempt, asked)
            if (largest := max(readings["largest"].values(), default=0)) > 16 * 17 * size:
                fail("no tensor is much larger than the parameters together", f"one of {largest} bytes was made")
            return operation_count(readings)

        assert_constant_op_count("the size of a tensor", (8, 40), count)

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        asked = self.made(attempt, draw, None, ((300, 300),) * 3, count=3)

        def timer(each: Attempt) -> Callable[[], Reading]:
            return lambda: clocked(each, partial(each.AdamW.ask, **asked))

        assert_time_within(20.0, race(timer(attempt), timer(reference), 20.0, draw.random()))

    def made(
        self, attempt: Attempt, d: Draw, groups: list[dict[str, Any]] | None = None,
        shapes: Sequence[tuple[int, ...]] = SHAPES, missing: dict[int, tuple[int, ...]] | None = None,
        scale: float = 1.0, dtypes: Sequence[torch.dtype] = (torch.float32,) * 4, count: int = 6, **settings: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """The request of steps on tensors; gradients keep their signs, and `missing` says by step which are None."""
        values = [(1 + d.normal(*shape)).to(attempt.device, t) for shape, t in zip(shapes, dtypes, strict=False)]
        signs, steps = [scale * d.normal(*shape).sign() for shape in shapes], []
        for number in range(count):
            gone, drawn = (missing or {}).get(number, ()), [s * d.uniform(*s.shape, low=0.2, high=2.0) for s in signs]
            grads = [grad.to(value) for grad, value in zip(drawn, values, strict=True)]
            steps.append({"grads": [None if leaf in gone else grad for leaf, grad in enumerate(grads)]})
        asked = {"values": values, "groups": groups, "settings": settings, "steps": steps}
        return {"do": "optimise", "target": "AdamW"} | asked

    def readings(self, attempt: Attempt, asked: dict[str, Any], watched: Sequence[str] = ()) -> dict[str, Any]:
        found: dict[str, Any] = attempt.AdamW.ask(do="observe", inner=[asked], watched=[*watched])["readings"]
        return found

    def without_misdeeds(self, attempt: Attempt, draw: Draw, sentence: str, moved: bool) -> None:
        """Steps did nothing that they may not: with groups and without, in float32 and half precision."""
        for groups in (None, [{"params": [0, 3]}, {"params": [1, 2], "lr": 0.1}]):
            asked = self.made(attempt, draw, groups, missing={0: (0,)}, dtypes=MIXED, count=2)
            if facts := [each for each in attempt.AdamW.ask(**asked)["seen"] if each.endswith(MOVED) is moved]:
                fail(sentence, *facts[:3])

    def follow(self, attempt: Attempt, told: str, asked: dict[str, Any], anew: bool = False) -> None:
        """Hold every leaf after every step against the oracle; `anew` starts each from the attempt's own values."""
        values, settings = [value.cpu() for value in asked["values"]], asked["settings"]
        given, leaves, moved = asked["groups"] or [{"params": range(len(values))}], [v.double() for v in values], 0.0
        own = [DEFAULTS | settings | group for group in given]
        of = {leaf: mine for mine in own for leaf in mine["params"]}
        moments = [[[torch.zeros_like(leaf)], [torch.zeros_like(leaf)], [], [torch.zeros(())]] for leaf in leaves]
        with stating({*settings, *(name for group in given for name in group)}):
            trace = attempt.AdamW.ask(**asked)["value"]
            for number, (step, got) in enumerate(zip(asked["steps"], trace, strict=True), 1):
                for mine, changed in zip(own, step.get("settings", ()), strict=False):
                    mine.update(changed)
                moved = (0.0 if anew else moved) + max(mine["lr"] for mine in own)
                for which, (leaf, value, grad, found) in enumerate(
                    zip(leaves, values, step["grads"], got, strict=True)
                ):
                    if grad is not None:
                        mine, (beta1, beta2) = {**of[which], **PLAIN}, of[which]["betas"]
                        del mine["params"], mine["betas"]
                        adamw([leaf], [grad.cpu().double()], *moments[which], beta1=beta1, beta2=beta2, **mine)
                    where = f"{told}: tensor {which} {tuple(value.shape)} after step {number}"
                    if found.dtype is not value.dtype:
                        seen = f"got {bare(found.dtype)} for {bare(value.dtype)}"
                        fail(f"a parameter keeps its dtype: {where}", seen)
                    # 1 - β² in float32 is off by 6e-5 of itself, where a step counter is a tensor as torch's can be.
                    allowed = 64 * torch.finfo(torch.float32).eps * (1 + leaf.abs()) + 1e-4 * moved
                    if anew:  # half of the gap between two numbers of this dtype
                        gap = torch.finfo(value.dtype).eps * 2 ** leaf.abs().log2().floor()
                        allowed = 0.51 * gap + 1e-4 * moved
                    axes = " ".join(f"axis{axis}" for axis in range(value.dim()))
                    match(found.cpu(), leaf, allowed, f"the formula gives it: {where}", axes)
                    if anew:
                        leaf.copy_(found)
