"""What `BatchNorm` must do. The oracle goes feature by feature, and the running ones are those of `statistics`."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    HALF,
    Attempt,
    Ban,
    Call,
    Draw,
    ModuleContract,
    assert_raises,
    bare,
    core,
    fail,
    half_precisions,
    match,
    robust,
)
from dojo.judge.proxy import Module

START = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
Statistics = tuple[Tensor, Tensor]  # mean and biased variance of each feature


def feature_by_feature(init: dict, params: dict, x: Tensor) -> Tensor:
    found = []
    for number, values in enumerate(x.unbind(1)):
        mean = values.sum() / values.numel()
        variance = ((values - mean) ** 2).sum() / values.numel()
        if "running_mean" in params:
            mean, variance = params["running_mean"][number], params["running_var"][number]
        normed = (values - mean) / (variance + init["eps"]) ** 0.5
        found.append(normed * params["weight"][number] + params["bias"][number])
    return torch.stack(found, 1)


def taken(params: dict, x: Tensor) -> Statistics:
    """Mean and variance in float32 at least, one value added to the other: the least accurate sums there are."""
    wide = torch.promote_types(x.dtype, torch.float32)
    if "running_mean" in params:
        return params["running_mean"].to(wide), params["running_var"].to(wide)
    rows = x.to(wide).transpose(0, 1).flatten(1)
    mean = rows.cumsum(1)[:, -1] / rows.shape[1]
    return mean, (rows - mean[:, None]).square().cumsum(1)[:, -1] / rows.shape[1]


def shaped(v: Tensor, x: Tensor) -> Tensor:
    return v.view(-1, *[1] * (x.dim() - 2))


def library(init: dict, params: dict, x: Tensor) -> Tensor:
    wide, training = torch.promote_types(x.dtype, torch.float32), "running_mean" not in params
    running = [None if training else params[name].to(wide) for name in TestBatchNorm.buffers]
    own = (params["weight"].to(wide), params["bias"].to(wide))
    return F.batch_norm(x.to(wide), *running, *own, training, 0.0, init["eps"]).to(x.dtype)


def rounded_between(init: dict, params: dict, x: Tensor) -> Tensor:
    mean, variance = taken(params, x)
    normed = (x.to(mean.dtype) - shaped(mean, x)) / (shaped(variance, x) + init["eps"]).sqrt()
    return normed.to(x.dtype) * shaped(params["weight"], x) + shaped(params["bias"], x)


def scale_and_shift(init: dict, params: dict, x: Tensor) -> Tensor:
    mean, variance = taken(params, x)
    scale = params["weight"] * torch.rsqrt(variance + init["eps"])
    shift = params["bias"] - mean * scale
    return (x.to(mean.dtype) * shaped(scale, x) + shaped(shift, x)).to(x.dtype)


class TestBatchNorm(ModuleContract):
    name = "BatchNorm"
    oracle = feature_by_feature
    variants = (library, rounded_between, scale_and_shift)
    buffers = ("running_mean", "running_var")
    axes = {"x": "batch features *place", "result": "batch features *place"}
    ban = Ban(
        r"(batch|instance|group|layer|rms)_norm",
        ("torch.nn.functional.batch_norm", "torch._refs.native_layer_norm", "torch._refs.nn.functional.layer_norm",
         "torch._refs.native_group_norm"),
    )  # fmt: skip
    cases = {
        "in_evaluation": {"training": False},
        "in_evaluation_another_eps": {"training": False, "eps": 0.5, "momentum": 0.3},
        "images_in_evaluation": {"training": False, "place": (3, 2)},
        "in_training": {},
        "images_in_training": {"place": (3, 2)},
        "sequences_in_training": {"place": (7,), "eps": 0.5},
        "as_many_rows_as_features": {"batch": 5, "features": 5},
        "images_as_wide_as_features": {"place": (2, 3)},
        "sequences_as_long_as_features_in_evaluation": {"training": False, "place": (3,)},
        "inputs_as_small_as_eps": {"std": 0.003},
    }
    more_shapes = {
        "one_row_in_evaluation": {"training": False, "batch": 1},
        "one_image_in_training": {"batch": 1, "place": (3, 4)},
        "five_axes": {"place": (2, 3, 2)},
        "one_feature": {"features": 1},
        "two_values": {"batch": 2, "eps": 0.5},
    }
    hard_cases = {
        "mean_ten_thousand_times_the_spread": {"offset": 1e4},
        "the_same_in_evaluation": {"offset": 1e4, "training": False},
        "a_feature_of_equal_values": {"std": [1.0, 0.0, 1.0], "offset": [0.0, 2.0, 0.0]},
        "a_tiny_eps": {"std": 1e-5, "eps": 1e-12},
        "large_inputs": {"std": 1e4},
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

    def after(
        self, attempt: Attempt, calls: list[Call], grad: bool = False, dtype: torch.dtype = torch.float32
    ) -> Module:
        """The module of the first call after all of them, each in its mode."""
        module = self.ready(attempt, calls[0].cast(dtype), dtype)
        for each in calls:
            args, kwargs = self.arguments(each.cast(dtype).to(attempt.device))
            with self.case_context(attempt, "training" if self.trains(each) else "evaluation", each):
                args = tuple(v.requires_grad_(grad) for v in args)
                module.train(self.trains(each)).request(args, kwargs, grad=grad)
        return module

    def running(self, module: Module) -> dict[str, Tensor]:
        """The running statistics."""
        found = self.held(module)
        if missing := [name for name in self.buffers if name not in found]:
            fail("running statistics are buffers", f"missing: {', '.join(missing)}")
        return {name: found[name] for name in self.buffers}

    def assert_running(self, module: Module, calls: list[Call], told: str, dtype: torch.dtype = torch.float32) -> None:
        """The running statistics after these calls in training, feature by feature."""
        found = self.running(module)
        for name, value in moved(calls).items():
            got = found[name].detach().cpu()
            if got.dtype is not dtype:
                fail("running statistics have the dtype of the module", f"{name} is {bare(got.dtype)} in {bare(dtype)}")
            size = moved(calls, Tensor.abs)[name]
            once = torch.finfo(dtype).eps * value.abs() if dtype in HALF else 0.0
            match(got, value, 2e-5 * size + once, f"{name} is right {told}", "features")

    @core
    def test_starts_as_the_plain_norm(self, attempt: Attempt, draw: Draw) -> None:
        found = self.held(self.build(attempt, self.call(draw)))
        for name, start in START.items():
            if name not in found or not torch.equal(found[name], torch.full((3,), start)):
                got = found[name].tolist() if name in found else "none"
                fail(f"{name} starts as {[start] * 3}", f"got {got}")

    @core
    def test_training_moves_running_statistics_once_a_call(self, attempt: Attempt, draw: Draw) -> None:
        made = {"": {}, ", momentum 0.4, eps 0.5": {"momentum": 0.4, "eps": 0.5}, ", images": {"place": (3, 2)}}
        made |= {f", momentum {m}": {"momentum": m} for m in (0.0, 1.0)}
        for number, (told, more) in enumerate(made.items()):
            calls = [self.call(draw, batch=batch, **more) for batch in (6, 4, 5)]
            how = f"after 3 calls in training {'with' if number == 1 else 'without'} gradients{told}"
            self.assert_running(self.after(attempt, calls, number == 1), calls, how)

    @core
    def test_evaluation_leaves_running_statistics_alone(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, training=False)
        for grad in (False, True):
            for name, found in self.running(self.after(attempt, [call, call], grad)).items():
                if not torch.equal(found.detach().cpu(), call.params[name]):
                    seen = f"from {call.params[name].tolist()} to {found.tolist()}"
                    fail(f"evaluation leaves {name} as it is", seen)

    @core
    def test_evaluation_goes_on_from_where_training_ended(self, attempt: Attempt, draw: Draw) -> None:
        first, second = self.call(draw, momentum=0.4), self.call(draw, batch=4, momentum=0.4)
        asked = self.call(draw, batch=5, momentum=0.4)
        running = moved([first, second])
        asked = asked.with_params(**first.params, **{name: value.float() for name, value in running.items()})
        module, told = self.after(attempt, [first, asked, second]), "training, evaluation, training and evaluation"
        args, kwargs = self.arguments(asked.to(attempt.device))
        with self.case_context(attempt, told, asked):
            got = {"result": module.eval().request(args, kwargs)["value"]}
        self.compare(attempt, draw, told, asked, got)
        self.assert_running(module, [first, second], "after training, evaluation and training")

    @robust
    def test_running_statistics_have_no_graph(self, attempt: Attempt, draw: Draw) -> None:
        """Each step keeps the graph of all steps before: memory grows, or the second backward fails."""
        for name, value in self.running(self.after(attempt, [self.call(draw)], grad=True)).items():
            if value.requires_grad:
                fail("running statistics have no graph", f"{name} requires a gradient after a call in training")

    @robust
    def test_running_statistics_are_accurate_far_from_zero(self, attempt: Attempt, draw: Draw) -> None:
        """The variance of a feature with a large mean is noise, or negative, and evaluation gives nan."""
        calls = [self.call(draw, offset=1e4, batch=batch) for batch in (6, 40)]
        self.assert_running(self.after(attempt, calls), calls, "where the mean is 10⁴ times the spread")

    @robust
    def test_running_statistics_have_the_dtype_of_the_module(self, attempt: Attempt, draw: Draw) -> None:
        """In half precision the running mean stands still: a step of a thousandth is rounded away."""
        for dtype in (torch.float64, *HALF):
            # From -101 to about 909 with momentum 0.1: what is added nearly cancels, and its rounding is all there is.
            call = self.call(draw, batch=60, offset=909.0).cast(dtype)
            held = {"running_mean": torch.full((3,), -101.0), "running_var": torch.full((3,), 3.0)}
            module = self.ready(attempt, call, dtype).load_state_dict({k: v.to(dtype) for k, v in held.items()})
            args, kwargs = self.arguments(call.to(attempt.device))
            with self.case_context(attempt, f"a call in training in {bare(dtype)}", call):
                module.request(args, kwargs)
            self.assert_running(module, [call.with_params(**held)], f"after training in {bare(dtype)}", dtype)

    @robust
    @half_precisions
    def test_half_precision_divides_by_an_exact_root(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """A root rounded to half precision scales a whole feature, and so does the next layer's."""
        # Roundings of 512 values average out; a factor near 0.65, that lies on no grid, keeps its own.
        made = self.call(draw, batch=512, features=16, training=False)
        plain = {"weight": torch.ones(16), "bias": torch.zeros(16), "running_var": torch.linspace(2.3, 2.5, 16)}
        made = made.with_params(**plain).cast(dtype)
        got, expected = self.run(attempt, "many rows, weights of one", made, dtype).double(), self.expected(made)
        if got.shape != expected.shape:
            fail("the result has the shape of x", f"got {tuple(got.shape)} for {tuple(expected.shape)}")
        off = ((got * expected).sum(0) / expected.square().sum(0) - 1).abs().max()
        with self.case_context(attempt, "many rows, weights of one", made):
            sentence = "in half precision evaluation divides by a root that was not rounded"
            match(off, torch.zeros(()).double(), torch.tensor(torch.finfo(dtype).eps / 6), sentence, "")

    @robust
    def test_wrong_inputs_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """One feature is normalised by the statistics of another, or a single row turns the running ones to nan."""
        few, one = {"no axes": (), "one axis": (3,)}, "three features of one"
        other = {"two features of three": (4, 2), "one feature of three": (4, 1, 5), "features behind": (4, 5, 3)}
        other[one] = (4, 3)
        single = {"one row": (1, 3), "one row of one place": (1, 3, 1, 1)}
        for told, shape in (few | other | single).items():
            words, count = ", ".join(map(str, shape)), {**dict.fromkeys(few, len(shape)), **dict.fromkeys(single, 1)}
            number = count[told] if told in count else shape[1]
            values = (f"({words}", f"[{words}", number, f"{number}D")
            for training in (True, False) if told not in single else (True,):
                module = self.ready(attempt, self.call(draw, training=training, features=1 if told == one else 3))
                x, before = draw.normal(*shape).to(attempt.device), self.running(module)
                sentence = f"x of shape {shape}, {told}, is refused {'in training' if training else 'in evaluation'}"
                assert_raises(lambda m=module, x=x: m.request((x,), {}), values, sentence=sentence)
                for name, found in self.running(module).items():
                    if not torch.equal(found, before[name]):
                        fail("what is refused moves no running statistics", f"x of shape {shape} moved {name}")


def moved(calls: list[Call], of: Callable[[Tensor], Tensor] = torch.clone) -> dict[str, Tensor]:
    """The running statistics after these calls in training, from those that the first names or a new module has.

    `of` is applied to what they are made of.
    """
    start, momentum = calls[0].params, calls[0].init.get("momentum", 0.1)
    found = {name: of(start.get(name, torch.full((3,), START[name])).double()) for name in TestBatchNorm.buffers}
    for each in calls:
        rows = each.inputs["x"].double().transpose(0, 1).flatten(1).tolist()
        batch = {"running_mean": map(statistics.fmean, rows), "running_var": map(statistics.variance, rows)}
        for name, values in batch.items():
            found[name] = (1 - momentum) * found[name] + momentum * of(torch.tensor([*values], dtype=torch.float64))
    return found
