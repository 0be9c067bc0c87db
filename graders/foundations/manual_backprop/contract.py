"""What six functions of NumPy must do. The oracles are torch's own layers in float64, and its autograd."""

from __future__ import annotations

from dojo.contracts import Attempt, Call, Draw, NumpyContract, robust
from dojo.contracts.backward import (
    layernorm_grads,
    layernorm_grads_through_variance,
    linear,
    linear_grads,
    linear_grads_in_terms,
    linear_in_terms,
    loss,
    loss_grad,
    loss_grad_in_terms,
    loss_in_terms,
)
from dojo.contracts.oracles import layer_norm, library_layer_norm

AXES = {"grad_x": "rows features", "grad_weight": "out in", "grad_bias": "out"}


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
