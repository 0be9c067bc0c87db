"""What `PreNormBlock` and `PostNormBlock` must do. The oracle composes heads, RMSNorm and SwiGLU in float64."""

from __future__ import annotations

from torch import Tensor

from dojo.attending import heads_one_by_one, library, normalised_last, stage_by_stage, weights
from dojo.bugs import Bug
from dojo.contract import ModuleContract, robust
from dojo.expect import Call, Draw, refuses
from dojo.formulas import library_rms_norm, library_swiglu, rms_norm, swiglu, under
from dojo.judge.proxy import Attempt
from dojo.rule import Formula

EPS = 1e-5


def block(pre: bool, attend: Formula, norm: Formula, gated: Formula) -> Formula:
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
    params = {f"attn.{name}": value for name, value in weights(d, d_model, d_model).items()}
    params |= {
        "attn_norm.weight": d.uniform(d_model, low=-2, high=2),
        "ffn_norm.weight": d.uniform(d_model, low=-2, high=2),
    }
    params |= {"ffn.w1.weight": d.normal(d_ff, d_model, scale=0.5), "ffn.w3.weight": d.normal(d_ff, d_model, scale=0.5)}
    params["ffn.w2.weight"] = d.normal(d_model, d_ff, scale=0.5)
    return Call(
        {"x": d.normal(batch, seq, d_model, scale=loud), **more},
        {"d_model": d_model, "num_heads": heads, "d_ff": d_ff},
        params,
    )


class BlockContract(ModuleContract):
    axes = {"x": "batch seq d_model", "mask": "batch heads q_len k_len", "result": "batch seq d_model"}
    cases = {
        "no_mask": lambda d: call(d, 2, 5),
        "a_mask_for_all": lambda d: call(d, 2, 5, mask=d.mask(5, 5)),
        "a_mask_for_each_head_of_each_entry": lambda d: call(d, 2, 5, mask=d.mask(2, 3, 5, 5)),
        "padding": lambda d: call(d, 2, 5, mask=d.mask(2, 1, 1, 5)),
        "inputs_as_small_as_eps": lambda d: call(d, 2, 5, loud=0.003),
    }
    telling = ("no_mask", "a_mask_for_each_head_of_each_entry", "inputs_as_small_as_eps")
    more_shapes = {
        "one_token": lambda d: call(d, 2, 1),
        "one_entry_one_head": lambda d: call(d, 1, 3, heads=1),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5, mask=d.mask(5, 5)),
        "seq": lambda d, n: call(d, 2, n, mask=d.mask(n, n)),
        "heads": lambda d, n: call(d, 2, 5, heads=n, mask=d.mask(5, 5)),
        "width": lambda d, n: call(d, 2, 5, head_dim=n, mask=d.mask(5, 5)),
        "hidden width": lambda d, n: call(d, 2, 5, d_ff=n, mask=d.mask(5, 5)),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        loud = call(d, 2, 3)
        quiet = {name: value * 0.01 if name.startswith("attn.") else value * 0.1 for name, value in loud.params.items()}
        quiet |= {name: value for name, value in loud.params.items() if "norm" in name}
        return Call({"x": 300 + d.normal(2, 3, 12)}, loud.init, quiet)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 2, 96, heads=6, head_dim=8, d_ff=128, mask=d.mask(96, 96))

    @robust
    def test_heads_must_divide_the_model(self, attempt: Attempt, draw: Draw) -> None:
        sentence = "d_model that num_heads does not divide is a ValueError"
        refuses(lambda: getattr(attempt, self.name)(13, 3, 7), 13, 3, sentence=sentence)


class TestPreNormBlock(BlockContract):
    name = "PreNormBlock"
    oracle = staticmethod(block(True, library, rms_norm, swiglu))
    variants = ways(True)


class TestPostNormBlock(BlockContract):
    name = "PostNormBlock"
    oracle = staticmethod(block(False, library, rms_norm, swiglu))
    variants = ways(False)


BUGS = [
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
