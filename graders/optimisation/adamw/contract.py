"""What `AdamW` must do. The oracle is the formula in Python floats, number by number."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

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
from dojo.contracts.checks.timing import assert_time_within, race
from dojo.judge.worker.drivers import MOVED

DEFAULTS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
STRONG = {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.5}  # the mildest bug then moves by 5e-3
SHAPES = ((3, 2), (3, 2), (5,), ())
MIXED = (torch.float32, torch.bfloat16, torch.float64, torch.bfloat16)
SINGLE = torch.finfo(torch.float32).eps


def optimisers() -> tuple[str, ...]:
    """The functions of torch.optim that take steps, by dotted name."""
    found = [f"torch.optim.{name}.step" for name in vars(torch.optim) if name[0].isupper() and name != "Optimizer"]
    for path, module in sorted(sys.modules.items()):
        if path.startswith("torch.optim.") and path.rpartition(".")[2] not in (
            "optimizer",
            "lr_scheduler",
            "swa_utils",
        ):
            own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == path]
            found += [f"{path}.{name}" for name in own if inspect.isfunction(getattr(module, name))]
    return tuple(found)


class ByHand:
    """The formula in Python floats for these leaves; settings are those of each leaf's group."""

    def __init__(self, sizes: Sequence[int], settings: Sequence[dict[str, Any]]) -> None:
        self.settings = settings
        self.moments = [[[0.0, 0.0] for _ in range(size)] for size in sizes]
        self.times = [0 for _ in sizes]

    def step(self, values: list[Tensor], grads: list[Tensor | None]) -> list[Tensor]:
        """What a step makes of these values, in float64."""
        return [self.leaf(number, p, g) for number, (p, g) in enumerate(zip(values, grads, strict=True))]

    def leaf(self, number: int, p: Tensor, g: Tensor | None) -> Tensor:
        if g is None:
            return p.double()
        self.times[number] += 1
        found = []
        mine, t = self.settings[number], self.times[number]
        beta1, beta2 = mine["betas"]
        for moments, x, slope in zip(self.moments[number], p.flatten().tolist(), g.flatten().tolist(), strict=True):
            m = moments[0] = beta1 * moments[0] + (1 - beta1) * slope
            v = moments[1] = beta2 * moments[1] + (1 - beta2) * slope**2
            size = math.sqrt(v / (1 - beta2**t)) + mine["eps"]
            found.append(x * (1 - mine["lr"] * mine["weight_decay"]) - mine["lr"] * m / (1 - beta1**t) / size)
        return torch.tensor(found, dtype=torch.float64).reshape(p.shape)


class TestAdamW:
    @core
    def test_values_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        for told, settings in {
            "all settings": STRONG,
            "no decay": {"lr": 0.1, "weight_decay": 0.0},
            "decay": {"lr": 0.1, "weight_decay": 0.5},
            "a large eps": {"lr": 0.1, "eps": 0.3},
            "other betas": {"lr": 0.1, "betas": (0.5, 0.75)},
            "default settings": {},
        }.items():
            values, steps = self.made(draw)
            self.follow(attempt, told, values, steps, settings=settings)

    @core
    def test_a_tensor_without_a_gradient_takes_no_step(self, attempt: Attempt, draw: Draw) -> None:
        for told, missing in (
            ("a gradient is None later on", {0: (2, 3), 1: (5,)}),
            ("gradients are None at first", {0: (0, 3), 1: (0, 1), 2: (0, 1, 2, 3, 4, 5)}),
        ):
            values, steps = self.made(draw, missing=missing)
            self.follow(attempt, told, values, steps, settings=STRONG)

    @core
    def test_groups_have_settings_of_their_own(self, attempt: Attempt, draw: Draw) -> None:
        values, steps = self.made(draw)
        for name, other in {"lr": 0.2, "weight_decay": 0.0, "betas": (0.5, 0.7), "eps": 0.5}.items():
            groups = [{"params": [2, 0]}, {"params": [1, 3], name: other}]
            self.follow(attempt, f"a group with its own {name}", values, steps[:3], groups, STRONG)

    @core
    def test_settings_are_read_anew_in_each_step(self, attempt: Attempt, draw: Draw) -> None:
        changes = {"lr": (0.02, 0.3), "weight_decay": (0.1, 0.9), "eps": (0.5, 0.01)}
        for name, (first, second) in changes.items():
            values, steps = self.made(draw)
            steps[2]["settings"], steps[4]["settings"] = [{name: first}, {}], [{}, {name: second}]
            groups = [{"params": [0, 1]}, {"params": [2, 3]}]
            self.follow(attempt, f"{name} changed between steps", values, steps, groups, STRONG)
        # Early on, β^t may also be kept as a product of what β was: only late are the two the same.
        values, steps = self.made(draw, ((4,),), count=54)
        steps[-4]["settings"] = [{"betas": (0.3, 0.5)}]
        settings = STRONG | {"betas": (0.5, 0.7), "weight_decay": 0.0}
        self.follow(attempt, "betas changed after 50 steps", values, steps, settings=settings, anew=True)

    @core
    def test_a_step_writes_values_and_nothing_else(self, attempt: Attempt, draw: Draw) -> None:
        seen = [fact for fact in self.facts(attempt, draw) if not fact.endswith(MOVED)]
        if seen:
            fail("a step changes the values of parameters, and zero_grad() the gradients, and nothing else", *seen)

    @robust
    def test_values_are_written_where_they_lie(self, attempt: Attempt, draw: Draw) -> None:
        """What shares the memory keeps the old values: a flat buffer, a tied layer, a captured graph."""
        seen = [fact for fact in self.facts(attempt, draw) if fact.endswith(MOVED)]
        if seen:
            fail("a step writes values in the memory where they lie", seen[0])

    @robust
    def test_gradients_of_any_size_and_betas_of_zero(self, attempt: Attempt, draw: Draw) -> None:
        """Losses are scaled by thousands, or gradients are tiny: a step has the same length."""
        for told, scale, settings in (
            ("gradients of 1e6", 1e6, {"lr": 0.1}),
            ("gradients of 1e-6", 1e-6, {"lr": 0.1}),
            ("gradients of 0", 0.0, STRONG),
            ("betas of 0", 1.0, {"lr": 0.1, "betas": (0.0, 0.0)}),
            ("lr 0", 1.0, {"lr": 0.0, "weight_decay": 1.0}),
            ("eps 0", 1.0, {"lr": 0.1, "eps": 0.0}),
            ("lr and weight_decay above 1", 1.0, {"lr": 2.0, "weight_decay": 1.5}),
        ):
            values, steps = self.made(draw, scale=scale)
            self.follow(attempt, told, values, steps, settings=settings)

    @robust
    def test_float64_is_at_least_as_accurate_as_float32(self, attempt: Attempt, draw: Draw) -> None:
        """Gradient checks run in float64, and fail where a step falls below float32."""
        values, steps = self.made(draw, dtypes=(torch.float64, torch.float32, torch.float64, torch.float64))
        self.follow(attempt, "float64, and float32 beside it", values, steps, settings=STRONG)

    @robust
    @half_precisions
    def test_half_precision_has_float32_moments_and_is_rounded_once(
        self, attempt: Attempt, draw: Draw, dtype: torch.dtype
    ) -> None:
        """Small gradients vanish in float16, and moments in bfloat16 stand still: the step has a wrong length."""
        made, steps = self.made(draw, ((40, 8), (30,), (6, 9)), scale=0.01, dtypes=(dtype, torch.float32, dtype))
        values = [(0.2 * value).to(value.dtype) for value in made]
        self.follow(attempt, f"{bare(dtype)}, and float32 beside it", values, steps, settings={"lr": 0.1}, anew=True)

    @robust
    def test_any_memory_layout_gives_the_same(self, attempt: Attempt, draw: Draw) -> None:
        """Weights are transposed in memory, and the gradient of a sum is expanded: `view` fails on them."""
        values = [draw.normal(4, 3).mT, draw.normal(2, 5, 3).movedim(0, 2), draw.normal(4)]
        steps = []
        for _ in range(3):
            wide = draw.normal(8, 6)
            grads = [draw.normal(3, 1).expand(3, 4), draw.normal(5, 3, 4)[..., ::2], wide[::2, 1]]
            steps.append({"grads": grads})
        self.follow(attempt, "layouts", values, steps, settings=STRONG)

    @robust
    def test_settings_out_of_range_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """With a negative rate it climbs, and with a beta of 1 it divides by 0: the loss is nan at the first step."""
        wrong: dict[str, tuple[Any, ...]] = {"lr": (-0.1,), "eps": (-1e-3,), "weight_decay": (-0.5,)}
        wrong["betas"] = ((1.0, 0.999), (0.9, 1.5), (-0.25, 0.9), (0.9, -0.75))
        for name, every in wrong.items():
            for value in every:
                held = next(b for b in value if not 0 <= b < 1) if name == "betas" else value
                for groups in (None, [{"params": [0]}, {"params": [1], name: value}]):
                    settings = {name: value} if groups is None else {}
                    where = "in a dict" if groups else "in the constructor"
                    asked = {"values": [draw.normal(2), draw.normal(3)], "groups": groups, "settings": settings}
                    assert_raises(
                        lambda asked=asked: attempt.AdamW.ask(do="optimise", steps=[], **asked, target="AdamW"),
                        held,
                        sentence=f"{name}={value} {where} is refused",
                    )

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        ban = Ban(r"_fused_(ada|sgd)", optimisers())
        values, steps = self.made(draw, missing={0: (0,)}, dtypes=MIXED)
        ban.judge(self.readings(attempt, values, steps, list(ban.functions)), attempt.parts)

    @fast
    def test_operation_count_does_not_grow(self, attempt: Attempt, draw: Draw) -> None:
        def count(size: int) -> int:
            values, steps = self.made(draw, ((size, 3), (size,)))
            return operation_count(self.readings(attempt, values, steps[:2], []))

        assert_constant_op_count("the size of a tensor", (8, 40), count)

    @fast
    def test_no_tensor_is_much_larger_than_the_parameters(self, attempt: Attempt, draw: Draw) -> None:
        values, steps = self.made(draw, ((64, 8), (300,)))
        largest = max(self.readings(attempt, values, steps[:2], None)["largest"].values(), default=0)
        if largest > 2 * 8 * sum(value.numel() for value in values):
            fail("no tensor is much larger than the parameters together", f"one of {largest} bytes was made")

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        values, steps = self.made(draw, ((300, 300),))
        request = self.request(attempt, values, steps[:3], None, {})

        def timer(each: Attempt) -> Callable[[], tuple[float, float]]:
            def run() -> tuple[float, float]:
                worker = each.worker()
                before = worker.cpu_seconds()
                each.AdamW.ask(**request)
                spent = worker.cpu_seconds() - before
                return spent, spent

            run()
            return run

        assert_time_within(20.0, race(timer(attempt), timer(reference), 20.0, draw.random()))

    def made(
        self, d: Draw, shapes: Sequence[tuple[int, ...]] = SHAPES, missing: dict[int, tuple[int, ...]] | None = None,
        scale: float = 1.0, dtypes: Sequence[torch.dtype] = (), count: int = 6,
    ) -> tuple[list[Tensor], list[dict[str, Any]]]:  # fmt: skip
        """Values, and steps of gradients that keep their signs, but for those of a leaf's steps that are missing."""
        dtypes = dtypes or [torch.float32] * len(shapes)
        values = [(1 + d.normal(*shape)).to(dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        gone = missing or {}
        signs = [d.normal(*shape).sign() for shape in shapes]

        def grad(leaf: int, number: int) -> Tensor | None:
            drawn = scale * signs[leaf] * d.uniform(*shapes[leaf], low=0.2, high=2.0)
            return None if number in gone.get(leaf, ()) else drawn.to(dtypes[leaf])

        return values, [{"grads": [grad(leaf, number) for leaf in range(len(shapes))]} for number in range(count)]

    def request(
        self, attempt: Attempt, values: list[Tensor], steps: list[dict[str, Any]], groups: list[dict[str, Any]] | None,
        settings: dict[str, Any],
    ) -> dict[str, Any]:  # fmt: skip
        """The request that takes these steps, with tensors on the device of the grading."""
        moved = [step | {"grads": [g if g is None else g.to(attempt.device) for g in step["grads"]]} for step in steps]
        asked = {"values": [v.to(attempt.device) for v in values], "groups": groups, "settings": settings}
        return {"do": "optimise", "target": "AdamW", "steps": moved, **asked}

    def readings(
        self, attempt: Attempt, values: list[Tensor], steps: list[dict[str, Any]], watched: list[str] | None
    ) -> dict[str, Any]:
        inner = [self.request(attempt, values, steps, None, {})]
        found: dict[str, Any] = attempt.AdamW.ask(do="observe", inner=inner, watched=watched)["readings"]
        return found

    def facts(self, attempt: Attempt, draw: Draw) -> list[str]:
        """What steps did that they may not: with groups and without, in float32 and half precision."""
        found = []
        for groups in (None, [{"params": [0, 3]}, {"params": [1, 2], "lr": 0.1}]):
            values, steps = self.made(draw, missing={0: (0,)}, dtypes=MIXED)
            found += attempt.AdamW.ask(**self.request(attempt, values, steps[:2], groups, {}))["seen"]
        return found

    def follow(
        self, attempt: Attempt, told: str, values: list[Tensor], steps: list[dict[str, Any]],
        groups: list[dict[str, Any]] | None = None, settings: dict[str, Any] | None = None, anew: bool = False,
    ) -> None:  # fmt: skip
        """Hold every leaf after every step against the oracle; `anew` starts each from the attempt's own values."""
        stated = {"params", *(settings or {}), *(name for group in groups or () for name in group)}
        with stating(stated):
            trace = attempt.AdamW.ask(**self.request(attempt, values, steps, groups, settings or {}))["value"]
            given = groups or [{"params": list(range(len(values)))}]
            own = [DEFAULTS | (settings or {}) | {k: v for k, v in group.items() if k != "params"} for group in given]
            of = {leaf: mine for group, mine in zip(given, own, strict=True) for leaf in group["params"]}
            by_hand = ByHand([v.numel() for v in values], [of[leaf] for leaf in range(len(values))])
            exact, moved = list(values), 0.0
            for number, (step, got) in enumerate(zip(steps, trace, strict=True), 1):
                for mine, changed in zip(own, step.get("settings", ()), strict=False):
                    mine.update(changed)
                moved = (0.0 if anew else moved) + max(mine["lr"] for mine in own)
                exact = by_hand.step(exact, step["grads"])
                for leaf, (expected, value, found) in enumerate(zip(exact, values, got, strict=True)):
                    where = f"{told}: tensor {leaf} {tuple(value.shape)} after step {number}"
                    if found.dtype is not value.dtype:
                        fail(
                            f"a parameter keeps its dtype: {where}", f"got {bare(found.dtype)} for {bare(value.dtype)}"
                        )
                    # 1 - β² in float32 is off by 6e-5 of itself, where a step counter is a tensor as torch's can be.
                    allowed = 64 * SINGLE * (1 + expected.abs()) + 1e-4 * moved
                    if anew and value.dtype is not torch.float32:
                        allowed = 0.51 * spacing(expected, value.dtype) + 1e-4 * moved
                    axes = " ".join(f"axis{axis}" for axis in range(value.dim()))
                    match(found.cpu(), expected, allowed, f"the formula gives it: {where}", axes)
                if anew:
                    exact = [found.cpu() for found in got]


def spacing(value: Tensor, dtype: torch.dtype) -> Tensor:
    """From one number of this dtype to the next, where these lie."""
    info = torch.finfo(dtype)
    return info.eps * 2 ** value.abs().clamp_min(info.smallest_normal).log2().floor()
