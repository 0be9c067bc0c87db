"""What `RMSNorm` must do. The oracle is torch's own in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import WIDER, Ban, Formula, KnownBugs, NormContract
from dojo.contracts.oracles import Norm, library_rms_norm, rms_norm


def formula(norm: Norm) -> Formula:
    return lambda init, params, x: norm(x, params["weight"], init.get("eps", 1e-5))


def by_length(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """√n · x / √(‖x‖² + n eps)."""
    wide, size = x.to(torch.promote_types(x.dtype, torch.float32)), x.shape[-1]
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return (wide * (size**0.5 / torch.hypot(length, length.new_tensor((size * eps) ** 0.5))) * weight).to(x.dtype)


class TestRMSNorm(NormContract):
    name = "RMSNorm"
    oracle = staticmethod(formula(library_rms_norm))
    variants = (formula(rms_norm), formula(library_rms_norm), formula(by_length))
    ban = Ban(r"rms_norm|layer_norm", ("torch._refs.native_layer_norm", "torch._refs.nn.functional.layer_norm"))
    cases = NormContract.cases | {"a_vector_of_zeros": {"shape": (3,), "std": [[1.0], [0.0], [1.0]]}}
    rounded_once = True
    representative = ("a_batch", "inputs_as_small_as_eps", "a_vector_of_zeros")
    near_300 = {"shape": (3,), "offset": 300.0}


BUGS = KnownBugs(
    """
the sum of squares instead of their mean
    the root of a sum grows with the width.
    wide.square().mean(dim=-1, keepdim=True)  →  wide.square().sum(dim=-1, keepdim=True)
the mean subtracted
    that is LayerNorm; RMSNorm subtracts nothing.
    mean_square =  →  wide = wide - wide.mean(dim=-1, keepdim=True)
        mean_square =
divided by the deviation
    the mean square is taken of x itself, not of its distance from the mean.
    wide.square().mean(dim=-1, keepdim=True)  →  wide.var(dim=-1, keepdim=True, correction=0)
eps outside the square root
    eps is added to the mean of squares; added to its root it weighs far less.
    wide * torch.rsqrt(mean_square + self.eps)  →  wide / (mean_square.sqrt() + self.eps)
no eps
    without eps a vector whose entries are all the same is 0/0.
    mean_square + self.eps  →  mean_square
eps ignored
    eps is an argument.
    self.eps = eps  →  self.eps = 1e-5
eps 1e-6 instead of 1e-5
    Llama's own is 1e-6; eps matters where the input is small.
    eps: float = 1e-5  →  eps: float = 1e-6
eps 1e-8 instead of 1e-5
    eps matters where the input is small.
    d_model: int, eps: float = 1e-5  →  d_model: int, eps: float = 1e-8
eps as the least mean square
    eps is added to every mean of squares, not put in place of a small one.
    normed = wide * torch.rsqrt(mean_square + self.eps)  →  normed = wide * torch.rsqrt(mean_square.clamp_min(self.eps))
eps squared under the root
    eps is what is added under the root; squared it vanishes.
    normed = wide * torch.rsqrt(mean_square + self.eps)  →  normed = wide * torch.rsqrt(mean_square + self.eps**2)
no square root
    what is divided by is the root, not its square.
    * torch.rsqrt(  →  / (
the mean over the sequence too
    each vector has a norm of its own.
    wide.square().mean(dim=-1, keepdim=True)
    →  wide.square().mean(dim=tuple(range(-min(2, wide.ndim), 0)), keepdim=True)
the mean over the batch
    each vector has a norm of its own, whatever else is in the batch.
    wide.square().mean(dim=-1, keepdim=True)  →  wide.square().mean(dim=0, keepdim=True)
the weight applied before the norm
    the norm would divide most of it out again: normalise first, then multiply.
    mean_square =  →  wide = wide * self.weight
        mean_square =
    (normed * self.weight)  →  (normed)
no weight
    each entry is scaled by its weight.
    (normed * self.weight  →  (normed + 0 * self.weight
1 + weight
    that is Gemma's way, whose weights start at 0; these start at 1.
    * self.weight).to(x.dtype)  →  * (1 + self.weight)).to(x.dtype)
weight starts as zeros
    a norm starts as the plain norm: its weight is 1.
    nn.Parameter(torch.ones(d_model  →  nn.Parameter(torch.zeros(d_model
an explicit dtype ignored
    the parameter is made in the dtype that the constructor is given.
    torch.ones(d_model, device=device, dtype=dtype)  →  torch.ones(d_model, device=device)
squared in half precision
    300² is beyond float16: the mean of squares is taken in float32.
    mean_square = wide.square()  →  mean_square = x.square()
the root rounded to half precision
    a factor that is rounded makes the whole vector longer or shorter: round once, at the end.
    normed = wide * torch.rsqrt(mean_square + self.eps)
    →  normed = wide * torch.rsqrt(mean_square + self.eps).to(x.dtype)
the result left in float32
    the result has the dtype of the input.
    return (normed * self.weight).to(x.dtype)  →  return normed * self.weight
"""
)

EQUIVALENT = (WIDER,)
