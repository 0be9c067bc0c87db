"""What `EncoderLayer` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo import attending
from dojo.attending import Attention, UnnormedContract, library, normalised_last, stage_by_stage
from dojo.bugs import Bug
from dojo.contract import NormedContract, core
from dojo.dropping import DropoutContract
from dojo.expect import Call, Draw, fail, parameters_are, tensor
from dojo.formulas import (
    FeedForward,
    LayerNorm,
    feed_forward,
    layer_norm,
    library_feed_forward,
    library_layer_norm,
    over_keys,
    post_norm_layer,
    post_norm_params,
)
from dojo.judge.proxy import Attempt
from dojo.rule import Formula


def of(attend: Attention, norm: LayerNorm, ffn: FeedForward) -> Formula:
    layer = post_norm_layer(attend, norm, ffn, crossing=False)

    def formula(init: dict, params: dict, x: Tensor, padding: Tensor | None = None) -> Tensor:
        return layer(init, params, x, over_keys(padding))

    return formula


def call(
    d: Draw, batch: int, seq: int, heads: int = 3, head_dim: int = 4, d_ff: int = 7, loud: float = 1.0,
    padding: Tensor | None = None, **init: float,
) -> Call:  # fmt: skip
    """A call on inputs of standard deviation `loud`."""
    d_model = heads * head_dim
    inputs = {"x": d.normal(batch, seq, d_model, scale=loud)} | ({} if padding is None else {"padding": padding})
    init = {"d_model": d_model, "num_heads": heads, "d_ff": d_ff, **init}
    return Call(inputs, init, post_norm_params(d, d_model, d_ff, crossing=False))


def quiet_biases(made: Call) -> Call:
    """The same without the biases of the attention, so that small inputs stay small up to the norm."""
    params = {k: v * 0 if k.startswith("self_attn") and k.endswith("bias") else v for k, v in made.params.items()}
    return Call(made.inputs, made.init, params)


def loud_padding(d: Draw) -> Call:
    """Padded places so loud that a large number taken from their scores would not hide them."""
    made = call(d, 2, 5, padding=PADDING)
    return made.with_inputs(x=torch.where(PADDING[..., None], made.inputs["x"], 3e4 * made.inputs["x"]))


PADDING = torch.tensor([[True, True, False, True, False], [True, True, True, True, True]])
NONE_REAL = torch.tensor([[False] * 5, [True, False, True, False, True]])


class TestEncoderLayer(NormedContract, UnnormedContract, DropoutContract):
    name = "EncoderLayer"
    oracle = staticmethod(of(library, library_layer_norm, library_feed_forward))
    variants = (
        of(stage_by_stage, layer_norm, feed_forward),
        of(library, library_layer_norm, library_feed_forward),
        of(normalised_last, layer_norm, library_feed_forward),
    )
    axes = {"x": "batch seq d_model", "padding": "batch seq", "result": "batch seq d_model"}
    cases = {
        "no_padding": lambda d: call(d, 2, 5),
        "padding": lambda d: call(d, 2, 5, padding=PADDING),
        "as_many_entries_as_heads": lambda d: call(d, 3, 5, padding=d.mask(3, 5)),
        "as_many_tokens_as_entries": lambda d: call(d, 5, 5, padding=d.mask(5, 5)),
        "one_entry_is_all_padding": lambda d: call(d, 2, 5, padding=NONE_REAL),
        "all_is_padding": lambda d: call(d, 2, 5, padding=torch.zeros(2, 5, dtype=torch.bool)),
        "loud_padding": lambda d: loud_padding(d),
        "another_eps": lambda d: call(d, 2, 5, eps=0.3),
        "small_inputs_and_the_default_eps": lambda d: quiet_biases(call(d, 2, 5, loud=1e-6)),
    }
    telling = ("no_padding", "one_entry_is_all_padding")
    more_shapes = {
        "one_token": lambda d: call(d, 2, 1),
        "one_token_that_may_be_padding": lambda d: call(d, 2, 1, padding=torch.tensor([[True], [False]])),
        "one_entry_one_head": lambda d: call(d, 1, 5, heads=1, head_dim=8, padding=PADDING[:1]),
        "head_dim_one": lambda d: call(d, 2, 5, heads=7, head_dim=1),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5, padding=d.mask(n, 5)),
        "seq": lambda d, n: call(d, 2, n, padding=d.mask(2, n)),
        "heads": lambda d, n: call(d, 2, 5, heads=n),
        "width": lambda d, n: call(d, 2, 5, head_dim=n),
        "hidden width": lambda d, n: call(d, 2, 5, d_ff=n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        made = call(d, 2, 3)
        quiet = {k: v * 0.01 if k.startswith("self_attn") else v for k, v in made.params.items()}
        x = torch.stack([300 + d.normal(3, 12, scale=4), d.normal(3, 12, scale=300)])
        return Call({"x": x}, made.init, quiet)

    @staticmethod
    def delicate(d: Draw) -> Call:
        return call(d, 2, 5, head_dim=5)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 4, 64, heads=6, head_dim=8, d_ff=128, padding=d.mask(4, 64))

    branches = {
        "the branch of the attention": "self_attn.o_proj.bias",
        "the branch of the feed-forward layer": "ffn.fc2.bias",
    }
    hidden = "ffn.", "o_proj"

    @staticmethod
    def dropping(d: Draw, dropout: float) -> Call:
        return call(d, 2, 5, padding=PADDING, dropout=dropout)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, dropout=0.5, eps=0.3)
        module = getattr(attempt, self.name)(*made.init.values())
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})
        module.to(attempt.device).load_state_dict({k: v.to(attempt.device) for k, v in made.params.items()})
        with torch.no_grad():
            got = {"result": module.eval()(self.on_device(attempt, made).inputs["x"])}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_padding_is_the_second_argument(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, padding=PADDING)
        with torch.no_grad():
            got = {"result": self.ready(attempt, made)(*self.on_device(attempt, made).inputs.values())}
        self.compare(attempt, draw, "padding by position", made, got, torch.float32, None)

    @core
    def test_padding_reaches_no_real_token(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 5, padding=PADDING))
        module, x = self.ready(attempt, made), made.inputs["x"]
        changed = torch.where(made.inputs["padding"][..., None], x, x + 100)
        with torch.no_grad():
            before, after = (
                tensor(module(each, padding=made.inputs["padding"]), attempt.device) for each in (x, changed)
            )
        real = made.inputs["padding"]
        if before.shape != after.shape or not torch.allclose(before[real], after[real], atol=1e-4):
            fail("padding reaches no real token", "what stands in padded places changed the result of real tokens")


BUGS = [
    Bug(
        "pre-norm instead of post-norm",
        "this layer normalises the sum of input and branch.",
        "x = self.attn_norm(x + self.dropout(self.self_attn(x, x, mask)))",
        "x = x + self.dropout((lambda h: self.self_attn(h, h, mask))(self.attn_norm(x)))",
    ),
    Bug(
        "no residual around the attention",
        "each branch is added to its input.",
        "x = self.attn_norm(x + self.dropout(self.self_attn(x, x, mask)))",
        "x = self.attn_norm(self.dropout(self.self_attn(x, x, mask)))",
    ),
    Bug(
        "no residual around the feed-forward layer",
        "each branch is added to its input.",
        "x = self.ffn_norm(x + self.dropout(self.ffn(x)))",
        "x = self.ffn_norm(self.dropout(self.ffn(x)))",
    ),
    Bug(
        "the last norm left out",
        "post-norm ends with a norm.",
        "x = self.ffn_norm(x + self.dropout(self.ffn(x)))",
        "x = x + self.dropout(self.ffn(x)) + 0 * self.ffn_norm(x)",
    ),
    Bug(
        "padding inverted",
        "True is a real token; PyTorch's own key_padding_mask is True where a token is not.",
        "mask = None if padding is None else padding[:, None, None, :]",
        "mask = None if padding is None else ~padding[:, None, None, :]",
    ),
    Bug(
        "padding on the queries instead of the keys",
        "padding must not be seen; what it sees itself does not matter.",
        "mask = None if padding is None else padding[:, None, None, :]",
        "mask = None if padding is None else padding[:, None, :, None]",
    ),
    Bug(
        "padding ignored",
        "no token attends to padding.",
        "mask = None if padding is None else padding[:, None, None, :]",
        "mask = None",
    ),
    Bug(
        "the padding of the first entry used for all",
        "each row of the batch has padding of its own.",
        "mask = None if padding is None else padding[:, None, None, :]",
        "mask = None if padding is None else padding[:1, None, None, :]",
    ),
    Bug(
        "rows of padding alone give nan",
        "softmax of a row of only -inf is nan; such a query gets zeros.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores.masked_fill(~mask, -torch.inf), torch.ones_like(mask)",
    ),
    Bug(
        "rows of padding alone average all values",
        "a row filled with the smallest number gives equal weights; such a query gets zeros.",
        "weights = weights.masked_fill(~mask, 0.0)",
        "weights = weights * 1.0",
    ),
    Bug(
        "causal",
        "an encoder reads in both directions.",
        "mask = None if padding is None else padding[:, None, None, :]",
        "mask = x.new_ones(x.shape[1], x.shape[1]).tril().bool(); mask = mask if padding is None else mask & padding[:, None, None, :]",  # noqa: E501
    ),
    Bug(
        "scaled by the square root of d_model instead of head_dim",
        "each head's scores are sums over head_dim products, so that is what they are scaled by.",
        "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
        "scores = q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])",
    ),
    Bug(
        "the tanh approximation of gelu",
        "the exact gelu goes by erf.",
        "return self.fc2(self.dropout(F.gelu(self.fc1(x))))",
        'return self.fc2(self.dropout(F.gelu(self.fc1(x), approximate="tanh")))',
    ),
    Bug(
        "relu instead of gelu",
        "that is the layer of 2017; this one has GELU.",
        "return self.fc2(self.dropout(F.gelu(self.fc1(x))))",
        "return self.fc2(self.dropout(F.relu(self.fc1(x))))",
    ),
    Bug(
        "the eps of PyTorch",
        "nn.LayerNorm's default of 1e-5 is not this layer's 1e-12, and the argument is there to be passed on.",
        "self.attn_norm = nn.LayerNorm(d_model, eps, device=device, dtype=dtype)",
        "self.attn_norm = nn.LayerNorm(d_model, device=device, dtype=dtype)",
    ),
    Bug(
        "dropout in evaluation mode too",
        "dropout is noise for training; what is evaluated must not depend on chance.",
        "x = self.ffn_norm(x + self.dropout(self.ffn(x)))",
        "x = self.ffn_norm(x + F.dropout(self.ffn(x), self.dropout.p))",
    ),
    Bug(
        "an output projection without its bias",
        "all four projections have biases here.",
        "self.o_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)",
        "self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)",
    ),
    Bug(
        "one norm for both branches",
        "each branch has a norm of its own.",
        "self.ffn_norm = nn.LayerNorm(d_model, eps, device=device, dtype=dtype)",
        "self.ffn_norm = self.attn_norm",
    ),
]

EQUIVALENT = (*attending.EQUIVALENT,)
