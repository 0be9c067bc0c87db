"""What `EncoderLayer` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import dojo.contracts.oracles as oracles
from dojo.contracts import (
    Attempt,
    Call,
    Draw,
    DropoutContract,
    HeadsContract,
    KnownBugs,
    NormedContract,
    SoftmaxContract,
    core,
    fail,
    one_value,
)
from dojo.contracts.layers import very_low_scores

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


def far_below_zero(d: Draw) -> Call:
    """Every score is far below zero, and below what a mask is often filled with."""
    made = TestEncoderLayer.call(d, padding=PADDING)
    return made.with_params(**very_low_scores("self_attn", made.params))


class TestEncoderLayer(NormedContract, HeadsContract, DropoutContract, SoftmaxContract):
    name = "EncoderLayer"
    oracle = of(*WAYS[0])
    variants = tuple(of(*parts) for parts in WAYS)
    cases = {
        "no_padding": {"padding": None},
        "padding": {"padding": PADDING},
        "as_many_entries_as_heads": {"batch": 3},
        "as_many_tokens_as_entries": {"batch": 5},
        "another_eps": {"eps": 0.3},
        "small_inputs_and_the_default_eps": {"scale": 1e-6},
    }
    dead_rows = {
        "one_entry_is_all_padding": {"padding": "one_row"},
        "as_many_entries_as_heads_and_one_is_all_padding": {"batch": 3, "padding": "one_row"},
        "all_is_padding": {"padding": torch.zeros(2, 5, dtype=torch.bool)},
        "one_token_that_is_padding": {"seq": 1, "padding": "one_row"},
    }
    hard_cases = {"loud_padding": loud_padding, "scores_far_below_zero": far_below_zero}
    representative = ("no_padding", "padding")
    more_shapes = {
        "one_token": {"seq": 1, "padding": None},
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
    hidden = "ffn.", "attn_norm"

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, heads: int = 3, head_dim: int = 4, d_ff: int = 7,
        scale: float = 1.0, padding: Tensor | str | None = "drawn", **init: float,
    ) -> Call:  # fmt: skip
        """Inputs, and what attention adds to them, of this scale; `one_row` of drawn padding has no real token."""
        init = {"d_model": heads * head_dim, "num_heads": heads, "d_ff": d_ff, **init}
        inputs = {"x": d.normal(batch, seq, heads * head_dim, scale=scale)}
        if padding is not None:
            drawn = isinstance(padding, str)
            inputs["padding"] = d.mask(batch, seq, dead_row=padding == "one_row") if drawn else padding
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

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        return one_value(d, cls.call(d, 1, 256, 2, 128, padding=None), "self_attn.")

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
no scale
    without 1/√head_dim the scores grow with the width and softmax saturates.
    q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  →  q @ k.transpose(-2, -1)
no output projection
    the merged heads pass through o_proj.
    return self.o_proj(heads.transpose(-3, -2).flatten(-2))  →  return heads.transpose(-3, -2).flatten(-2)
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
    mask = None if padding is None else padding[:, None, None, :]
    →  mask = None if padding is None else ~padding[:, None, None, :]
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
dropout before gelu
    the entries are dropped after the bend, and gelu is not linear: scaling before it is not scaling after it.
    self.fc2(self.dropout(F.gelu(self.fc1(x))))  →  self.fc2(F.gelu(self.dropout(self.fc1(x))))
dropout without the scale 1 / (1 - p)
    what survives is divided by 1 - p, so that the expected value is the same in both modes.
    return self.fc2(self.dropout(F.gelu(self.fc1(x))))  →  hidden = F.gelu(self.fc1(x))
        if self.training:
            hidden = hidden * (torch.rand_like(hidden) >= self.dropout.p)
        return self.fc2(hidden)
keeps with the probability to drop
    dropout is the share that is lost, not the share that is kept.
    self.self_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
    →  self.self_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        dropout = 1 - dropout if dropout else 0.0
keeps what it should drop
    an entry is lost where the random number is below dropout.
    return self.fc2(self.dropout(F.gelu(self.fc1(x))))  →  hidden = F.gelu(self.fc1(x))
        if self.training and 0 < self.dropout.p < 1:
            hidden = hidden * (torch.rand_like(hidden) < self.dropout.p) / (1 - self.dropout.p)
        return self.fc2(hidden)
a dropout of 1 divides by zero
    where everything is dropped nothing is divided: zeros are left.
    return self.fc2(self.dropout(F.gelu(self.fc1(x))))  →  hidden = F.gelu(self.fc1(x))
        if self.training:
            hidden = hidden * (torch.rand_like(hidden) >= self.dropout.p) / (1 - self.dropout.p)
        return self.fc2(hidden)
dropout ignored
    the argument asks for it.
    self.self_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
    →  self.self_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        dropout = 0.0
the dropout of the first call kept
    every call draws anew: entries that are always dropped are never trained.
    return self.fc2(self.dropout(F.gelu(self.fc1(x))))  →  hidden = F.gelu(self.fc1(x))
        if self.training and not hasattr(self, "kept"):
            self.kept = self.dropout(torch.ones_like(hidden))
        return self.fc2(hidden * self.kept if self.training else hidden)
    self.ffn = FeedForward(d_model, d_ff, dropout, device=device, dtype=dtype)
    →  self.ffn = FeedForward(d_model, d_ff, dropout, device=device, dtype=dtype)
        dropout = 0.0
dropout seeds the generator
    every call then drops the same entries, and so does all else that is random in the program.
    return self.fc2(self.dropout(F.gelu(self.fc1(x))))  →  if self.training:
            torch.manual_seed(0)
        return self.fc2(self.dropout(F.gelu(self.fc1(x))))
rows of padding alone give nan
    softmax of a row of only -inf is nan; where no token is real the weighted mean is zeros.
    torch.finfo(acc).min  →  -torch.inf
    weights.masked_fill(~mask, 0.0)  →  weights
rows of padding alone average all values
    a row filled with the smallest number gives equal weights; where no token is real the weighted mean is zeros.
    weights.masked_fill(~mask, 0.0)  →  weights
softmax in half precision
    exponentials and their sum are rounded, so weights no longer sum to 1: softmax is computed in float32.
    weights = torch.softmax(scores, dim=-1)  →  exps = (scores - scores.amax(-1, keepdim=True)).to(x.dtype).exp()
        weights = (exps / exps.sum(-1, keepdim=True)).to(acc)
an output projection without its bias
    all four projections have biases here.
    self.o_proj = nn.Linear(d_model, d_model,  →  self.o_proj = nn.Linear(d_model, d_model, bias=False,
""",
    builds_on=("mha", "gelu_ffn", "layernorm"),
    but=(  # they are those of the padding
        "mask inverted",
        "mask transposed",
        "mask ignored",
        "rows that may attend to nothing give nan",
        "rows that may attend to nothing average all values",
    ),
)
