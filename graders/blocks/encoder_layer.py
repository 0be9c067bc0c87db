"""What `EncoderLayer` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import dojo.contracts.oracles as oracles
from dojo.contracts import Attempt, Call, Draw, DropoutContract, KnownBugs, NormedContract, UnnormedContract, core, fail

WAYS = (
    (oracles.library, oracles.library_layer_norm, oracles.library_feed_forward),
    (oracles.stage_by_stage, oracles.layer_norm, oracles.feed_forward),
    (oracles.normalised_last, oracles.layer_norm, oracles.library_feed_forward),
)
PADDING = torch.tensor([[True, True, False, True, False], [True, True, True, True, True]])


def of(*parts: Callable) -> Callable[..., Tensor]:
    layer = oracles.post_norm_layer(*parts, cross_attention=False)
    return lambda init, params, x, padding=None: layer(init, params, x, oracles.over_keys(padding))


def loud_padding(d: Draw) -> Call:
    """Padded places so loud that a large number taken from their scores would not hide them."""
    made = TestEncoderLayer.call(d, padding=PADDING)
    return made.with_inputs(x=torch.where(PADDING[..., None], made.inputs["x"], 3e4 * made.inputs["x"]))


class TestEncoderLayer(NormedContract, UnnormedContract, DropoutContract):
    name = "EncoderLayer"
    oracle = of(*WAYS[0])
    variants = tuple(of(*parts) for parts in WAYS)
    cases = {
        "no_padding": {"padding": None},
        "padding": {"padding": PADDING},
        "as_many_entries_as_heads": {"batch": 3},
        "as_many_tokens_as_entries": {"batch": 5},
        "one_entry_is_all_padding": {},
        "all_is_padding": {"padding": torch.zeros(2, 5, dtype=torch.bool)},
        "loud_padding": loud_padding,
        "another_eps": {"eps": 0.3},
        "small_inputs_and_the_default_eps": {"scale": 1e-6},
    }
    representative = ("no_padding", "one_entry_is_all_padding")
    more_shapes = {
        "one_token": {"seq": 1, "padding": None},
        "one_token_that_may_be_padding": {"seq": 1},
        "one_entry_one_head": {"batch": 1, "heads": 1, "head_dim": 8},
        "head_dim_one": {"heads": 7, "head_dim": 1},
    }
    grows = {"batch": "batch", "seq": "seq", "heads": "heads", "width": "head_dim", "hidden width": "d_ff"}
    precision_sensitive = {"head_dim": 5}
    timed = {"batch": 4, "seq": 64, "heads": 6, "head_dim": 8, "d_ff": 128}
    time_limit = 10.0
    branches = {
        "the branch of the attention": "self_attn.o_proj.bias",
        "the branch of the feed-forward layer": "ffn.fc2.bias",
    }
    hidden = "ffn.", "o_proj"

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, heads: int = 3, head_dim: int = 4, d_ff: int = 7,
        scale: float = 1.0, padding: Tensor | str | None = "drawn", **init: float,
    ) -> Call:  # fmt: skip
        """Inputs, and what attention adds to them, of this scale; in drawn padding one entry has no real token."""
        init = {"d_model": heads * head_dim, "num_heads": heads, "d_ff": d_ff, **init}
        inputs = {"x": d.normal(batch, seq, heads * head_dim, scale=scale)}
        if padding is not None:
            inputs["padding"] = d.mask(batch, seq) if padding == "drawn" else padding
        return Call(inputs, init, cls.params(d, init, q_proj=1.5, k_proj=1.5, o_proj=scale))

    @classmethod
    def dropping(cls, d: Draw, dropout: float) -> Call:
        return cls.call(d, padding=PADDING, dropout=dropout, eps=0.3)

    @classmethod
    def near_300(cls, d: Draw) -> Call:
        made = cls.call(d, seq=3, padding=None)
        quiet = {name: 0.01 * value for name, value in made.params.items() if "attn." in name}
        x = torch.stack([300 + d.normal(3, 12, scale=4), d.normal(3, 12, scale=300)])
        return made.with_params(**quiet).with_inputs(x=x)

    @core
    def test_padding_reaches_no_real_token(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, padding=PADDING)
        x = made.inputs["x"]
        changed = made.with_inputs(x=torch.where(PADDING[..., None], x, x + 100))
        before, after = (self.run(attempt, "padding", each) for each in (made, changed))
        if not before.shape == after.shape == x.shape or not torch.allclose(before[PADDING], after[PADDING], atol=1e-4):
            fail("padding reaches no real token", "what stands in padded places changed the result of real tokens")


BUGS = KnownBugs(
    """
pre-norm instead of post-norm
    this layer normalises the sum of input and branch.
    x = self.attn_norm(x + self.dropout(self.self_attn(x, x, mask)))
    →  h = self.attn_norm(x)
        x = x + self.dropout(self.self_attn(h, h, mask))
    x = self.ffn_norm(x + self.dropout(self.ffn(x)))  →  x = x + self.dropout(self.ffn(self.ffn_norm(x)))
no residual around the attention
    each branch is added to its input.
    self.attn_norm(x + self.dropout(  →  self.attn_norm(self.dropout(
no residual around the feed-forward layer
    each branch is added to its input.
    self.ffn_norm(x + self.dropout(  →  self.ffn_norm(self.dropout(
the last norm left out
    post-norm ends with a norm.
    x = self.ffn_norm(x + self.dropout(self.ffn(x)))  →  x = x + self.dropout(self.ffn(x))
one norm for both branches
    each branch has a norm of its own.
    self.attn_norm(x +  →  self.ffn_norm(x +
padding inverted
    True is a real token; PyTorch's own key_padding_mask is True where a token is not.
    padding is None else  →  padding is None else ~
padding on the queries instead of the keys
    padding must not be seen; what it sees itself does not matter.
    else padding[:, None, None, :]  →  else padding[:, None, :, None]
padding ignored
    no token attends to padding.
    padding is None else  →  padding is None or True else
the padding of the first entry used for all
    each row of the batch has padding of its own.
    else padding[:, None, None, :]  →  else padding[:1, None, None, :]
causal
    an encoder reads in both directions.
    softmax(scores, dim=-1)
    →  softmax(scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf), dim=-1)
heads interleaved over the features
    head h owns neighbouring rows h·head_dim … (h+1)·head_dim, not every num_heads-th one.
    (self.num_heads, -1)).transpose(-3, -2)  →  (-1, self.num_heads)).movedim(-1, -3)
the eps of PyTorch
    nn.LayerNorm's default of 1e-5 is not this layer's 1e-12, and the argument is there to be passed on.
    self.attn_norm = nn.LayerNorm(d_model, eps,  →  self.attn_norm = nn.LayerNorm(d_model,
    self.ffn_norm = nn.LayerNorm(d_model, eps,  →  self.ffn_norm = nn.LayerNorm(d_model,
dropout in evaluation mode too
    dropout is noise for training; what is evaluated must not depend on chance.
    self.dropout(self.ffn(x))  →  F.dropout(self.ffn(x), self.dropout.p)
an output projection without its bias
    all four projections have biases here.
    self.o_proj = nn.Linear(d_model, d_model,  →  self.o_proj = nn.Linear(d_model, d_model, bias=False,
""",
    builds_on=("mha", "gelu_ffn", "layernorm"),
    but=("mask inverted", "mask ignored"),  # they are those of the padding
)
