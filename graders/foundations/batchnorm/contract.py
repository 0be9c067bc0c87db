"""What `BatchNorm` must do. The oracle is torch's own, in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import HALF, Attempt, Ban, Call, Draw, ModuleContract, core, fail, half_precisions, match, robust
from dojo.judge.proxy import Module

START = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}


def library(init: dict, params: dict, x: Tensor) -> Tensor:
    wide, training = torch.promote_types(x.dtype, torch.float32), "running_mean" not in params
    running = [None if training else params[name].to(wide) for name in TestBatchNorm.buffers]
    own = (params["weight"].to(wide), params["bias"].to(wide))
    return F.batch_norm(x.to(wide), *running, *own, training, 0.0, init["eps"]).to(x.dtype)


def scale_and_shift(init: dict, params: dict, x: Tensor) -> Tensor:
    """In float32 at least, one value added to the other: the least accurate sums there are."""
    rows = x.to(torch.promote_types(x.dtype, torch.float32)).transpose(0, 1).flatten(1)
    mean = rows.cumsum(1)[:, -1] / rows.shape[1]
    variance = (rows - mean[:, None]).square().cumsum(1)[:, -1] / rows.shape[1]
    if "running_mean" in params:
        mean, variance = params["running_mean"].to(rows.dtype), params["running_var"].to(rows.dtype)
    scale = params["weight"] * torch.rsqrt(variance + init["eps"])
    found = rows * scale[:, None] + (params["bias"] - mean * scale)[:, None]
    return found.view(x.transpose(0, 1).shape).transpose(0, 1).to(x.dtype)


def moved(calls: list[Call]) -> dict[str, tuple[Tensor, Tensor]]:
    """The running statistics after these calls in training, each with the size of what it is made of."""
    momentum, found = calls[0].init.get("momentum", 0.1), {}
    for name, of in (("running_mean", Tensor.mean), ("running_var", Tensor.var)):
        value = calls[0].params.get(name, torch.full((3,), START[name])).double()
        size = value.abs()
        for each in calls:
            batch = of(each.inputs["x"].double().transpose(0, 1).flatten(1), 1)
            value = (1 - momentum) * value + momentum * batch
            size = (1 - momentum) * size + momentum * batch.abs()
        found[name] = value, size
    return found


class TestBatchNorm(ModuleContract):
    name = "BatchNorm"
    oracle = library
    variants = (library, scale_and_shift)
    buffers = ("running_mean", "running_var")
    holds = {
        "Running statistics": ("test_training_alone", "test_starts_as"),
        "No graph": ("test_running_statistics_have_no_graph",),
        "Large means": ("test_running_statistics_are_accurate",),
        "Half precision": ("test_half_precision", "test_running_statistics_are_updated"),
        "Errors": ("test_a_single_value",),
    }
    axes = {"x": "batch features *place", "result": "batch features *place"}
    ban = Ban(r"(batch|instance|group|layer|rms)_norm")
    cases = {
        "in_evaluation": {"training": False},
        "images_in_evaluation": {"training": False, "place": (2, 3), "eps": 0.5},
        "in_training": {},
        "images_in_training": {"place": (3, 2), "eps": 0.5},
        "images_as_wide_as_features": {"place": (2, 3)},
        "inputs_as_small_as_eps": {"std": 0.003},
    }
    more_shapes = {
        "one_row_in_evaluation": {"training": False, "batch": 1},
        "one_image_in_training": {"batch": 1, "place": (3, 4)},
        "sequences_as_long_as_features": {"place": (3,)},
        "five_axes": {"place": (2, 3, 2)},
    }
    representative = ("in_evaluation", "images_in_evaluation", "in_training", "images_in_training")
    near_300 = {"std": [8.0, 8.0, 300.0], "offset": [300.0, 300.0, 0.0]}
    grows = {"batch": "batch", "features": "features", "places": "places"}
    memory_in = "features"
    timed = {"batch": 64, "features": 32, "place": (16, 16)}
    off = {"test_training_and_evaluation_give_the_same": "they take other statistics"}

    @classmethod
    def call(
        cls, d: Draw, batch: int = 6, features: int = 3, place: tuple = (), places: int = 0, training: bool = True,
        std: float | list = 1.0, offset: float | list = 0.0, **init: float,
    ) -> Call:  # fmt: skip
        """Features of other means and spreads; with running statistics, near those of x, in evaluation."""
        init, place = {"num_features": features, **init}, (places,) if places else place
        mean = d.uniform(features, low=-1, high=1) * torch.tensor(std) + torch.tensor(offset)
        spread = d.uniform(features, low=0.5, high=2) * torch.tensor(std)
        x = d.normal(batch, *place, features) * spread + mean
        held = {"running_mean": mean + 0.3, "running_var": spread * d.uniform(features, low=0.2)}
        return Call({"x": x.movedim(-1, 1).contiguous()}, init, cls.params(d, init) | ({} if training else held))

    def after(self, attempt: Attempt, calls: list[Call], grad: bool = False) -> Module:
        """The module of the first call after all of them, each in its mode."""
        module = self.ready(attempt, calls[0])
        for each in calls:
            args, kwargs = self.arguments(each.to(attempt.device))
            with self.case_context(attempt, "training" if self.trains(each) else "evaluation", each):
                args = tuple(v.requires_grad_(grad) for v in args)
                module.train(self.trains(each)).request(args, kwargs, grad=grad)
        return module

    def assert_running(self, module: Module, calls: list[Call], told: str) -> None:
        """The running statistics after these calls in training, feature by feature."""
        dtype, found = calls[0].inputs["x"].dtype, self.held(module)
        for name, (value, size) in moved(calls).items():
            if name not in found:
                fail("running statistics are buffers", f"missing: {name}")
            allowed = 2e-5 * size + (torch.finfo(dtype).eps * value.abs() if dtype in HALF else 0.0)
            match(found[name].detach().cpu(), value, allowed, f"{name} is right {told}", "features")

    @core
    def test_starts_as_the_plain_norm(self, attempt: Attempt, draw: Draw) -> None:
        found = self.held(self.build(attempt, self.call(draw)))
        for name, start in START.items():
            if name not in found or not torch.equal(found[name], torch.full((3,), start)):
                fail(f"{name} starts as {[start] * 3}", f"got {found[name].tolist() if name in found else 'none'}")

    @core
    def test_training_alone_moves_running_statistics(self, attempt: Attempt, draw: Draw) -> None:
        made = {"": {}, ", momentum 0.4, eps 0.5": {"momentum": 0.4, "eps": 0.5}, ", images": {"place": (3, 2)}}
        for number, (told, more) in enumerate(made.items()):
            first, between, last = (self.call(draw, batch=n, training=n != 4, **more) for n in (6, 4, 5))
            module = self.after(attempt, [first, between, last], grad=number == 1)
            how = "with" if number == 1 else "without"
            self.assert_running(module, [first, last], f"after training and evaluation {how} gradients{told}")

    @robust
    def test_running_statistics_have_no_graph(self, attempt: Attempt, draw: Draw) -> None:
        """Each step keeps the graph of all steps before: memory grows, or the second backward fails."""
        found = self.held(self.after(attempt, [self.call(draw)], grad=True))
        if graphs := [name for name in self.buffers if name in found and found[name].requires_grad]:
            fail("running statistics have no graph", f"a gradient is required after a call in training: {graphs}")

    @robust
    def test_running_statistics_are_accurate_far_from_zero(self, attempt: Attempt, draw: Draw) -> None:
        """The variance of a feature with a large mean is noise, or negative, and evaluation gives nan."""
        calls = [self.call(draw, offset=1e4, batch=batch) for batch in (6, 40)]
        self.assert_running(self.after(attempt, calls), calls, "where the mean is 10⁴ times the spread")

    @robust
    @half_precisions
    def test_running_statistics_are_updated_in_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """In half precision the running mean stands still: a step of a thousandth is rounded away."""
        # From -101 to about 909 with momentum 0.1: what is added nearly cancels, and its rounding is all there is.
        call = self.call(draw, batch=60, offset=909.0).cast(dtype)
        held = {"running_mean": torch.full((3,), -101.0), "running_var": torch.full((3,), 3.0)}
        module = self.ready(attempt, call, dtype).load_state_dict({k: v.to(dtype) for k, v in held.items()})
        module.request(*self.arguments(call.to(attempt.device)))
        self.assert_running(module, [call.with_params(**held)], "after a call in half precision")

    @robust
    def test_a_single_value_or_other_features_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A single row turns running statistics to nan, and one feature is spread over all."""
        for features, shape in ((3, (1, 3)), (3, (1, 3, 1, 1)), (3, (4, 1)), (1, (4, 3))):
            call, words = self.call(draw, features=features), ", ".join(map(str, shape))
            sentence = f"x of shape {shape}, with num_features={features}, is refused in training"
            call = call.with_inputs(x=draw.normal(*shape))
            self.refuses(attempt, call, (f"({words}", f"[{words}", shape[1]), sentence=sentence)
