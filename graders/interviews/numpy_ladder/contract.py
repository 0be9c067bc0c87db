"""What each stage in NumPy must do. The oracles are torch's own layers in float64, its autograd, and its SGD."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Callee,
    Draw,
    Formula,
    NumpyContract,
    backward,
    core,
    fail,
    fast,
    match,
    robust,
    too_much,
)
from dojo.contracts.oracles import layer_norm, library_layer_norm

FAR = torch.tensor([[0.0], [300.0], [-300.0]])
OF_LINEAR = {"dx": "rows in", "dw": "out in", "db": "out"}
OF_NORM = {"dx": "rows features", "dweight": "features", "dbias": "features"}
SHAPES = {"w1": "hidden d", "b1": "hidden", "w2": "classes hidden", "b2": "classes"}
NEAR = 1e-5  # of the largest entry: what float32 parameters may err beside points of float64, and no mistake does
Params = dict[str, Tensor]


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def less_logsumexp(x: Tensor) -> Tensor:
    return (x - x.logsumexp(-1, keepdim=True)).exp()


def taking(names: str, formula: Formula) -> Formula:
    """The formula of inputs that have these names here, in its own order."""
    return lambda **given: formula(*(given[name] for name in names.split()))


class TestSoftmax(NumpyContract):
    name, stage = "softmax", 1
    oracle, variants = softmax, (softmax, less_logsumexp)
    axes = dict.fromkeys(("x", "result"), "batch rows classes")
    holds = {"Large logits": ("test_hard_cases", "test_no_warning"), "Dtype": ("test_results_have",)}
    sizes = {"classes": 7}
    cases = {"rows": {"shape": (5,)}, "one_row": {"shape": ()}, "two_leading_axes": {"shape": (2, 3)}}
    hard_cases = {
        "entries_of_1000": {"shape": (5,), "scale": 1000.0},
        "rows_far_apart": {"shape": (3,), "offset": FAR},
    }


class LossContract(NumpyContract):
    cases = {"a_batch": {"shape": (5,)}, "one_row": {"shape": (1,)}}
    more_shapes = {"two_leading_axes": {}, "three": {"shape": (2, 3, 1)}, "rows_of_one": {"shape": (4, 1, 1)}}
    hard_cases = {"logits_of_1000": {"shape": (6,), "scale": 1000.0}}

    @classmethod
    def call(cls, d: Draw, shape: tuple = (2, 5), classes: int = 7, scale: float = 3.0) -> Call:
        return Call({"logits": d.normal(*shape, classes, scale=scale), "targets": d.integers(0, classes, *shape)})


class TestCrossEntropy(LossContract):
    name, stage = "cross_entropy", 1
    oracle, variants = backward.loss, (backward.loss, backward.loss_in_terms)
    off = {"test_results_have_the_dtype_of_the_input": "the loss is a number of either kind"}
    holds = {"Large logits": ("test_hard_cases", "test_no_warning"), "Mean": ("test_values", "test_any_leading")}


class TestCrossEntropyGrad(LossContract):
    name, stage = "cross_entropy_grad", 2
    oracle = partial(backward.loss_grad, grad_out=1.0)
    variants = (oracle, partial(backward.loss_grad_in_terms, grad_out=1.0))
    holds = {"Division by n": ("test_values", "test_any_leading")}


class LayerContract(NumpyContract):
    stage = 2
    cases, more_shapes = LossContract.cases, LossContract.more_shapes
    holds = {"Leading axes": ("test_any_leading",)}


class TestLinear(LayerContract):
    name = "linear"
    oracle = taking("x w b", backward.linear)
    variants = (oracle, taking("x w b", backward.linear_in_terms))


class TestLinearGrad(LayerContract):
    name, results, axes = "linear_grad", tuple(OF_LINEAR), OF_LINEAR
    oracle = taking("x w dout", backward.linear_grads)
    variants = (oracle, taking("x w dout", backward.linear_grads_in_terms))
    cases = LayerContract.cases | {"square": {"shape": (3,), "d_in": 5, "d_out": 5}}
    holds = LayerContract.holds | {"Shapes": ("test_values",)}


class NormContract(LayerContract):
    stage = 3
    sizes = {"d_model": 7}
    cases = LayerContract.cases | {"a_large_eps": {"shape": (5,), "eps": 0.5}, "small": {"shape": (5,), "scale": 1e-3}}
    hard_cases = {"mean_of_300": {"shape": (8,), "d_model": 64, "offset": 300.0}}
    holds = {"Variance": ("test_values",), "Cancellation": ("test_hard_cases",)}


class TestLayerNorm(NormContract):
    name, oracle, variants = "layernorm", library_layer_norm, (library_layer_norm, layer_norm)


class TestLayerNormGrad(NormContract):
    name, results, axes = "layernorm_grad", tuple(OF_NORM), OF_NORM
    oracle = taking("x weight dout eps", backward.layernorm_grads)
    variants = (oracle, taking("x weight dout eps", backward.layernorm_grads_through_variance))


def logits_of(params: Params, x: Tensor) -> Tensor:
    return F.linear(F.relu(F.linear(x, params["w1"], params["b1"])), params["w2"], params["b2"])


def by_sgd(params: Params, x: Tensor, y: Tensor, steps: int, lr: float) -> tuple[Params, list[float]]:
    """What torch makes of the same initial values in float64, and its losses."""
    with torch.enable_grad():
        leaves = {name: value.double().clone().requires_grad_() for name, value in params.items()}
        optimizer = torch.optim.SGD(leaves.values(), lr)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            mean = F.cross_entropy(logits_of(leaves, x.double()), y)
            mean.backward()
            optimizer.step()
            losses.append(float(mean))
    return {name: leaf.detach() for name, leaf in leaves.items()}, losses


def spirals(d: Draw, points: int = 100) -> tuple[Tensor, Tensor]:
    """Two arms of one turn, the second opposite the first."""
    radius = torch.linspace(0.1, 1.0, points).repeat(2)
    y = torch.arange(2).repeat_interleave(points)
    angle = 2 * math.pi * radius + math.pi * y
    return 2 * torch.stack([radius * angle.cos(), radius * angle.sin()], 1) + d.normal(2 * points, 2, scale=0.03), y


def data(d: Draw, n: int = 13, features: int = 3, classes: int = 4) -> tuple[Tensor, Tensor]:
    return d.normal(n, features).double(), d.integers(0, classes, n)


def callee(attempt: Attempt) -> Callee:
    return Callee(attempt, ["in_arrays_drawing", "train"])


def trained(attempt: Attempt, x: Tensor, y: Tensor, hidden: int, classes: int, *more: Any) -> tuple[Params, list]:
    """Parameters and losses for these `steps, lr, seed`, of their names, shapes and number."""
    found = callee(attempt).request((x, y, hidden, classes, *more), {})["value"]
    if not (isinstance(found, (tuple, list)) and len(found) == 2 and isinstance(found[0], dict)):
        fail("train gives a dict of parameters and the losses, in a tuple", f"got a {type(found).__name__}")
    params, losses = found
    sizes = {"hidden": hidden, "classes": classes, "d": x.shape[1]}
    shapes = {name: tuple(sizes[axis] for axis in axes.split()) for name, axes in SHAPES.items()}
    got = {name: tuple(getattr(value, "shape", ())) for name, value in params.items()}
    if got != shapes:
        fail("the parameters are w1, b1, w2 and b2, of the shapes of the signature", f"got {got}", f"expected {shapes}")
    losses = losses.tolist() if isinstance(losses, Tensor) else losses
    if not isinstance(losses, (list, tuple)) or len(losses) != more[0]:
        count = len(losses) if isinstance(losses, (list, tuple)) else f"a {type(losses).__name__}"
        fail("losses holds a number for each step", f"got {count} for {more[0]} steps")
    for each in losses:
        if not isinstance(each, float) and not (isinstance(each, Tensor) and not each.dim()):
            fail("losses holds a number for each step", f"among them is a {type(each).__name__}, no number")
    return params, [float(each) for each in losses]


def close(got: Tensor, exact: Tensor, sentence: str, axes: str) -> None:
    allowed = (NEAR * exact.abs().max().clamp_min(1e-6)).expand(exact.shape)
    match(got.double(), exact, allowed, sentence, axes)


def is_he_normal(weight: Tensor, name: str) -> None:
    """Kolmogorov's test, which rejects right values once in 10⁹ draws, of a weight as `train` draws it."""
    std = math.sqrt(2 / weight.shape[1])
    found = weight.double().flatten().sort().values
    below, ranks = torch.special.ndtr(found / std), torch.arange(found.numel() + 1) / found.numel()
    gap = float(torch.maximum((ranks[1:] - below).abs(), (below - ranks[:-1]).abs()).max())
    if not gap <= 3.3 / found.numel() ** 0.5:
        seen = f"{name} of fan-in {weight.shape[1]} has a standard deviation of {found.std():.3g}, expected {std:.3g}"
        fail("weights are normal of variance 2 / fan-in", seen)


class TestTrain:
    stage = 4
    holds = {
        "Initial values": ("test_initial_values", "test_rng_is"),
        "Activation": ("test_losses_are",),
        "Steps": ("test_several_steps",),
        "Check": ("test_gradients_agree",),
        "Outcome": ("test_two_spirals",),
        "Cost": ("test_lines_of_python",),
    }

    @core
    def test_losses_are_those_of_a_network_with_one_relu(self, attempt: Attempt, draw: Draw) -> None:
        x, y = data(draw)
        initial, _ = trained(attempt, x, y, 6, 4, 0, 0.5, draw.seed)
        _, got = trained(attempt, x, y, 6, 4, 1, 0.5, draw.seed)
        exact = F.cross_entropy(logits_of({name: value.double() for name, value in initial.items()}, x), y)
        sentence = "the first loss is that of the initial parameters: linear, ReLU, linear"
        close(torch.tensor(got[0]), exact, sentence, "")

    @core
    def test_gradients_agree_with_those_of_autograd(self, attempt: Attempt, draw: Draw) -> None:
        x, y = data(draw)
        before, _ = trained(attempt, x, y, 6, 4, 0, 0.5, draw.seed)
        after, _ = trained(attempt, x, y, 6, 4, 1, 0.5, draw.seed)
        exact, _ = by_sgd(before, x, y, 1, 0.5)
        for name, axes in SHAPES.items():
            sentence = f"the first step moves {name} by lr times its gradient"
            moved = exact[name] - before[name].double()
            close(after[name].double() - before[name].double(), moved, sentence, axes)

    @core
    def test_several_steps_are_those_of_gradient_descent(self, attempt: Attempt, draw: Draw) -> None:
        x, y = data(draw)
        before, _ = trained(attempt, x, y, 6, 4, 0, 0.1, draw.seed)
        got, losses = trained(attempt, x, y, 6, 4, 12, 0.1, draw.seed)
        exact, expected = by_sgd(before, x, y, 12, 0.1)
        for name, axes in SHAPES.items():
            close(got[name], exact[name], f"{name} after 12 steps is that of gradient descent", axes)
        sentence = "each loss is that before its step"
        close(torch.tensor(losses).double(), torch.tensor(expected).double(), sentence, "step")

    @core
    def test_two_spirals_are_learned(self, attempt: Attempt, draw: Draw) -> None:
        x, y = spirals(draw)
        params, losses = trained(attempt, x, y, 64, 2, 2000, 1.0, draw.seed)
        share = float((logits_of({k: v.float() for k, v in params.items()}, x).argmax(1) == y).double().mean())
        if not share >= 0.95:
            told = f"{share:.1%} are right, the loss went from {losses[0]:.3g} to {losses[-1]:.3g}"
            fail("2,000 steps learn two spirals to 95 %", told)

    @robust
    def test_initial_values_are_of_he(self, attempt: Attempt, draw: Draw) -> None:
        """Smaller weights make signals and gradients shrink from layer to layer, larger ones saturate the softmax; and
        a weight in float64 makes all that follows float64: twice the memory, half the speed.
        """
        for dtype in (torch.float32, torch.float64):
            x, y = draw.normal(3, 40).to(dtype), draw.integers(0, 50, 3)
            params, _ = trained(attempt, x, y, 300, 50, 0, 0.1, draw.seed)
            for name, value in params.items():
                if value.dtype is not dtype:
                    fail("parameters have the dtype of x", f"{name}: got {value.dtype} for {dtype}")
                if name.startswith("w"):
                    is_he_normal(value, name)
                elif value.count_nonzero():
                    fail("biases start from 0", f"{name} holds {value[value != 0][0]:.3g}")

    @robust
    def test_rng_is_all_that_is_drawn_from(self, attempt: Attempt, draw: Draw) -> None:
        """A run cannot be repeated, or all runs start alike, whatever seed they are given."""
        x, y = data(draw)
        one, same, other = (trained(attempt, x, y, 6, 4, 0, 0.1, draw.seed + more)[0] for more in (0, 0, 1))
        for name in ("w1", "w2"):
            match(same[name], one[name], None, f"the same seed draws the same {name}", SHAPES[name])
            if torch.equal(one[name], other[name]):
                fail("another seed draws other weights", f"{name} is the same for two seeds")

    @fast
    def test_lines_of_python_do_not_grow_with_points_or_units(self, attempt: Attempt, draw: Draw) -> None:
        def lines(n: int, hidden: int) -> int:
            args = (*data(draw, n), hidden, 4, 2, 0.1, draw.seed)
            count: int = callee(attempt).ask(do="steps", target=callee(attempt).target, args=args, kwargs={})["value"]
            return count

        before = lines(8, 8)
        for word, sizes in {"points": (40, 8), "hidden units": (8, 40)}.items():
            if lines(*sizes) - before >= 32:
                seen = f"{before} with 8, {lines(*sizes)} with 40"
                too_much(f"the number of lines of Python does not grow with {word}", seen)
