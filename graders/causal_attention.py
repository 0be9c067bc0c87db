"""What `CausalSelfAttention` must do. The oracle turns one head at a time by complex numbers, in float64."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from dojo import attending
from dojo.attending import Attention, UnnormedContract, library, normalised_last, stage_by_stage, weights
from dojo.bugs import Bug
from dojo.contract import core, robust
from dojo.expect import Call, Draw, fail, parameters_are, refuses, tensor
from dojo.formulas import Turn, causal_self_attention, turned, turned_by_float32_angles
from dojo.judge.proxy import Attempt
from dojo.rule import Formula


def of(attend: Attention, turn: Turn) -> Formula:
    def formula(init: dict, params: dict, x: Tensor, positions: Tensor | None = None) -> Tensor:
        def turn_here(values: Tensor, theta: float) -> Tensor:
            return turn(values, theta, positions)

        return causal_self_attention(attend, turn_here, params, x, init["num_heads"], init.get("theta", 10000.0))

    return formula


def call(
    d: Draw, batch: int, seq: int, heads: int = 3, head_dim: int = 4, kv_heads: int | None = None, longest: int = 23,
    **more: float | Tensor,
) -> Call:  # fmt: skip
    """A call on normal inputs; `theta` and `positions` as the contract names them."""
    d_model = heads * head_dim
    init = {"d_model": d_model, "num_heads": heads, "max_seq_len": longest}
    init |= {name: more.pop(name) for name in ("theta",) if name in more}
    init |= {"num_kv_heads": kv_heads} if kv_heads else {}
    params = weights(d, d_model, (kv_heads or heads) * head_dim)
    return Call({"x": d.normal(batch, seq, d_model), **more}, init, params)


def far(d: Draw) -> Call:
    """Positions that half precision cannot even count."""
    return call(d, 2, 5, heads=1, head_dim=6, longest=1009, positions=torch.tensor([1001, 259, 1003, 1008, 514]))


class TestCausalSelfAttention(UnnormedContract):
    name = "CausalSelfAttention"
    oracle = staticmethod(of(library, turned))
    variants = (
        of(stage_by_stage, turned_by_float32_angles),
        of(library, turned_by_float32_angles),
        of(normalised_last, turned),
    )
    axes = {"x": "batch seq d_model", "positions": "batch seq", "result": "batch seq d_model"}
    cases = {
        "no_positions": lambda d: call(d, 2, 5),
        "positions_for_all": lambda d: call(d, 2, 5, positions=d.positions(23, 5)),
        "positions_for_each_entry": lambda d: call(d, 2, 5, positions=d.positions(23, 2, 5)),
        "as_many_entries_as_heads": lambda d: call(d, 3, 5, positions=d.positions(23, 3, 5)),
        "as_many_tokens_as_entries": lambda d: call(d, 5, 5, positions=d.positions(23, 5, 5)),
        "positions_that_fall": lambda d: call(d, 2, 5, positions=torch.tensor([22, 17, 9, 9, 0])),
        "shared_key_heads": lambda d: call(d, 2, 7, heads=6, kv_heads=2),
        "one_key_head": lambda d: call(d, 2, 5, kv_heads=1, positions=d.positions(23, 2, 5)),
        "another_theta": lambda d: call(d, 2, 7, head_dim=6, theta=50.0),
        "int32_positions": lambda d: call(d, 2, 5, positions=d.positions(23, 5).int()),
        "one_row_of_positions_and_as_many_tokens_as_entries": lambda d: call(d, 5, 5, positions=d.positions(23, 5)),
    }
    telling = ("no_positions", "positions_for_each_entry", "shared_key_heads")
    more_shapes = {
        "one_token": lambda d: call(d, 2, 1),
        "one_token_far_on": lambda d: call(d, 2, 1, positions=torch.tensor([17])),
        "one_entry_one_head": lambda d: call(d, 1, 5, heads=1),
        "as_long_as_allowed": lambda d: call(d, 2, 23),
        "head_dim_two": lambda d: call(d, 2, 5, head_dim=2),
        "a_long_sequence": lambda d: call(d, 1, 300, heads=1, longest=300),
        "far_positions": lambda d: call(d, 1, 3, heads=1, longest=2309, positions=torch.tensor([2299, 3, 2051]).int()),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5, positions=d.positions(23, n, 5)),
        "seq": lambda d, n: call(d, 2, n),
        "heads": lambda d, n: call(d, 2, 5, heads=n),
        "heads that share a key head": lambda d, n: call(d, 2, 5, heads=n, kv_heads=1),
        "key heads": lambda d, n: call(d, 2, 5, heads=2 * n, kv_heads=n),
        "width": lambda d, n: call(d, 2, 5, head_dim=2 * n),
    }
    delicate = staticmethod(far)
    time_limit = 12.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        made = call(d, 2, 5)
        quiet = {k: v * (0.003 if k[0] in "qk" else 0.1) for k, v in made.params.items()}
        return Call({"x": 300 + d.normal(2, 5, 12)}, made.init, quiet)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 4, 96, heads=6, head_dim=8, longest=96)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, heads=6, kv_heads=2, theta=50.0)
        module = getattr(attempt, self.name)(*made.init.values())
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})
        here = self.on_device(attempt, made)
        module.to(attempt.device).load_state_dict({k: v.to(attempt.device) for k, v in made.params.items()})
        got = {"result": module(here.inputs["x"]).detach()}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_a_later_token_changes_no_earlier_result(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 7, positions=torch.tensor([5, 4, 3, 2, 1, 0, 6])))
        module, x = self.ready(attempt, made), made.inputs["x"]
        changed, loud = x.clone(), x.clone()
        changed[:, 4:] += 5
        loud[:, 4:] *= 1e5  # a large number taken from their scores would not hide them
        before, *after = (
            tensor(module(each, positions=made.inputs["positions"]), attempt.device).detach()
            for each in (x, changed, loud)
        )
        for each in after:
            if before.shape != each.shape or not torch.allclose(before[:, :4], each[:, :4], atol=1e-4):
                fail("attention is causal", "tokens 4 to 6 changed what tokens 0 to 3 give")

    @core
    def test_only_distances_between_positions_count(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 5))
        module, x = self.ready(attempt, made), made.inputs["x"]
        here = draw.positions(17, 5).to(x.device)
        first, second = (tensor(module(x, positions=each), attempt.device).detach() for each in (here, here + 6))
        if first.shape != second.shape or not torch.allclose(first, second, atol=1e-3):
            fail("shifting all positions changes nothing", f"largest change {(first - second).abs().max():.3g}")

    @robust
    def test_positions_outside_the_tables_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 3))
        module, x = self.ready(attempt, made), made.inputs["x"]
        for outside in (23, 101, -1):
            sentence = f"a position {'below 0' if outside < 0 else 'from max_seq_len on'} is a ValueError"
            positions = torch.tensor([2, outside, 0], device=x.device)
            for some in (positions, torch.stack([positions.clamp(0, 2), positions]), positions.int()):
                refuses(partial(module, x, positions=some), outside, sentence=sentence)
        long = draw.normal(2, 29, 12).to(x.device)
        refuses(lambda: module(long), sentence="a sequence longer than max_seq_len is a ValueError")

    @robust
    def test_key_heads_must_divide_the_heads_and_head_dim_be_even(self, attempt: Attempt, draw: Draw) -> None:
        def use(d_model: int, heads: int, **more: int) -> None:
            x = draw.normal(2, 5, d_model).to(attempt.device)
            attempt.CausalSelfAttention(d_model, heads, 8, **more).to(attempt.device)(x)

        sentence = "num_heads that num_kv_heads does not divide is a ValueError"
        refuses(lambda: use(24, 6, num_kv_heads=4), 6, 4, sentence=sentence)
        refuses(lambda: use(21, 3), (7, 21), sentence="an odd head_dim is a ValueError")


BUGS = [
    Bug(
        "pairs (i, i + head_dim/2) instead of (2i, 2i + 1)",
        "that is the layout of Hugging Face checkpoints, whose query and key rows must be permuted for ours.",
        "first, second = slice(0, x.shape[-1], 2), slice(1, x.shape[-1], 2)",
        "first, second = slice(0, x.shape[-1] // 2), slice(x.shape[-1] // 2, x.shape[-1])",
    ),
    Bug(
        "keys not rotated",
        "only the difference of two angles is a relative position: both queries and keys are rotated.",
        "k = rotate(k, cos, sin)",
        "k = k.clone()",
    ),
    Bug(
        "values rotated too",
        "positions say where to look, not what is found there.",
        "v = self.split_heads(self.v_proj(x))",
        "v = rotate(self.split_heads(self.v_proj(x)), cos, sin)",
    ),
    Bug(
        "rotates queries backwards",
        "queries and keys turn the same way; turned apart, scores depend on the sum of positions.",
        "q = rotate(q, cos, sin)",
        "q = rotate(q, cos, -sin)",
    ),
    Bug(
        "rotated before the head split",
        "every head has the same angles: pair i of each head turns at the same speed.",
        "q = rotate(q, cos, sin)",
        "q = rotate(q.transpose(1, 2).flatten(-2), *(t.squeeze(1).repeat_interleave(q.shape[1], -1) for t in (cos, sin))).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)",  # noqa: E501
    ),
    Bug(
        "positions ignored",
        "a cached or padded sequence does not start at 0.",
        "if positions is None:",
        "if True:",
    ),
    Bug(
        "positions of the first entry used for all",
        "each entry of the batch has positions of its own.",
        "cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # (batch, 1, seq, pairs)",
        "cos, sin = cos[:1].unsqueeze(1), sin[:1].unsqueeze(1)",
    ),
    Bug(
        "batched positions that do not line up with the head axis",
        "tables looked up by (batch, seq) need an axis of size 1 for the heads.",
        "cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # (batch, 1, seq, pairs)",
        "cos, sin = cos, sin",
    ),
    Bug(
        "theta ignored",
        "the base is an argument; long-context models raise it.",
        "frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)",
        "frequency = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)",
    ),
    Bug(
        "frequencies by d_model instead of head_dim",
        "the pairs of one head span the frequencies from 1 to about 1/theta.",
        "frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)",
        "frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / d_model)",
    ),
    Bug(
        "not causal",
        "a token must not see what it is to predict.",
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        "heads = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
    ),
    Bug(
        "sees one token ahead",
        "the diagonal of the mask belongs to the token itself.",
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        "heads = F.scaled_dot_product_attention(q, k, v, q.new_ones(q.shape[-2], q.shape[-2]).tril(1).bool(), enable_gqa=True)",  # noqa: E501
    ),
    Bug(
        "the mask made from positions",
        "who sees whom goes by the order in the sequence; positions only say how far to rotate.",
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        "heads = F.scaled_dot_product_attention(q, k, v, (positions[..., None, :] <= positions[..., :, None]).expand(q.shape[0], 1, q.shape[2], q.shape[2]) if positions.ndim == 1 else (positions[:, None, None, :] <= positions[:, None, :, None]), enable_gqa=True)",  # noqa: E501
    ),
    Bug(
        "no scale",
        "scores are divided by √head_dim.",
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, scale=1.0)",
    ),
    Bug(
        "key heads dealt out in turn",
        "query head h reads key head h // group, not h % num_kv_heads.",
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        "heads = F.scaled_dot_product_attention(q, *(t.tile(q.shape[1] // t.shape[1], 1, 1) for t in (k, v)), is_causal=1)",  # noqa: E501
    ),
    Bug(
        "heads not moved back before the merge",
        "without the transpose the merge mixes heads and positions.",
        "return self.o_proj(heads.transpose(-3, -2).flatten(-2))",
        "return self.o_proj(heads.reshape(x.shape))",
    ),
    Bug(
        "negative positions wrap around",
        "an index of -1 silently reads the last row of the table.",
        "outside = positions[(positions < 0) | (positions >= self.max_seq_len)]",
        "outside = positions[positions >= self.max_seq_len]",
    ),
    Bug(
        "tables rounded when the module is cast",
        "a buffer is cast with the module: in bfloat16 neighbouring positions become one.",
        "self.cos, self.sin = angles.cos().to(device), angles.sin().to(device)",
        'self.register_buffer("cos", angles.cos().to(device), persistent=False); self.register_buffer("sin", angles.sin().to(device), persistent=False)',  # noqa: E501
    ),
]

EQUIVALENT = (
    *attending.EQUIVALENT,
    *attending.ROTATING_EQUIVALENT,
)
