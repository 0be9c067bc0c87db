"""The katas in NumPy against PyTorch's own layers and their autograd."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.conformance.agreement import agree, integers, normal, solution

X, GRAD = normal(2, 5, 7) * 2 + 1, normal(2, 5, 7, seed=2)
WEIGHT, BIAS = normal(7, 7, seed=3), normal(7, seed=4)


def ours(function: Callable, *inputs: Tensor | int, dtype: torch.dtype) -> Tensor:
    """Ours on arrays: all results in one tensor."""
    given = [
        each if isinstance(each, int) else each.to(dtype if each.is_floating_point() else each.dtype).numpy()
        for each in inputs
    ]
    found = function(*given)
    return flat(*map(torch.as_tensor, found if isinstance(found, tuple) else (found,)))


def flat(*tensors: Tensor) -> Tensor:
    return torch.cat([each.flatten() for each in tensors])


def forward_and_backward(layer: Callable, *inputs: Tensor, dtype: torch.dtype, grad: Tensor) -> tuple[Tensor, ...]:
    """A layer of PyTorch: its result, and the gradients of the floating inputs."""
    leaves = [each.to(dtype).requires_grad_() if each.is_floating_point() else each for each in inputs]
    with torch.enable_grad():
        result = layer(*leaves)
    sources = [each for each in leaves if each.requires_grad]
    return result.detach(), *torch.autograd.grad(result, sources, grad.to(dtype).expand_as(result))


def test_manual_backprop_is_torchs() -> None:
    made, targets = solution("manual_backprop"), integers(7, 2, 5)
    layers = {
        "linear": (lambda x, weight, bias: F.linear(x, weight, bias), (X, WEIGHT, BIAS)),
        "layernorm": (lambda x, weight, bias: F.layer_norm(x, (7,), weight, bias), (X, WEIGHT[0], BIAS)),
    }
    for name, (layer, inputs) in layers.items():
        forward, backward = (getattr(made, f"{name}_{way}") for way in ("forward", "backward"))

        def both(dtype: torch.dtype, forward=forward, backward=backward, inputs=inputs) -> Tensor:
            x, weight, bias = inputs
            return flat(ours(forward, x, weight, bias, dtype=dtype), ours(backward, x, weight, GRAD, dtype=dtype))

        def theirs(dtype: torch.dtype, layer=layer, inputs=inputs) -> Tensor:
            return flat(*forward_and_backward(layer, *inputs, dtype=dtype, grad=GRAD))

        agree(theirs, both)

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    one = torch.ones(())
    agree(
        lambda dtype: flat(*forward_and_backward(loss, X, targets, dtype=dtype, grad=one)),
        lambda dtype: flat(
            ours(made.cross_entropy_forward, X, targets, dtype=dtype),
            ours(made.cross_entropy_backward, X, targets, dtype=dtype),
        ),
    )


def test_numpy_attention_is_torchs() -> None:
    made, x = solution("numpy_attention"), normal(2, 9, 12)
    weights = [normal(12, 12, seed=seed) / 3 for seed in range(2, 6)]

    def theirs(dtype: torch.dtype) -> Tensor:
        w_q, w_k, w_v, w_o = (each.to(dtype) for each in weights)
        q, k, v = ((x.to(dtype) @ each).unflatten(-1, (3, 4)).transpose(1, 2) for each in (w_q, w_k, w_v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2) @ w_o

    def attention(*given: np.ndarray) -> np.ndarray:
        return made.causal_attention(*given, num_heads=3)

    agree(theirs, lambda dtype: ours(attention, x, *weights, dtype=dtype).view(2, 9, 12))
    agree(lambda dtype: F.softmax(x.to(dtype), 1), lambda dtype: ours(made.softmax, x, 1, dtype=dtype).view(x.shape))
