"""What six functions of NumPy must do. The oracles are torch's own layers in float64, and its autograd."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, NumpyContract, robust
from dojo.contracts.oracles import layer_norm, library_layer_norm

Gradients = tuple[Tensor, ...]
AXES = {"grad_x": "rows features", "grad_weight": "out in", "grad_bias": "out"}


def by_autograd(layer: Callable[..., Tensor], grad_out: Tensor | float, *inputs: Tensor) -> Gradients:
    leaves = [each.detach().requires_grad_() for each in inputs]
    with torch.enable_grad():
        result = layer(*leaves)
    return torch.autograd.grad(result, leaves, torch.as_tensor(grad_out, dtype=result.dtype).expand_as(result))


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x, weight, bias)


def linear_in_terms(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x[..., None, :] * weight).sum(-1) + bias


def linear_grads(x: Tensor, weight: Tensor, grad_out: Tensor) -> Gradients:
    return by_autograd(linear, grad_out, x, weight, weight.new_zeros(weight.shape[0]))


def linear_grads_in_terms(x: Tensor, weight: Tensor, grad_out: Tensor) -> Gradients:
    """Sums row after row, the least accurate there are."""
    rows, grads = x.flatten(0, -2), grad_out.flatten(0, -2)
    terms = grads[:, :, None] * rows[:, None]
    return (grad_out[..., None] * weight).sum(-2), terms.cumsum(0)[-1], grads.cumsum(0)[-1]


def layernorm_grads(x: Tensor, weight: Tensor, grad_out: Tensor, eps: float) -> Gradients:
    layer = lambda *leaves: library_layer_norm(*leaves, eps)  # noqa: E731
    return by_autograd(layer, grad_out, x, weight, torch.zeros_like(weight))


def layernorm_grads_through_variance(x: Tensor, weight: Tensor, grad_out: Tensor, eps: float) -> Gradients:
    """The gradients of mean and variance by themselves, as courses write them; a mean may be off by two roundings."""
    mean = x.mean(-1, keepdim=True)
    centered, grad = x - (mean + 2 * torch.finfo(x.dtype).eps * mean.abs()), grad_out * weight
    inverse = (centered.square().mean(-1, keepdim=True) + eps).rsqrt()
    of_variance = (grad * centered).sum(-1, keepdim=True) * -0.5 * inverse**3
    of_mean = -(grad * inverse).sum(-1, keepdim=True)
    grad_x = grad * inverse + (of_variance * 2 * centered + of_mean) / x.shape[-1]
    rows, grads = (centered * inverse).flatten(0, -2), grad_out.flatten(0, -2)
    return grad_x, (grads * rows).cumsum(0)[-1], grads.cumsum(0)[-1]


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def loss_in_terms(logits: Tensor, targets: Tensor) -> Tensor:
    chosen = logits.gather(-1, targets[..., None])[..., 0]
    return (logits.logsumexp(-1) - chosen).flatten().cumsum(0)[-1] / targets.numel()


def loss_grad(logits: Tensor, targets: Tensor, grad_out: float) -> Tensor:
    return by_autograd(lambda leaf: loss(leaf, targets), grad_out, logits)[0]


def loss_grad_in_terms(logits: Tensor, targets: Tensor, grad_out: float) -> Tensor:
    exps = (logits - logits.amax(-1, keepdim=True)).exp()
    return (exps / exps.sum(-1, keepdim=True) - F.one_hot(targets, logits.shape[-1])) / targets.numel() * grad_out


class LayerContract(NumpyContract):
    cases = {"a_batch": {"shape": (5,)}, "one_row": {"shape": (1,)}}
    more_shapes = {"two_leading_axes": {}, "three": {"shape": (2, 3, 1)}, "rows_of_one": {"shape": (4, 1, 1)}}
    holds = {"Leading axes": ("test_any_leading",), "Dtype": ("test_results_have",)}


class TestLinearForward(LayerContract):
    name, oracle, variants = "linear_forward", linear, (linear, linear_in_terms)


class TestLinearBackward(LayerContract):
    name, results, axes = "linear_backward", tuple(AXES), AXES
    oracle, variants = linear_grads, (linear_grads, linear_grads_in_terms)
    cases = LayerContract.cases | {"square": {"shape": (3,), "d_in": 5, "d_out": 5}}


class NormContract(LayerContract):
    sizes = {"d_model": 7}
    cases = LayerContract.cases | {"a_large_eps": {"shape": (5,), "eps": 0.5}, "small": {"shape": (5,), "scale": 1e-3}}
    hard_cases = {"mean_of_300": {"shape": (8,), "d_model": 64, "offset": 300.0}}
    holds = LayerContract.holds | {"Large mean": ("test_hard_cases",)}


class TestLayerNormForward(NormContract):
    name, oracle, variants = "layernorm_forward", library_layer_norm, (library_layer_norm, layer_norm)


class TestLayerNormBackward(NormContract):
    name, results, axes = "layernorm_backward", tuple(AXES), AXES
    oracle, variants = layernorm_grads, (layernorm_grads, layernorm_grads_through_variance)


class LossContract(LayerContract):
    axes = {"result": "rows vocab"}
    hard_cases = {"logits_of_1000": {"shape": (6,), "scale": 1000.0}}
    holds = LayerContract.holds | {
        "Large logits": ("test_hard_cases", "test_no_warning"),
        "Errors": ("test_targets_of",),
    }

    @classmethod
    def call(cls, d: Draw, shape: tuple = (2, 5), vocab: int = 7, scale: float = 3.0, **more: float) -> Call:
        logits, targets = d.normal(*shape, vocab, scale=scale), d.integers(0, vocab, *shape)
        return Call({"logits": logits, "targets": targets, **more})

    @robust
    def test_targets_of_another_shape_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A trailing axis of one broadcasts to a table of all pairs, whose mean is a loss like any other."""
        for shape in ((6,), (2, 3)):
            call = self.call(draw, shape)
            targets = call.inputs["targets"]
            self.refuses_each(attempt, call, targets=(targets[..., None], targets[:1]))


class TestCrossEntropyForward(LossContract):
    name, oracle, variants = "cross_entropy_forward", loss, (loss, loss_in_terms)


class TestCrossEntropyBackward(LossContract):
    name, oracle, variants = "cross_entropy_backward", loss_grad, (loss_grad, loss_grad_in_terms)
    cases = LossContract.cases | {"a_third": {"shape": (5,), "grad_out": 1 / 3}}
