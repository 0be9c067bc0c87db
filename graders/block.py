"""What `PreNormBlock` and `PostNormBlock` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo import attending
from dojo.attending import (
    NO_KEY_FOR_THE_SECOND,
    HeadsContract,
    UnnormedContract,
    heads_one_by_one,
    library,
    normalised_last,
    one_head_blind,
    stage_by_stage,
    very_large_scores,
    weights,
)
from dojo.bugs import Bug
from dojo.contract import NormedContract, core
from dojo.expect import Call, Draw, fail, parameters_are, tensor
from dojo.formulas import Gated, Norm, library_rms_norm, library_swiglu, rms_norm, swiglu, under
from dojo.judge.proxy import Attempt
from dojo.rule import Formula

EPS = 1e-5


def block(pre: bool, attend: Formula, norm: Norm, gated: Gated) -> Formula:
    """A block of these parts, with the norms before or after them."""

    def formula(init: dict, params: dict, x: Tensor, mask: Tensor | None = None) -> Tensor:
        def attention(h: Tensor) -> Tensor:
            return heads_one_by_one(attend)(init, under("attn.", params), h, None, mask)

        def feed_forward(h: Tensor) -> Tensor:
            return gated(under("ffn.", params), h)

        for part, name in ((attention, "attn_norm.weight"), (feed_forward, "ffn_norm.weight")):
            x = x + part(norm(x, params[name], EPS)) if pre else norm(x + part(x), params[name], EPS)
        return x

    return formula


def ways(pre: bool) -> tuple[Formula, ...]:
    """Accepted evaluations of a block."""
    return (
        block(pre, stage_by_stage, rms_norm, swiglu),
        block(pre, library, library_rms_norm, library_swiglu),
        block(pre, normalised_last, library_rms_norm, swiglu),
    )


def call(
    d: Draw, batch: int, seq: int, heads: int = 3, head_dim: int = 4, d_ff: int = 7, loud: float = 1.0, **more: Tensor
) -> Call:
    """A call on inputs of standard deviation `loud`."""
    d_model = heads * head_dim
    params = {f"attn.{name}": value for name, value in weights(d, d_model, d_model, sharp=1.5).items()}
    params |= {f"ffn.{name}.weight": d.normal(d_ff, d_model, scale=0.5) for name in ("w1", "w3")}
    params["ffn.w2.weight"] = d.normal(d_model, d_ff, scale=0.5)
    params |= {f"{part}_norm.weight": d.uniform(d_model, low=-2, high=2) for part in ("attn", "ffn")}
    init = {"d_model": d_model, "num_heads": heads, "d_ff": d_ff}
    return Call({"x": d.normal(batch, seq, d_model, scale=loud), **more}, init, params)


def near_300(d: Draw, **scales: float) -> Call:
    """Inputs near 300, and some weights scaled so that norm and branch both show in the result."""
    made = call(d, 2, 3)
    scaled = {name: value * scales.get(name.split(".")[-2], 1.0) for name, value in made.params.items()}
    return Call({"x": 300 + d.normal(2, 3, 12)}, made.init, scaled)


class BlockContract(NormedContract, HeadsContract):
    axes = {"x": "batch seq d_model", "mask": "batch heads q_len k_len", "result": "batch seq d_model"}
    cases = {
        "no_mask": lambda d: call(d, 2, 5),
        "a_mask_for_all": lambda d: call(d, 2, 5, mask=d.mask(5, 5)),
        "a_mask_for_each_head": lambda d: call(d, 2, 5, mask=d.mask(3, 5, 5)),
        "a_mask_for_each_head_of_each_entry": lambda d: call(d, 2, 5, mask=d.mask(2, 3, 5, 5)),
        "padding": lambda d: call(d, 2, 5, mask=d.mask(2, 1, 1, 5)),
        "three_axes_of_mask_and_as_many_entries_as_heads": lambda d: call(d, 3, 5, mask=d.mask(3, 5, 5)),
        "queries_hidden_in_one_head_alone": lambda d: call(d, 2, 5, mask=one_head_blind(d, 3)),
        "inputs_as_small_as_eps": lambda d: call(d, 2, 5, loud=0.003),
    }
    telling = ("no_mask", "a_mask_for_each_head_of_each_entry", "inputs_as_small_as_eps")
    more_shapes = {
        "one_token": lambda d: call(d, 2, 1),
        "one_token_that_sees_nothing": lambda d: call(d, 2, 1, mask=NO_KEY_FOR_THE_SECOND),
        "one_entry": lambda d: call(d, 1, 5, mask=d.mask(1, 3, 5, 5)),
        "one_head": lambda d: call(d, 2, 5, heads=1, mask=d.mask(2, 1, 5, 5)),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5, mask=d.mask(n, 1, 5, 5)),
        "seq": lambda d, n: call(d, 2, n, mask=d.mask(n, n)),
        "heads": lambda d, n: call(d, 2, 5, heads=n, mask=d.mask(5, 5)),
        "width": lambda d, n: call(d, 2, 5, head_dim=n, mask=d.mask(5, 5)),
        "hidden width": lambda d, n: call(d, 2, 5, d_ff=n, mask=d.mask(5, 5)),
    }
    time_limit = 10.0

    @staticmethod
    def delicate(d: Draw) -> Call:
        return call(d, 2, 5, head_dim=5)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 2, 96, heads=6, head_dim=8, d_ff=128, mask=d.mask(96, 96))

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5)
        module = getattr(attempt, self.name)(*made.init.values())
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})

    @core
    def test_no_key_behind_the_mask_has_any_influence(self, attempt: Attempt, draw: Draw) -> None:
        hidden = torch.tensor([True, True, True, False, False])
        made = self.on_device(attempt, very_large_scores(call(draw, 2, 5, mask=hidden.expand(5, 5))))
        module, (x, mask) = self.ready(attempt, made), made.inputs.values()
        changed = x.clone()
        changed[:, 3:] = draw.normal(2, 2, x.shape[-1], scale=5).to(x.device)
        before, after = (tensor(module(each, mask=mask), attempt.device).detach()[:, :3] for each in (x, changed))
        if before.shape != after.shape or not torch.allclose(before, after, atol=1e-4):
            fail("what the mask hides has no influence", "tokens 3 and 4 changed what tokens 0 to 2 give")


class TestPreNormBlock(BlockContract):
    name = "PreNormBlock"
    oracle = staticmethod(block(True, library, library_rms_norm, library_swiglu))
    variants = ways(True)

    @staticmethod
    def near_300(d: Draw) -> Call:
        return near_300(d, o_proj=100, w2=100)


class TestPostNormBlock(BlockContract, UnnormedContract):
    name = "PostNormBlock"
    oracle = staticmethod(block(False, library, library_rms_norm, library_swiglu))
    variants = ways(False)

    @staticmethod
    def near_300(d: Draw) -> Call:
        return near_300(d, q_proj=0.01, k_proj=0.01, v_proj=0.1)


BUGS = [
    Bug(
        "norm weights start as zeros",
        "a norm starts as the plain norm: with weights of 0 nothing passes through it, and training starts blind.",
        "self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))",
    ),
    Bug(
        "post-norm in the pre-norm block",
        "the norm belongs inside the branch, so that the residual stream runs through untouched.",
        "x = x + self.attn(self.attn_norm(x), mask=mask)",
        "x = self.attn_norm(x + self.attn(x, mask=mask))",
    ),
    Bug(
        "pre-norm in the post-norm block",
        "the norm belongs behind the sum of residual and branch.",
        "x = self.attn_norm(x + self.attn(x, mask=mask))",
        "x = x + self.attn(self.attn_norm(x), mask=mask)",
    ),
    Bug(
        "no residual around attention",
        "each branch is added to its input.",
        "x = x + self.attn(self.attn_norm(x), mask=mask)",
        "x = self.attn(self.attn_norm(x), mask=mask)",
    ),
    Bug(
        "no residual around the feed-forward layer",
        "each branch is added to its input.",
        "x = x + self.ffn(self.ffn_norm(x))",
        "x = self.ffn(self.ffn_norm(x))",
    ),
    Bug(
        "the residual taken after the norm",
        "the branch is added to x itself; from the normalised x the stream is rescaled in every block.",
        "x = x + self.attn(self.attn_norm(x), mask=mask)",
        "x = self.attn_norm(x) + self.attn(self.attn_norm(x), mask=mask)",
    ),
    Bug(
        "the second residual taken after the norm",
        "the branch is added to x itself; from the normalised x the stream is rescaled in every block.",
        "x = x + self.ffn(self.ffn_norm(x))",
        "x = self.ffn_norm(x) + self.ffn(self.ffn_norm(x))",
    ),
    Bug(
        "both branches read the input of the block",
        "that is the parallel block of GPT-J; here the feed-forward layer reads what attention made of the input.",
        "x = x + self.attn(self.attn_norm(x), mask=mask)",
        "x = x + self.attn(self.attn_norm(x), mask=mask) + self.ffn(self.ffn_norm(x)); return x",
    ),
    Bug(
        "feed-forward layer before attention",
        "attention comes first.",
        "x = x + self.attn(self.attn_norm(x), mask=mask)",
        "x = x + self.ffn(self.ffn_norm(x)); return x + self.attn(self.attn_norm(x), mask=mask)",
    ),
    Bug(
        "feed-forward layer without its norm",
        "both branches of a pre-norm block read a normalised input.",
        "x = x + self.ffn(self.ffn_norm(x))",
        "x = x + self.ffn(x) + 0 * self.ffn_norm(x)",
    ),
    Bug(
        "one norm for both branches",
        "attention and feed-forward layer have a norm each, with weights of their own.",
        "x = x + self.ffn(self.ffn_norm(x))",
        "x = x + self.ffn(self.attn_norm(x)) + 0 * self.ffn_norm(x)",
    ),
    Bug(
        "the norm on the branch alone",
        "post-norm normalises the sum; normalising only the branch is another design.",
        "x = self.ffn_norm(x + self.ffn(x))",
        "x = x + self.ffn_norm(self.ffn(x))",
    ),
    Bug(
        "no residual in the post-norm block",
        "what is normalised is the sum of x and the branch.",
        "x = self.ffn_norm(x + self.ffn(x))",
        "x = self.ffn_norm(self.ffn(x))",
    ),
    Bug(
        "mask not passed on",
        "the block's mask is attention's mask.",
        "x = x + self.attn(self.attn_norm(x), mask=mask)",
        "x = x + self.attn(self.attn_norm(x))",
    ),
    Bug(
        "the mean of all values where nothing may be attended to",
        "softmax over equal numbers is uniform: a query without keys gets zeros.",
        "weights = weights.masked_fill(~mask, 0.0)",
        "weights = weights.masked_fill(~mask & mask.any(-1, keepdim=True), 0.0)",
    ),
    Bug(
        "eps outside the square root",
        "eps is added to the mean of squares; added to its root it weighs far less.",
        "return (wide * torch.rsqrt(mean_square + self.eps) * self.weight).to(x.dtype)",
        "return (wide / (mean_square.sqrt() + self.eps) * self.weight).to(x.dtype)",
    ),
    Bug(
        "eps 1e-6 instead of 1e-5",
        "eps matters where the input is small.",
        "return (wide * torch.rsqrt(mean_square + self.eps) * self.weight).to(x.dtype)",
        "return (wide * torch.rsqrt(mean_square + 1e-6) * self.weight).to(x.dtype)",
    ),
    Bug(
        "norm weight ignored",
        "the normalised input is multiplied by the weight.",
        "return (wide * torch.rsqrt(mean_square + self.eps) * self.weight).to(x.dtype)",
        "return (wide * torch.rsqrt(mean_square + self.eps) + 0 * self.weight).to(x.dtype)",
    ),
    Bug(
        "mean subtracted",
        "that is LayerNorm; RMSNorm only divides.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "mean_square = wide.var(dim=-1, keepdim=True, unbiased=False); wide = wide - wide.mean(dim=-1, keepdim=True)",
    ),
    Bug(
        "squares summed instead of averaged",
        "the mean makes the norm independent of the width.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "mean_square = wide.square().sum(dim=-1, keepdim=True)",
    ),
    Bug(
        "squares in half precision",
        "the square of 300 is beyond the largest float16, 65,504.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "mean_square = x.square().mean(dim=-1, keepdim=True)",
    ),
]

EQUIVALENT = (*attending.EQUIVALENT,)
