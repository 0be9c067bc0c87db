"""What house rule 9 asks of everything that attends: masks of every shape that broadcasts, and rows that see nothing.

The oracle takes one query head at a time and cuts its rows out of the projections, so no head can meet another.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts.checks.assertions import fail, tensor
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.checks.operations import Ban
from dojo.contracts.checks.tolerance import remembered, value_key
from dojo.contracts.function import Contract
from dojo.contracts.harness import Maker, bare, core, half_precisions, robust
from dojo.contracts.module import ModuleContract
from dojo.contracts.oracles import WAYS, heads_one_by_one, library, weights
from dojo.judge.proxy import Attempt

FUSED = Ban(
    r"scaled_dot_product|_native_multi_head|flash_attention|efficient_attention|_cudnn_attention|flex_attention",
    ("torch.nn.MultiheadAttention", "torch.nn.functional.multi_head_attention_forward"),
)


def in_part(d: Draw, *shape: int, share: float = 0.6) -> Tensor:
    """A mask by which every query sees some keys and not all: an inverted one then leaves no query without a key."""
    mask = d.mask(*shape, share=share)
    if shape[-1] > 1:
        mask[..., 0] &= ~mask.all(-1)
    return mask


def very_large_scores(made: Call, grown_by: float = 100) -> Call:
    """The same with scores that spread by tens of thousands: what only lowers them does not hide them."""
    grown = [name for name in made.params if re.search(r"attn\.[qk]_proj\.weight", name)]
    return made.with_params(**{name: grown_by * made.params[name] for name in grown})


def one_value(d: Draw, made: Call, attention: str = "") -> Call:
    """The same with values that are alike for all keys: a head's result is the sum of its weights, times a number.

    In a layer nothing but this attention then adds to the stream. A norm before it leaves the first feature alone, and
    no key outweighs many.
    """
    holder = made.inputs if "x" in made.inputs else made.params  # a model reads its stream from its embeddings
    streams = {k: torch.cat([torch.ones_like(v[..., :1]), F.rms_norm(v[..., 1:], (v.shape[-1] - 1,))], -1)
               for k, v in holder.items() if k == "x" or k.endswith("token_embedding.weight")}  # fmt: skip
    params = {k: v * 0 if re.search(r"o_proj|v_proj|w2|fc2", k) else v for k, v in made.params.items()}
    params |= {k: torch.ones_like(v) for k, v in params.items() if k.endswith("norm.weight")}
    params |= {k: 0.4 * v for k, v in params.items() if attention and k.endswith("q_proj.weight")}
    values, width = f"{attention}v_proj", made.init["d_model"]
    one = d.uniform(len(params[f"{values}.weight"]), low=1.7, high=2.0)
    one[::2] *= -1  # so that norms which take away a mean leave them as they are
    if f"{values}.bias" in params:
        params[f"{values}.bias"] = one
    else:
        params[f"{values}.weight"][:, 0] = one
    params[f"{attention}o_proj.weight"] = torch.eye(width)
    if "lm_head.weight" in params:
        params["lm_head.weight"] = torch.eye(*params["lm_head.weight"].shape)
    made = made.with_params(**params)
    return made.with_inputs(**streams) if holder is made.inputs else made.with_params(**streams)


class SoftmaxContract(Contract):
    """What weighs values by a softmax. `one_value_for_many_keys` is a call with 256 keys or more.

    A function's input `values` holds what is weighed; of a module it is what `o_proj` multiplies.
    """

    one_value_for_many_keys: Maker
    values: ClassVar[str] = "v"

    @robust
    @half_precisions
    def test_softmax_is_computed_in_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """Weights that do not sum to 1 make every value of a long context too large or too small."""
        # Roundings of the weights average out over many keys; a sum that was itself rounded does not.
        made = type(self).one_value_for_many_keys(draw).cast(dtype)

        def answers() -> tuple[Tensor, Tensor]:
            """The result, and what it gains by as much again of what was attended."""
            exact = made.cast(torch.float64)
            grown = {name: 1.01 * value for name, value in exact.params.items() if name.endswith("o_proj.weight")}
            more = exact.with_params(**grown)
            if not grown:
                more = exact.with_inputs(**{self.values: 1.01 * exact.inputs[self.values]})
            return (once := self.expected(exact)), 100 * (self.expected(more) - once)

        mine, asked = type(self), (made.init, made.params, made.inputs)
        key = (mine.__module__, mine.__qualname__, "attended", *map(value_key, asked))
        expected, attended = remembered(key, answers)
        got = self.run(attempt, "one_value_for_many_keys", made, dtype).double()
        if got.shape != expected.shape:
            fail("the result has the right shape", f"got {tuple(got.shape)} for {tuple(expected.shape)}")
        shares = ((got - expected) * attended).sum(-1) / attended.square().sum(-1)
        off = float(shares[..., -256:].square().mean().sqrt())  # the last see the most
        # Sums that were rounded come to 0.16 eps, the roundings of a layer's stream and norms to at most 0.10.
        allowed = torch.finfo(dtype).eps / 8
        if not off <= allowed:
            seen = f"{bare(dtype)}: many keys of one value give it back {off:.2g} too large or small"
            fail("in half precision softmax is computed in float32", f"{seen}, allowed {allowed:.2g}")


class HeadsContract(ModuleContract):
    """A module that divides d_model among heads."""

    @classmethod
    def of_heads(cls, heads: int) -> dict[str, int]:
        """The constructor arguments that say how many heads there are."""
        return {"num_heads": heads}

    @robust
    def test_heads_must_divide_the_model(self, attempt: Attempt, draw: Draw) -> None:
        """`d_model // num_heads` rounds down: features are dropped without a word, or a reshape fails far from the
        cause.
        """
        made = next(iter(self.cases.values()))(draw)
        for d_model, heads in ((13, 3), (4, 8)):
            inputs = {
                k: draw.normal(*v.shape[:-1], d_model) if v.is_floating_point() else v for k, v in made.inputs.items()
            }
            call = replace(made, inputs=inputs, init=made.init | type(self).of_heads(heads) | {"d_model": d_model})
            sentence = "d_model that num_heads does not divide is a ValueError"
            self.refuses(attempt, call, d_model, heads, sentence=sentence)


class AttentionContract(SoftmaxContract, HeadsContract):
    """Self-attention of several heads. A subclass says how its constructor is called and how wide its keys are."""

    oracle = staticmethod(heads_one_by_one(library))
    variants = tuple(heads_one_by_one(way) for way in WAYS)
    axes: ClassVar = {
        "x": "batch q_len d_model",
        "context": "batch k_len d_model",
        "mask": "batch heads q_len k_len",
        "result": "batch q_len d_model",
    }
    representative = (
        "no_mask",
        "a_mask_for_each_head_of_each_entry",
        "padding",
        "a_context_and_a_mask",
    )
    heads, head_dim = 3, 4
    time_limit = 12.0

    @classmethod
    def kv_heads(cls, heads: int) -> int:
        """How many key heads serve this many query heads."""
        return heads

    @classmethod
    def call(
        cls, d: Draw, batch: int, seq: int, heads: int = 0, head_dim: int = 0, logit_scale: float = 2.0, **more: Tensor
    ) -> Call:
        """A call on normal inputs."""
        heads, head_dim = heads or cls.heads, head_dim or cls.head_dim
        params = weights(d, heads * head_dim, cls.kv_heads(heads) * head_dim, logit_scale)
        init = {"d_model": heads * head_dim, **cls.of_heads(heads)}
        return Call({"x": d.normal(batch, seq, heads * head_dim), **more}, init, params)

    @classmethod
    def complete(cls) -> None:
        h = cls.heads

        def case(*mask: int, share: float = 0.6, batch: int = 2, seq: int = 5) -> Maker:
            if not mask:
                return lambda d: cls.call(d, batch, seq)
            return lambda d: cls.call(d, batch, seq, mask=in_part(d, *mask, share=share))

        cls.cases = {
            "no_mask": case(),
            "a_mask_for_all": case(5, 5),
            "a_mask_for_each_entry_of_the_batch": case(2, 1, 5, 5),
            "padding": case(2, 1, 1, 5),
            "a_mask_for_each_head": case(1, h, 5, 5),
            "a_mask_for_each_head_of_each_entry": case(2, h, 5, 5, share=0.4),
            "as_many_heads_as_tokens": lambda d: cls.call(d, 2, 4, heads=4, mask=d.mask(2, 1, 1, 4)),
        } | cls.__dict__.get("cases", {})
        cls.hard_cases = {
            "three_axes_of_mask": case(h, 5, 5),
            "three_axes_of_mask_and_as_many_entries_as_heads": case(h, 5, 5, batch=h),
            "very_large_scores": lambda d: cls.call(d, 2, 5, logit_scale=150.0, mask=d.mask(2, 1, 5, 5)),
            "very_large_scores_and_no_mask": lambda d: cls.call(d, 2, 5, logit_scale=150.0),
            "scores_far_below_zero": cls.far_below_zero,
        } | cls.__dict__.get("hard_cases", {})
        cls.more_shapes = {
            "one_token": case(batch=2, seq=1),
            "one_entry_one_token": case(batch=1, seq=1),
            "one_head": lambda d: cls.call(d, 2, 5, heads=1, head_dim=6, mask=d.mask(2, 1, 1, 5)),
            "head_dim_one": lambda d: cls.call(d, 2, 5, heads=h, head_dim=1),
        } | cls.__dict__.get("more_shapes", {})
        cls.growth = {
            "batch": lambda d, n: cls.call(d, n, 5, mask=d.mask(n, 1, 5, 5)),
            "seq": lambda d, n: cls.call(d, 2, n, mask=d.mask(n, n)),
            "heads": lambda d, n: cls.call(d, 2, 5, heads=n, mask=d.mask(n, 5, 5)),
            "width": lambda d, n: cls.call(d, 2, 5, head_dim=n, mask=d.mask(5, 5)),
        } | cls.__dict__.get("growth", {})
        super().complete()

    @classmethod
    def far_below_zero(cls, d: Draw) -> Call:
        """Queries of positive entries alone, and keys of negative ones: far below what a mask is often filled with."""
        made = cls.call(d, 2, 5, logit_scale=70.0, mask=in_part(d, 2, 1, 5, 5))
        signed = {"q_proj.weight": 1, "k_proj.weight": -1}
        params = {name: sign * made.params[name].abs() for name, sign in signed.items()}
        return made.with_inputs(x=made.inputs["x"].abs()).with_params(**params)

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        return one_value(d, cls.call(d, 1, 1000, heads=2, head_dim=32, logit_scale=0.8))

    @classmethod
    def near_300(cls, d: Draw) -> Call:
        # So many keys of about equal weight that a sum of values overflows before it is divided.
        call = cls.call(d, 1, 260, logit_scale=0.02)
        return call.with_inputs(x=300 + d.normal(1, 260, call.init["d_model"]))

    @classmethod
    def timed(cls, d: Draw) -> Call:
        return cls.call(d, 4, 96, heads=6, head_dim=8, mask=d.mask(96, 96))

    @core
    def test_no_key_behind_the_mask_has_any_influence(self, attempt: Attempt, draw: Draw) -> None:
        causal = torch.ones(5, 5, dtype=torch.bool).tril()
        call = type(self).call(draw, 2, 5, mask=causal).to(attempt.device)
        module, x = self.ready(attempt, call), call.inputs["x"]
        changed = x.clone()
        changed[:, 3:] = draw.normal(2, 2, x.shape[-1], scale=5).to(x.device)
        both = (self.arguments(call.with_inputs(x=each)) for each in (x, changed))
        before, after = (tensor(module(*args, **kwargs), attempt.device).detach() for args, kwargs in both)
        if before.shape != x.shape or not torch.allclose(before[:, :3], after[:, :3], atol=1e-5):
            fail("what the mask hides has no influence", "tokens 3 and 4 changed what tokens 0 to 2 give")
