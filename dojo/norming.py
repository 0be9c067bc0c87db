"""What is asked of a norm besides: that half precision is reduced and normalised in float32."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dojo.contract import ModuleContract, half_precisions, robust
from dojo.expect import Draw, fail, tensor
from dojo.judge.proxy import Attempt


def off_the_grid(x: Tensor) -> Tensor:
    """Vectors of mean 0 and lengths from which a norm moves each entry off the grid it was rounded to.

    Multiplied by nearly 1 or 3/2, the entries of half precision would all be rounded to the same side.
    """
    centred = x - x.mean(-1, keepdim=True)
    lengths = torch.linspace(0.64, 0.66, len(x))[:, None]
    return lengths * centred / centred.square().mean(-1, keepdim=True).sqrt()


class NormContract(ModuleContract):
    """A module that normalises each vector by itself."""

    @robust
    @half_precisions
    def test_half_precision_vectors_get_their_exact_length(
        self, attempt: Attempt, draw: Draw, dtype: torch.dtype
    ) -> None:
        """Roundings of the entries average out over a long vector; a factor that was rounded before does not."""
        made = type(self).timed(draw)
        plain = {k: torch.full_like(v, 1.0 if k == "weight" else 0.0) for k, v in made.params.items()}
        made = replace(made, inputs={"x": off_the_grid(made.inputs["x"][:32])}, params=plain).cast(dtype)
        here = self.on_device(attempt, made)
        with torch.no_grad(), self.told(attempt, "long vectors, weights of one", made):
            got = tensor(self.ready(attempt, made, dtype)(here.inputs["x"]), attempt.device).cpu().double()
        expected = self.expected(made)
        if got.shape != expected.shape:
            fail("the result has the shape of x", f"got {tuple(got.shape)} for {tuple(expected.shape)}")
        off = ((got * expected).sum(-1) / expected.square().sum(-1) - 1).abs().max().item()
        # 512 roundings come to at most 0.09 eps on the whole, an inverse that was itself rounded to 0.27 or more.
        allowed = torch.finfo(dtype).eps / 6
        if off > allowed:
            seen = f"in {dtype} a vector is {off:.2g} longer or shorter than it should be, allowed {allowed:.2g}"
            fail("half precision is reduced and normalised in float32, and rounded once at the end", seen)
