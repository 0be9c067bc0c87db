"""What `Seq2SeqTransformer` must do. The oracle is made of torch's parts and complex numbers, one head at a time."""

from __future__ import annotations

import re
from functools import partial

import torch
from torch import Tensor

from dojo import attending
from dojo.attending import Attention, library, normalised_last, stage_by_stage
from dojo.bugs import Bug, Equivalent
from dojo.contract import NormedContract, core, robust
from dojo.dropping import DropoutContract
from dojo.expect import Call, Draw, fail, parameters_are, refuses, tensor
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
    sinusoids,
    under,
)
from dojo.judge.proxy import Attempt
from dojo.rule import Formula


def placed(embedded: Tensor) -> Tensor:
    """√d times the embeddings, plus the positions, each rounded."""
    seq, size = embedded.shape[-2:]
    return embedded * size**0.5 + sinusoids(seq, size).to(embedded.dtype)


def model(attend: Attention, norm: LayerNorm, ffn: FeedForward) -> Formula:
    """An encoder-decoder of these parts."""
    reading, writing = (post_norm_layer(attend, norm, ffn, crossing) for crossing in (False, True))

    def formula(
        init: dict, params: dict, src_ids: Tensor, tgt_ids: Tensor, src_padding: Tensor | None = None
    ) -> Tensor:
        mask = over_keys(src_padding)
        memory = placed(params["src_embedding.weight"][src_ids.long()])
        x = placed(params["tgt_embedding.weight"][tgt_ids.long()])
        for number in range(init["num_layers"]):
            memory = reading(init, under(f"encoder_layers.{number}.", params), memory, mask)
        for number in range(init["num_layers"]):
            own = under(f"decoder_layers.{number}.", params)
            x = writing(init, own, x, causal(x.shape[1]), memory, mask)
        return x @ params["lm_head.weight"].mT

    return formula


def call(
    d: Draw, batch: int, src: int, tgt: int, vocabs: tuple[int, int] = (13, 17), layers: int = 1, heads: int = 3,
    head_dim: int = 4, d_ff: int = 7, longest: int = 11, src_padding: Tensor | None = None, **init: float,
) -> Call:  # fmt: skip
    """A call on random tokens."""
    d_model = heads * head_dim
    params = {f"{side}_embedding.weight": d.normal(n, d_model) for side, n in zip(("src", "tgt"), vocabs, strict=True)}
    for side, crossing in (("encoder", False), ("decoder", True)):
        for number in range(layers):
            own = post_norm_params(d, d_model, d_ff, crossing)
            params |= {f"{side}_layers.{number}.{name}": value for name, value in own.items()}
    params["lm_head.weight"] = d.normal(vocabs[1], d_model, scale=d_model**-0.5)
    inputs = {"src_ids": d.integers(0, vocabs[0], batch, src), "tgt_ids": d.integers(0, vocabs[1], batch, tgt)}
    inputs |= {} if src_padding is None else {"src_padding": src_padding}
    sizes = {"src_vocab": vocabs[0], "tgt_vocab": vocabs[1], "d_model": d_model, "num_layers": layers}
    return Call(inputs, sizes | {"num_heads": heads, "d_ff": d_ff, "max_len": longest} | init, params)


def int32(made: Call) -> Call:
    return made.with_inputs(**{name: ids.int() for name, ids in made.inputs.items()})


def quiet_norms(d: Draw) -> Call:
    """What reaches each norm after the first of its stack is about as small as the root of eps."""
    made = call(d, 2, 7, 5)
    quiet = {k: v * 1e-6 for k, v in made.params.items() if re.search(r"(attn|ffn)_norm", k)}
    quiet |= {k: v * 0 for k, v in made.params.items() if re.search(r"v_proj\.bias|o_proj\.bias|fc.\.bias", k)}
    last = {k: v for k, v in made.params.items() if k.startswith("decoder_layers.0.ffn_norm")}
    return Call(made.inputs, made.init, made.params | quiet | last)


def far_target(d: Draw) -> Call:
    """Positions that half precision cannot even count, and hardly anything besides."""
    made = call(d, 1, 5, 307, heads=1, head_dim=6, longest=313)
    quiet = {k: v * 0.1 for k, v in made.params.items() if re.search(r"tgt_embedding|o_proj|fc2", k)}
    return Call(made.inputs, made.init, made.params | quiet)


PADDING = torch.tensor([[True, True, False, True, False, True, False], [True] * 7])
NONE_REAL = torch.tensor([[False] * 7, [True, False, True, False, True, True, False]])


class TestSeq2SeqTransformer(NormedContract, DropoutContract):
    name = "Seq2SeqTransformer"
    oracle = staticmethod(model(library, library_layer_norm, library_feed_forward))
    variants = (
        model(stage_by_stage, layer_norm, feed_forward),
        model(library, library_layer_norm, library_feed_forward),
        model(normalised_last, layer_norm, library_feed_forward),
    )
    positional = 2
    axes = {
        "src_ids": "batch src_len",
        "tgt_ids": "batch tgt_len",
        "src_padding": "batch src_len",
        "result": "batch tgt_len tgt_vocab",
    }
    cases = {
        "one_layer": lambda d: call(d, 2, 7, 5),
        "a_target_longer_than_the_source": lambda d: call(d, 2, 3, 8),
        "as_long_as_allowed": lambda d: call(d, 2, 11, 11),
        "padding": lambda d: call(d, 2, 7, 5, src_padding=PADDING),
        "two_layers_and_padding": lambda d: call(d, 3, 7, 5, layers=2, src_padding=d.mask(3, 7)),
        "one_entry_is_all_padding": lambda d: call(d, 2, 7, 5, src_padding=NONE_REAL),
        "all_is_padding": lambda d: call(d, 2, 7, 5, src_padding=torch.zeros(2, 7, dtype=torch.bool)),
        "as_long_as_the_source_and_padding": lambda d: call(d, 2, 7, 7, vocabs=(13, 13), src_padding=PADDING),
        "small_sums_at_every_norm": quiet_norms,
        "int32_tokens": lambda d: int32(call(d, 2, 7, 5)),
    }
    telling = ("two_layers_and_padding",)
    more_shapes = {
        "one_token_of_target": lambda d: call(d, 2, 7, 1),
        "one_token_of_source": lambda d: call(d, 2, 1, 5),
        "one_entry_one_head": lambda d: call(d, 1, 7, 5, heads=1, head_dim=8, src_padding=PADDING[:1]),
        "a_long_source": lambda d: call(d, 1, 307, 5, heads=1, head_dim=6, longest=313),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 7, 5, src_padding=d.mask(n, 7)),
        "the source": lambda d, n: call(d, 2, n, 5, longest=20, src_padding=d.mask(2, n)),
        "the target": lambda d, n: call(d, 2, 7, n, longest=20),
        "heads": lambda d, n: call(d, 2, 7, 5, heads=n),
        "width": lambda d, n: call(d, 2, 7, 5, head_dim=2 * n),
        "hidden width": lambda d, n: call(d, 2, 7, 5, d_ff=n),
        "vocabulary": lambda d, n: call(d, 2, 7, 5, vocabs=(n, n + 1)),
    }
    delicate = staticmethod(far_target)
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        made = call(d, 2, 7, 5)
        loud = {name: 300 + 4 * made.params[name] for name in ("src_embedding.weight", "tgt_embedding.weight")}
        return Call(made.inputs, made.init, made.params | loud)

    @staticmethod
    def timed(d: Draw) -> Call:
        padding = d.mask(2, 48)
        return call(d, 2, 48, 32, (97, 89), heads=4, head_dim=16, d_ff=96, longest=64, src_padding=padding)

    branches = {
        "the branch of the self-attention": "decoder_layers.1.self_attn.o_proj.bias",
        "the branch of the cross-attention": "decoder_layers.1.cross_attn.o_proj.bias",
        "the branch of the feed-forward layer": "decoder_layers.1.ffn.fc2.bias",
    }
    still = r"o_proj|fc2|layers\.0\.ffn_norm\.weight"

    @staticmethod
    def dropping(d: Draw, dropout: float) -> Call:
        return call(d, 2, 7, 5, layers=2, src_padding=PADDING, dropout=dropout)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 7, 5, layers=2, dropout=0.5)
        module = getattr(attempt, self.name)(*made.init.values())
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})
        module.to(attempt.device).load_state_dict({k: v.to(attempt.device) for k, v in made.params.items()})
        with torch.no_grad():
            got = {"result": module.eval()(*self.on_device(attempt, made).inputs.values())}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_a_later_token_changes_no_earlier_logits(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 5, 7, layers=2))
        module, (src, tgt) = self.ready(attempt, made), made.inputs.values()
        changed = tgt.clone()
        changed[:, 4:] = (changed[:, 4:] + 1) % 17
        with torch.no_grad():
            before, after = (tensor(module(src, each), attempt.device) for each in (tgt, changed))
        if before.shape != after.shape or not torch.allclose(before[:, :4], after[:, :4], atol=1e-4):
            fail("the decoder is causal", "target tokens 4 to 6 changed the logits of tokens 0 to 3")

    @core
    def test_padding_of_the_source_reaches_no_logit(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 7, 5, layers=2, src_padding=PADDING))
        module, (src, tgt, real) = self.ready(attempt, made), made.inputs.values()
        changed = torch.where(real, src, (src + 1) % 13)
        with torch.no_grad():
            before, after = (tensor(module(each, tgt, src_padding=real), attempt.device) for each in (src, changed))
        if before.shape != after.shape or not torch.allclose(before, after, atol=1e-4):
            fail("padding of the source reaches no logit", "other ids in padded places changed the logits")

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        module = self.ready(attempt, call(draw, 2, 7, 5))
        short = draw.integers(0, 13, 2, 5).to(attempt.device)
        for seq in (12, 17):
            long = draw.integers(0, 13, 2, seq).to(attempt.device)
            sentence = "a source longer than max_len is a ValueError"
            for more in ({}, {"src_padding": long > 3}):
                refuses(partial(module, long, short, **more), seq, sentence=sentence)
            sentence = "a target longer than max_len is a ValueError"
            for more in ({}, {"src_padding": short > 3}):
                refuses(partial(module, short, long, **more), seq, sentence=sentence)

    @robust
    def test_heads_must_divide_the_model_and_its_width_be_even(self, attempt: Attempt, draw: Draw) -> None:
        ids = draw.integers(0, 13, 2, 5).to(attempt.device)

        def build(d_model: int, heads: int) -> object:
            return getattr(attempt, self.name)(13, 17, d_model, 1, heads, 7, 19).to(attempt.device)(ids, ids)

        refuses(lambda: build(14, 3), 14, 3, sentence="d_model that num_heads does not divide is a ValueError")
        refuses(lambda: build(15, 3), 15, sentence="an odd d_model is a ValueError")
        refuses(lambda: build(1, 1), 1, sentence="an odd d_model is a ValueError")


BUGS = [
    Bug(
        "embeddings not scaled by the root of d_model",
        "unscaled, the positions drown small embeddings.",
        "placed = tokens.to(acc) * math.sqrt(tokens.shape[-1]) + self.table[:seq].to(acc)",
        "placed = tokens.to(acc) + self.table[:seq].to(acc)",
    ),
    Bug(
        "positions scaled too",
        "the root of d_model multiplies the embeddings alone.",
        "placed = tokens.to(acc) * math.sqrt(tokens.shape[-1]) + self.table[:seq].to(acc)",
        "placed = (tokens.to(acc) + self.table[:seq].to(acc)) * math.sqrt(tokens.shape[-1])",
    ),
    Bug(
        "no positions",
        "without positions a sentence is a bag of words.",
        "placed = tokens.to(acc) * math.sqrt(tokens.shape[-1]) + self.table[:seq].to(acc)",
        "placed = tokens.to(acc) * math.sqrt(tokens.shape[-1])",
    ),
    Bug(
        "positions counted from 1",
        "the first token stands at position 0.",
        "position = torch.arange(max_len, dtype=torch.float64)",
        "position = torch.arange(1, max_len + 1, dtype=torch.float64)",
    ),
    Bug(
        "sines in the first half, cosines in the second",
        "sines stand in even columns and cosines in odd ones.",
        "return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)",
        "return torch.cat([angles.sin(), angles.cos()], dim=-1)",
    ),
    Bug(
        "cosines in even columns",
        "sines stand in even columns and cosines in odd ones.",
        "return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)",
        "return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(-2)",
    ),
    Bug(
        "the decoder not causal",
        "a token must not see what is written after it.",
        "x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, causal)))",
        "x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x)))",
    ),
    Bug(
        "the encoder causal",
        "an encoder reads in both directions.",
        "x = self.attn_norm(x + self.dropout(self.self_attn(x, x, mask)))",
        "x = self.attn_norm(x + self.dropout(self.self_attn(x, x, torch.ones(x.shape[1], x.shape[1], device=x.device).tril().bool() & (True if mask is None else mask))))",  # noqa: E501
    ),
    Bug(
        "padding of the source ignored by the cross-attention",
        "padding must be hidden wherever the source is read.",
        "x = layer(x, memory, mask)",
        "x = layer(x, memory, None)",
    ),
    Bug(
        "padding of the source ignored by the encoder",
        "padding must be hidden wherever the source is read.",
        "memory = layer(memory, mask)",
        "memory = layer(memory, None)",
    ),
    Bug(
        "padding inverted",
        "True is a real token; PyTorch's own key_padding_mask is True where a token is not.",
        "mask = None if src_padding is None else src_padding[:, None, None, :]",
        "mask = None if src_padding is None else ~src_padding[:, None, None, :]",
    ),
    Bug(
        "a source of padding alone gives nan",
        "softmax of a row of only -inf is nan; such a query gets zeros.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores.masked_fill(~mask, -torch.inf), torch.ones_like(mask)",
    ),
    Bug(
        "the decoder reads the embedded source, not the memory",
        "cross-attention reads what the encoder made of the source.",
        "memory = layer(memory, mask)",
        "memory = memory + 0 * layer(memory, mask)",
    ),
    Bug(
        "cross-attention on the target instead of the memory",
        "keys and values of the cross-attention come from the memory.",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask)))",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, x)))",
    ),
    Bug(
        "no residual around the cross-attention",
        "each branch is added to its input.",
        "x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask)))",
        "x = self.cross_attn_norm(self.dropout(self.cross_attn(x, memory, mask)))",
    ),
    Bug(
        "a softmax at the end",
        "the loss wants logits, not probabilities.",
        "return self.lm_head(x)",
        "return self.lm_head(x).softmax(-1)",
    ),
    Bug(
        "a head with a bias",
        "the head is a projection without a bias.",
        "self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, device=device, dtype=dtype)",
        "self.lm_head = nn.Linear(d_model, tgt_vocab, device=device, dtype=dtype)",
    ),
    Bug(
        "one embedding for both sides",
        "source and target have vocabularies of their own.",
        "x = self.embed(self.tgt_embedding, tgt_ids)",
        "x = self.embed(self.src_embedding, tgt_ids % self.src_embedding.num_embeddings)",
    ),
    Bug(
        "relu instead of gelu",
        "the layers of this model have GELU.",
        "return self.fc2(self.dropout(F.gelu(self.fc1(x))))",
        "return self.fc2(self.dropout(F.relu(self.fc1(x))))",
    ),
    Bug(
        "a table that is saved with the weights",
        "a table can be computed: it has no place in the state dict.",
        "self.table = sinusoids(max_len, d_model).to(device)",
        'self.table = sinusoids(max_len, d_model).to(device); self.register_buffer("positions", self.table)',
    ),
    Bug(
        "a table rounded when the module is cast",
        "a buffer is cast with the module, and bfloat16 keeps three digits of a sine.",
        "self.table = sinusoids(max_len, d_model).to(device)",
        'self.register_buffer("table", sinusoids(max_len, d_model).to(device), persistent=False)',
    ),
    Bug(
        "dropout in evaluation mode too",
        "dropout is noise for training; what is evaluated must not depend on chance.",
        "return self.dropout(placed.to(tokens.dtype))",
        "return F.dropout(placed.to(tokens.dtype), self.dropout.p)",
    ),
    Bug(
        "longer sequences are not refused",
        "what lies behind the table, an IndexError or a shape that does not fit, tells the caller nothing.",
        "if seq > longest:",
        "if False:",
    ),
]

EQUIVALENT = (
    *attending.EQUIVALENT,
    Equivalent(r"float64.*→", "float32 angles of this table are within float32 arithmetic."),
    Equivalent(r"\.to\(device\).*→|sinusoids.*→", "a table of the CPU follows the input at the first call."),
    Equivalent(r"(\.to\(acc\)|tokens).*→", "the table is float64, so the sum is in no less than was asked for."),
)
