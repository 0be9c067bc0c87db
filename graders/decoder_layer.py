"""What `DecoderLayer` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo import attending
from dojo.attending import Attention, UnnormedContract, library, normalised_last, stage_by_stage
from dojo.bugs import Bug
from dojo.contract import NormedContract, core, robust
from dojo.dropping import DropoutContract
from dojo.expect import Call, Draw, fail, parameters_are, tensor
from dojo.formulas import (
    FeedForward,
    LayerNorm,
    causal,
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
    layer = post_norm_layer(attend, norm, ffn, crossing=True)

    def formula(init: dict, params: dict, x: Tensor, memory: Tensor, memory_padding: Tensor | None = None) -> Tensor:
        return layer(init, params, x, causal(x.shape[1]), memory, over_keys(memory_padding))

    return formula


def call(
    d: Draw, batch: int, seq: int, mem_len: int, heads: int = 3, head_dim: int = 4, d_ff: int = 7, loud: float = 1.0,
    memory_padding: Tensor | None = None, **init: float,
) -> Call:  # fmt: skip
    """A call on inputs of standard deviation `loud`."""
    d_model = heads * head_dim
    inputs = {"x": d.normal(batch, seq, d_model, scale=loud), "memory": d.normal(batch, mem_len, d_model)}
    inputs |= {} if memory_padding is None else {"memory_padding": memory_padding}
    init = {"d_model": d_model, "num_heads": heads, "d_ff": d_ff, **init}
    return Call(inputs, init, post_norm_params(d, d_model, d_ff, crossing=True))


def quiet_biases(made: Call) -> Call:
    """The same without the biases of the attention, so that small inputs stay small up to the norm."""
    params = {k: v * 0 if k.startswith("self_attn") and k.endswith("bias") else v for k, v in made.params.items()}
    return Call(made.inputs, made.init, params)


PADDING = torch.tensor([[True, True, False, True, False, True, False], [True] * 7])
NONE_REAL = torch.tensor([[False] * 7, [True, False, True, False, True, True, False]])


class TestDecoderLayer(NormedContract, UnnormedContract, DropoutContract):
    name = "DecoderLayer"
    oracle = staticmethod(of(library, library_layer_norm, library_feed_forward))
    variants = (
        of(stage_by_stage, layer_norm, feed_forward),
        of(library, library_layer_norm, library_feed_forward),
        of(normalised_last, layer_norm, library_feed_forward),
    )
    positional = 2
    axes = {
        "x": "batch seq d_model",
        "memory": "batch mem_len d_model",
        "memory_padding": "batch mem_len",
        "result": "batch seq d_model",
    }
    cases = {
        "no_padding": lambda d: call(d, 2, 5, 7),
        "a_memory_shorter_than_the_text": lambda d: call(d, 2, 5, 3),
        "a_memory_as_long_as_the_text": lambda d: call(d, 2, 5, 5),
        "padding": lambda d: call(d, 2, 5, 7, memory_padding=PADDING),
        "as_many_entries_as_heads": lambda d: call(d, 3, 5, 7, memory_padding=d.mask(3, 7)),
        "as_many_keys_as_entries": lambda d: call(d, 5, 5, 5, memory_padding=d.mask(5, 5)),
        "one_entry_is_all_padding": lambda d: call(d, 2, 5, 7, memory_padding=NONE_REAL),
        "all_is_padding": lambda d: call(d, 2, 5, 7, memory_padding=torch.zeros(2, 7, dtype=torch.bool)),
        "as_many_tokens_as_heads": lambda d: call(d, 2, 3, 7, memory_padding=PADDING),
        "another_eps": lambda d: call(d, 2, 5, 7, eps=0.3),
        "small_inputs_and_the_default_eps": lambda d: quiet_biases(call(d, 2, 5, 7, loud=1e-6)),
    }
    telling = ("no_padding", "one_entry_is_all_padding")
    more_shapes = {
        "one_token": lambda d: call(d, 2, 1, 7),
        "one_token_of_memory": lambda d: call(d, 2, 5, 1),
        "one_token_that_may_be_padding": lambda d: call(d, 2, 5, 1, memory_padding=torch.tensor([[True], [False]])),
        "one_entry_one_head": lambda d: call(d, 1, 5, 7, heads=1, head_dim=8, memory_padding=PADDING[:1]),
        "head_dim_one": lambda d: call(d, 2, 5, 7, heads=7, head_dim=1),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5, 7, memory_padding=d.mask(n, 7)),
        "seq": lambda d, n: call(d, 2, n, 7),
        "the memory": lambda d, n: call(d, 2, 5, n, memory_padding=d.mask(2, n)),
        "heads": lambda d, n: call(d, 2, 5, 7, heads=n),
        "width": lambda d, n: call(d, 2, 5, 7, head_dim=n),
        "hidden width": lambda d, n: call(d, 2, 5, 7, d_ff=n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        made = call(d, 2, 3, 5)
        quiet = {k: v * 0.01 if "_attn." in k else v for k, v in made.params.items()}
        loud = {k: torch.stack([300 + 4 * v[0], 300 * v[1]]) for k, v in made.inputs.items()}
        return Call(loud, made.init, quiet)

    @staticmethod
    def delicate(d: Draw) -> Call:
        return call(d, 2, 5, 7, head_dim=5)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 4, 64, 48, heads=6, head_dim=8, d_ff=128, memory_padding=d.mask(4, 48))

    branches = {
        "the branch of the self-attention": "self_attn.o_proj.bias",
        "the branch of the cross-attention": "cross_attn.o_proj.bias",
        "the branch of the feed-forward layer": "ffn.fc2.bias",
    }
    hidden = "ffn.", "o_proj"

    @staticmethod
    def dropping(d: Draw, dropout: float) -> Call:
        return call(d, 2, 5, 7, memory_padding=PADDING, dropout=dropout)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, 7, dropout=0.5, eps=0.3)
        module = getattr(attempt, self.name)(*made.init.values())
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})
        module.to(attempt.device).load_state_dict({k: v.to(attempt.device) for k, v in made.params.items()})
        with torch.no_grad():
            got = {"result": module.eval()(*self.on_device(attempt, made).inputs.values())}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_memory_padding_is_the_third_argument(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, 7, memory_padding=PADDING)
        with torch.no_grad():
            got = {"result": self.ready(attempt, made)(*self.on_device(attempt, made).inputs.values())}
        self.compare(attempt, draw, "padding by position", made, got, torch.float32, None)

    @core
    def test_a_later_token_changes_no_earlier_result(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 7, 5))
        module, (x, memory) = self.ready(attempt, made), made.inputs.values()
        changed = x.clone()
        changed[:, 4:] += draw.normal(2, 3, 12, scale=5).to(x.device)
        with torch.no_grad():
            before, after = (tensor(module(each, memory), attempt.device) for each in (x, changed))
        if before.shape != after.shape or not torch.allclose(before[:, :4], after[:, :4], atol=1e-4):
            fail("self-attention is causal", "tokens 4 to 6 changed what tokens 0 to 3 give")

    @robust
    def test_takes_a_target_of_any_length(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 1, 2100, 3, heads=1))
        module, (x, memory) = self.ready(attempt, made), made.inputs.values()
        with torch.no_grad():
            long, short = (tensor(module(each, memory), attempt.device) for each in (x, x[:, :5]))
        if long.shape != x.shape or not torch.allclose(long[:, :5], short, atol=1e-4):
            fail("a target may be of any length", "tokens 0 to 4 of 2,100 give another result than they do alone")

    @core
    def test_padding_of_the_memory_has_no_influence(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 5, 7, memory_padding=PADDING))
        module, (x, memory, padding) = self.ready(attempt, made), made.inputs.values()
        changed = torch.where(padding[..., None], memory, memory + 100)
        with torch.no_grad():
            before, after = (
                tensor(module(x, each, memory_padding=padding), attempt.device) for each in (memory, changed)
            )
        if before.shape != after.shape or not torch.allclose(before, after, atol=1e-4):
            fail("padding of the memory has no influence", "what stands in padded places changed the result")


BUGS = [
    Bug(
        "self-attention not causal",
        "a token must not see what is written after it.",
        "x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, causal)))",
        "x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x)))",
    ),
    Bug(
        "sees one token ahead",
        "the diagonal of the mask belongs to the token itself.",
        "causal = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril()",
        "causal = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril(1)",
    ),
    Bug(
        "cross-attention causal too",
        "the memory is finished: every token may read all of it.",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask)))",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, torch.ones(seq, memory.shape[1], device=x.device).tril().bool() & (True if mask is None else mask))))",  # noqa: E501
    ),
    Bug(
        "cross-attention on the text instead of the memory",
        "keys and values of the cross-attention come from the memory.",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask)))",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, x)))",
    ),
    Bug(
        "values taken from the text instead of the memory",
        "keys and values belong together: both come from the memory.",
        "v = self.split_heads(self.v_proj(context)).to(acc)",
        "v = self.split_heads(self.v_proj(x[:, torch.arange(context.shape[1], device=x.device) % x.shape[1]])).to(acc)",
    ),
    Bug(
        "cross-attention before self-attention",
        "the text is read first: what is looked up depends on it.",
        "x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, causal)))",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask))); x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, causal))); return self.ffn_norm(x + self.dropout(self.ffn(x)))",  # noqa: E501
    ),
    Bug(
        "no residual around the cross-attention",
        "each branch is added to its input.",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask)))",
        "x = self.cross_attn_norm(self.dropout(self.cross_attn(x, memory, mask)))",
    ),
    Bug(
        "no norm after the cross-attention",
        "each branch ends with its norm.",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask)))",
        "x = x + self.dropout(self.cross_attn(x, memory, mask)) + 0 * self.cross_attn_norm(x)",
    ),
    Bug(
        "pre-norm instead of post-norm",
        "this layer normalises the sum of input and branch.",
        "x = self.ffn_norm(x + self.dropout(self.ffn(x)))",
        "x = x + self.dropout(self.ffn(self.ffn_norm(x)))",
    ),
    Bug(
        "padding of the memory inverted",
        "True is a real token; PyTorch's own key_padding_mask is True where a token is not.",
        "mask = None if memory_padding is None else memory_padding[:, None, None, :]",
        "mask = None if memory_padding is None else ~memory_padding[:, None, None, :]",
    ),
    Bug(
        "padding of the memory ignored",
        "nothing attends to padding.",
        "mask = None if memory_padding is None else memory_padding[:, None, None, :]",
        "mask = None",
    ),
    Bug(
        "the padding of the first entry used for all",
        "each row of the batch has padding of its own.",
        "mask = None if memory_padding is None else memory_padding[:, None, None, :]",
        "mask = None if memory_padding is None else memory_padding[:1, None, None, :]",
    ),
    Bug(
        "a memory of padding alone gives nan",
        "softmax of a row of only -inf is nan; such a query gets zeros.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores.masked_fill(~mask, -torch.inf), torch.ones_like(mask)",
    ),
    Bug(
        "a memory of padding alone is averaged",
        "a row filled with the smallest number gives equal weights; such a query gets zeros.",
        "weights = weights.masked_fill(~mask, 0.0)",
        "weights = weights * 1.0",
    ),
    Bug(
        "scaled by the square root of d_model instead of head_dim",
        "each head's scores are sums over head_dim products, so that is what they are scaled by.",
        "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
        "scores = q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])",
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
        "self.self_attn_norm = nn.LayerNorm(d_model, eps, device=device, dtype=dtype)",
        "self.self_attn_norm = nn.LayerNorm(d_model, device=device, dtype=dtype)",
    ),
    Bug(
        "dropout in evaluation mode too",
        "dropout is noise for training; what is evaluated must not depend on chance.",
        "x = self.ffn_norm(x + self.dropout(self.ffn(x)))",
        "x = self.ffn_norm(x + F.dropout(self.ffn(x), self.dropout.p))",
    ),
    Bug(
        "one attention for both",
        "the two attentions have weights of their own.",
        "self.cross_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)",
        "self.cross_attn = self.self_attn",
    ),
]

EQUIVALENT = (*attending.EQUIVALENT,)
