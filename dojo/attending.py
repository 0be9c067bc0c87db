"""What house rule 9 asks of everything that attends: masks of every shape that broadcasts, and rows that see nothing.

The oracle takes one query head at a time and cuts its rows out of the projections, so no head can meet another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.bugs import Bug, Equivalent
from dojo.contract import Maker, ModuleContract, core, robust
from dojo.expect import Ban, Call, Draw, fail, refuses, tensor
from dojo.judge.proxy import Attempt

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]

FUSED = Ban(
    r"scaled_dot_product|_native_multi_head|flash_attention|efficient_attention|_cudnn_attention|flex_attention",
    ("torch.nn.MultiheadAttention", "torch.nn.functional.multi_head_attention_forward"),
)


def library(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Torch's own attention; a query that may attend to nothing gets zeros."""
    # With an axis of heads it takes the fused kernel, whose gradients round otherwise than those of its parts.
    q, k, v = (t.unsqueeze(-3) for t in (q, k, v))
    mask = mask if mask is None or mask.dim() == 2 else mask.unsqueeze(-3)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).squeeze(-3)


def stage_by_stage(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Every product rounded to the dtype of the inputs, softmax alone in float32."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = _weights(scores.to(torch.promote_types(scores.dtype, torch.float32)), mask)
    return weights.to(v.dtype) @ v


def normalised_last(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """The values weighted by exponentials, and divided by their sum afterwards."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q / q.shape[-1] ** 0.5).to(wide) @ k.to(wide).mT
    exps = _weights(scores, mask, lambda scores: (scores - scores.amax(-1, keepdim=True).detach()).exp())
    slip = max(4 * torch.finfo(wide).eps, torch.finfo(q.dtype).eps)
    return (_Weighted.apply(exps, v.to(wide), slip) / exps.sum(-1, keepdim=True).clamp_min(1e-30)).to(v.dtype)


class _Weighted(torch.autograd.Function):
    """`exps @ v`, whose gradient for `exps` is off by more than its terms may round.

    Where one weight is nearly 1, the gradients that reach a score through numerator and denominator cancel but for
    their roundings. Those may by chance be the same in every way of computing, but need not be in the attempt's. In
    half precision the fused kernel takes the result for its way back as it was rounded.
    """

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, exps: Tensor, v: Tensor, slip: float) -> Tensor:
        ctx.save_for_backward(exps, v)
        ctx.slip = slip
        return exps @ v

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        exps, v = ctx.saved_tensors
        return grad @ v.mT + ctx.slip * (grad.abs() @ v.mT.abs()), exps.mT @ grad, None


def term_by_term(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Products by broadcasting, each sum over an axis of its own."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q[..., :, None, :].to(wide) * k[..., None, :, :].to(wide)).sum(-1) * q.shape[-1] ** -0.5
    return (_weights(scores, mask)[..., None] * v[..., None, :, :].to(wide)).sum(-2).to(v.dtype)


def by_logsumexp(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Exponentials of the scores less their logsumexp.

    It rounds as a score does, and scores may be large: the weights then do not quite sum to 1, and where one is nearly
    1 the parts of its gradient no longer cancel. Here it is off by as much as it may be.
    """
    wide = torch.promote_types(q.dtype, torch.float32)

    def less_their_logsumexp(scores: Tensor) -> Tensor:
        total = scores.logsumexp(-1, keepdim=True)
        return (scores - (total + torch.finfo(wide).eps * total.detach().abs())).exp()

    scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
    return (_weights(scores, mask, less_their_logsumexp) @ v.to(wide)).to(v.dtype)


def _softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores, -1)


def _weights(scores: Tensor, mask: Tensor | None, weigh: Callable[[Tensor], Tensor] = _softmax) -> Tensor:
    """What `weigh` makes of the scores; keys behind the mask have no part in it."""
    if mask is None:
        return weigh(scores)
    return weigh(scores.masked_fill(~mask, torch.finfo(scores.dtype).min)).masked_fill(~mask, 0.0)


WAYS: tuple[Attention, ...] = (stage_by_stage, library, normalised_last, term_by_term, by_logsumexp)


def heads_one_by_one(attend: Attention) -> Callable[..., Tensor]:
    """Multi-head attention in which each query head finds its own rows, and those of the key head that it shares."""

    def formula(
        init: dict, params: dict, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        source = x if context is None else context
        q, k, v = (
            project(params, name, each) for name, each in (("q_proj", x), ("k_proj", source), ("v_proj", source))
        )
        heads, size = init["num_heads"], q.shape[-1] // init["num_heads"]
        sharing = heads // (k.shape[-1] // size)
        everyone = None if mask is None else mask.expand(x.shape[0], heads, x.shape[1], source.shape[1])
        results = []
        for head in range(heads):
            mine, shared = head * size, head // sharing * size
            allowed = None if everyone is None else everyone[:, head]
            own = (q[..., mine : mine + size], k[..., shared : shared + size], v[..., shared : shared + size])
            results.append(attend(*own, allowed))
        return project(params, "o_proj", torch.cat(results, -1))

    return formula


def project(params: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """A linear layer of this name, with its bias where it has one."""
    return F.linear(x, params[f"{name}.weight"], params.get(f"{name}.bias"))


NO_KEY_FOR_THE_SECOND = torch.tensor([True, False])[:, None, None, None]


def one_head_blind(d: Draw, heads: int) -> Tensor:
    """A mask (1, heads, 5, 5) by which some queries see nothing in one head and something in the others."""
    mask = d.mask(1, heads, 5, 5)
    mask[..., 0] = True
    mask[0, 0, 1] = mask[0, -1, 3] = False
    return mask


def weights(d: Draw, d_model: int, kv_dim: int, sharp: float = 2.0) -> dict[str, Tensor]:
    """Random projections; scores of normal inputs have a standard deviation of about `sharp` squared."""
    into = d_model**-0.5
    return {
        "q_proj.weight": d.normal(d_model, d_model, scale=sharp * into),
        "k_proj.weight": d.normal(kv_dim, d_model, scale=sharp * into),
        "v_proj.weight": d.normal(kv_dim, d_model, scale=into),
        "o_proj.weight": d.normal(d_model, d_model, scale=into),
    }


def very_large_scores(made: Call) -> Call:
    """The same with scores that spread by tens of thousands: what only lowers them does not hide them."""
    loud = {name: 100 * value for name, value in made.params.items() if re.search(r"attn\.[qk]_proj\.weight", name)}
    return replace(made, params=made.params | loud)


class HeadsContract(ModuleContract):
    """A module that divides d_model among heads."""

    @classmethod
    def of_heads(cls, heads: int) -> dict:
        """The constructor arguments that say how many heads there are."""
        return {"num_heads": heads}

    @robust
    def test_heads_must_divide_the_model(self, attempt: Attempt, draw: Draw) -> None:
        made = next(iter(self.cases.values()))(draw)
        for d_model, heads in ((13, 3), (4, 8)):
            inputs = {
                k: draw.normal(*v.shape[:-1], d_model) if v.is_floating_point() else v for k, v in made.inputs.items()
            }
            init = made.init | type(self).of_heads(heads) | {"d_model": d_model}
            call = replace(made, inputs=inputs, init=init, params={})

            def use(call: Call = call) -> None:
                callee, args, kwargs = self.at_hand(attempt, call)
                callee.request(args, kwargs)

            refuses(use, d_model, heads, sentence="d_model that num_heads does not divide is a ValueError")


class UnnormedContract(HeadsContract):
    """What attends to inputs as they come: no norm keeps its queries and keys small."""

    @robust
    def test_float16_scores_of_inputs_near_300_do_not_overflow(self, attempt: Attempt, draw: Draw) -> None:
        """Every query is a key too, so that some score is a sum of squares, beyond float16. Which key wins is open."""
        made = next(iter(self.cases.values()))(draw)
        queries = {k: v for k, v in made.params.items() if k.endswith("q_proj.weight")}
        keys = {k.replace("q_proj", "k_proj"): v for k, v in queries.items()}
        made = replace(made, params=made.params | {k: v[: len(made.params[k])] for k, v in keys.items()})
        made = made.with_inputs(**{k: 300 * v for k, v in made.inputs.items() if v.is_floating_point()})
        half = self.on_device(attempt, made.cast(torch.float16))
        args, kwargs = self.arguments(half)
        with torch.no_grad(), self.told(attempt, "inputs of ±300, the rows of k_proj those of q_proj", half):
            got = tensor(self.ready(attempt, half, torch.float16)(*args, **kwargs), attempt.device)
            if not got.isfinite().all():
                seen = f"got {got.flatten()[:4].tolist()} …: products of q and k pass 65,504, float16's largest"
                fail("scores of float16 inputs near 300 do not overflow", seen)


class AttentionContract(UnnormedContract):
    """Self-attention of several heads. A subclass says how its constructor is called and how wide its keys are."""

    oracle = staticmethod(heads_one_by_one(library))
    variants = tuple(heads_one_by_one(way) for way in WAYS)
    axes = {
        "x": "batch q_len d_model",
        "context": "batch k_len d_model",
        "mask": "batch heads q_len k_len",
        "result": "batch q_len d_model",
    }
    telling = ("no_mask", "a_mask_for_each_head_of_each_entry", "one_entry_is_all_padding", "a_context_and_a_mask")
    heads, head_dim = 3, 4
    time_limit = 12.0

    @classmethod
    def kv_heads(cls, heads: int) -> int:
        """How many key heads serve this many query heads."""
        return heads

    @classmethod
    def call(
        cls, d: Draw, batch: int, seq: int, heads: int = 0, head_dim: int = 0, sharp: float = 2.0, **more: Tensor
    ) -> Call:
        """A call on normal inputs."""
        heads, head_dim = heads or cls.heads, head_dim or cls.head_dim
        params = weights(d, heads * head_dim, cls.kv_heads(heads) * head_dim, sharp)
        init = {"d_model": heads * head_dim, **cls.of_heads(heads)}
        return Call({"x": d.normal(batch, seq, heads * head_dim), **more}, init, params)

    def __init_subclass__(cls) -> None:
        h = cls.heads

        def case(*mask: int, share: float = 0.6, batch: int = 2, seq: int = 5) -> Maker:
            return lambda d: cls.call(d, batch, seq, **({"mask": d.mask(*mask, share=share)} if mask else {}))

        own = {
            "no_mask": case(),
            "a_mask_for_all": case(5, 5),
            "a_mask_for_each_entry_of_the_batch": case(2, 1, 5, 5),
            "padding": case(2, 1, 1, 5),
            "a_mask_for_each_head": case(1, h, 5, 5),
            "a_mask_for_each_head_of_each_entry": case(2, h, 5, 5, share=0.4),
            "three_axes_of_mask": case(h, 5, 5),
            "three_axes_of_mask_and_as_many_entries_as_heads": case(h, 5, 5, batch=h),
            "queries_hidden_in_one_head_alone": lambda d: cls.call(d, 2, 5, mask=one_head_blind(d, h)),
            "as_many_heads_as_tokens": lambda d: cls.call(d, 2, 4, heads=4, mask=d.mask(2, 1, 1, 4)),
            "very_large_scores": lambda d: cls.call(d, 2, 5, sharp=150.0, mask=d.mask(2, 1, 5, 5)),
            "very_large_scores_and_no_mask": lambda d: cls.call(d, 2, 5, sharp=150.0),
            "one_entry_is_all_padding": lambda d: cls.call(
                d, 2, 5, mask=torch.tensor([True, False])[:, None, None, None].expand(2, 1, 1, 5) & d.mask(5, 5)
            ),
        }
        cls.cases = own | cls.__dict__.get("cases", {})
        cls.more_shapes = {
            "one_token": case(batch=2, seq=1),
            "one_entry_one_token": case(batch=1, seq=1),
            "one_token_that_sees_nothing": lambda d: cls.call(d, 2, 1, mask=NO_KEY_FOR_THE_SECOND),
            "one_head": lambda d: cls.call(d, 2, 5, heads=1, head_dim=6, mask=d.mask(2, 1, 1, 5)),
            "head_dim_one": lambda d: cls.call(d, 2, 5, heads=h, head_dim=1),
        } | cls.__dict__.get("more_shapes", {})
        cls.growth = {
            "batch": lambda d, n: cls.call(d, n, 5, mask=d.mask(n, 1, 5, 5)),
            "seq": lambda d, n: cls.call(d, 2, n, mask=d.mask(n, n)),
            "heads": lambda d, n: cls.call(d, 2, 5, heads=n, mask=d.mask(n, 5, 5)),
            "width": lambda d, n: cls.call(d, 2, 5, head_dim=n, mask=d.mask(5, 5)),
        } | cls.__dict__.get("growth", {})

    @classmethod
    def delicate(cls, d: Draw) -> Call:
        return cls.call(d, 2, 5, head_dim=5)

    @classmethod
    def near_300(cls, d: Draw) -> Call:
        # So many keys of about equal weight that a sum of values overflows before it is divided.
        call = cls.call(d, 1, 260, sharp=0.02)
        return call.with_inputs(x=300 + d.normal(1, 260, call.init["d_model"]))

    @classmethod
    def timed(cls, d: Draw) -> Call:
        return cls.call(d, 4, 96, heads=6, head_dim=8, mask=d.mask(96, 96))

    @core
    def test_no_key_behind_the_mask_has_any_influence(self, attempt: Attempt, draw: Draw) -> None:
        causal = torch.ones(5, 5, dtype=torch.bool).tril()
        call = self.on_device(attempt, type(self).call(draw, 2, 5, mask=causal))
        module, (x, mask) = self.ready(attempt, call), call.inputs.values()
        changed = x.clone()
        changed[:, 3:] = draw.normal(2, 2, x.shape[-1], scale=5).to(x.device)
        before, after = (tensor(module(each, mask=mask), attempt.device).detach() for each in (x, changed))
        if before.shape != x.shape or not torch.allclose(before[:, :3], after[:, :3], atol=1e-5):
            fail("what the mask hides has no influence", "tokens 3 and 4 changed what tokens 0 to 2 give")

    @core
    def test_optional_inputs_are_taken_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = max((make(draw) for make in self.cases.values()), key=lambda call: len(call.inputs))
        here = self.on_device(attempt, made)
        with torch.no_grad(), self.told(attempt, "all inputs by position", made):
            got = {"result": self.ready(attempt, made)(*here.inputs.values())}
        self.compare(attempt, draw, "all inputs by position", made, got, torch.float32, None)


# Mistakes of attention itself, on lines that the masters of all its forms share.
SCORE_BUGS = (
    Bug(
        "no scale",
        "without 1/√head_dim the scores grow with the width and softmax saturates.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores * 1.0",
    ),
    Bug(
        "scaled by head_dim instead of its square root",
        "a sum of head_dim products has a standard deviation of √head_dim, not head_dim.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores / q.shape[-1]",
    ),
    Bug(
        "softmax over the queries",
        "each query spreads a weight of 1 over the keys, so softmax runs over the last axis.",
        "weights = torch.softmax(scores, dim=-1)",
        "weights = torch.softmax(scores, dim=-2)",
    ),
    Bug(
        "mask inverted",
        "True means that a query may attend to a key, so what is filled is where the mask is False.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores.masked_fill(mask, torch.finfo(acc).min), ~mask",
    ),
    Bug(
        "mask added to the scores",
        "a boolean mask added to the scores only raises them by 1.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores + mask, torch.ones_like(mask)",
    ),
    Bug(
        "masked after softmax without normalising again",
        "weights that the mask removes must be gone before the sum is taken.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores = scores.clone()",
    ),
    Bug(
        "rows that may attend to nothing give nan",
        "softmax of a row of only -inf is nan; such a query gets zeros.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores.masked_fill(~mask, -torch.inf), torch.ones_like(mask)",
    ),
    Bug(
        "rows that may attend to nothing average all values",
        "a row filled with the smallest number gives equal weights; such a query gets zeros.",
        "weights = weights.masked_fill(~mask, 0.0)",
        "weights = weights * 1.0",
    ),
    Bug(
        "weights detached from the graph",
        "no gradient reaches queries and keys, so attention never learns where to look.",
        "weights = torch.softmax(scores, dim=-1)",
        "weights = torch.softmax(scores, dim=-1).detach()",
    ),
)

# Those of its heads.
COMMON_BUGS = (
    *SCORE_BUGS,
    Bug(
        "heads not moved back before the merge",
        "without the transpose the merge mixes heads and positions.",
        "merged = heads.transpose(-3, -2).flatten(-2)",
        "merged = heads.reshape(x.shape)",
    ),
    Bug(
        "no output projection",
        "the merged heads pass through o_proj.",
        "return self.o_proj(merged)",
        "return merged + 0 * self.o_proj(merged)",
    ),
    Bug(
        "heads that do not divide the model are not refused",
        "rounding head_dim down silently drops features.",
        "if num_heads < 1 or d_model % num_heads != 0:",
        "if num_heads < 1:",
    ),
)

# What mutation makes of the same lines without making a mistake.
EQUIVALENT = (
    Equivalent(r"promote_types\(.*float32.*→.*float64", "float64 is wider than the float32 that is asked for."),
    Equivalent(
        r"acc = torch.promote_types.*→.*float16",
        "the scores stay within float16, whose softmax PyTorch computes in float32 and rounds once.",
    ),
    Equivalent(r"→.*transpose\((-3, 2|2, -1)\)", "axis 2 of four is axis -2."),
    Equivalent(r"→.*flatten\(2\)", "axis 2 of four is axis -2."),
    Equivalent(r"q\.shape.*→.*k\.shape\[-1\]", "queries and keys are equally wide."),
    Equivalent(r"q\.dtype.*→.*k\.dtype", "queries and keys have one dtype."),
    Equivalent(r"→\s+scores /=", "the scores are a tensor of its own making, and no gradient needs what they were."),
    Equivalent(r"heads < 1.*→.*heads < 0", "no heads at all then fail as a division by zero, which is not graded."),
)
ROTATING_EQUIVALENT = (
    Equivalent(r"wide = .*float32.*→.*float64", "float64 is wider than the float32 that is asked for."),
    Equivalent(r"wide = .*→.*(wide = x$|float16)", "the tables are float64, so the products are too."),
    Equivalent(r"(cos|sin|turns).*\.to\(wide.*→.*", "the tables stay float64, which is wider; the result is cast."),
    Equivalent(r"\.to\(device\).*→", "tables of the CPU follow the input at the first call."),
    Equivalent(r"position = .*float64.*→", "positions are small integers, exact in every dtype."),
    Equivalent(r"arange\(0, \w+, 2, dtype=torch.float64.*→", "float32 exponents are within float32 arithmetic."),
    Equivalent(r"positions\.long\(\).*→", "int32 indexes too."),
    Equivalent(r"positions = torch.arange.*device.*→", "indices of the CPU may index on any device."),
    Equivalent(r"outside\[0\].*→", "another offending position, or the same as a tensor, is named."),
)
