"""What `TransformerEncoder` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from dojo import attending
from dojo.attending import Attention, HeadsContract, library, normalised_last, stage_by_stage
from dojo.bugs import Bug
from dojo.contract import NormedContract, core, robust
from dojo.dropping import DropoutContract
from dojo.expect import Call, Draw, fail, parameters_are, refuses, tensor
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
    under,
)
from dojo.judge.proxy import Attempt
from dojo.rule import Formula


def model(attend: Attention, norm: LayerNorm, ffn: FeedForward) -> Formula:
    """An encoder of these parts."""
    layer = post_norm_layer(attend, norm, ffn, crossing=False)

    def formula(init: dict, params: dict, token_ids: Tensor, padding: Tensor | None = None) -> Tensor:
        x = (
            params["token_embedding.weight"][token_ids.long()]
            + params["position_embedding.weight"][: token_ids.shape[1]]
        )
        x = norm(x, params["embedding_norm.weight"], params["embedding_norm.bias"], 1e-12)
        for number in range(init["num_layers"]):
            x = layer(init, under(f"layers.{number}.", params), x, over_keys(padding))
        return x

    return formula


def call(
    d: Draw, *shape: int, vocab: int = 13, layers: int = 1, heads: int = 3, head_dim: int = 4, d_ff: int = 7,
    longest: int = 11, loud: float = 1.0, ids: Tensor | None = None, padding: Tensor | None = None, **init: float,
) -> Call:  # fmt: skip
    """A call on random tokens; embeddings and positions have standard deviation `loud`."""
    d_model = heads * head_dim
    params = {
        "token_embedding.weight": d.normal(vocab, d_model, scale=loud),
        "position_embedding.weight": d.normal(longest, d_model, scale=loud),
        "embedding_norm.weight": d.uniform(d_model, low=-2, high=2),
        "embedding_norm.bias": d.normal(d_model, scale=0.5),
    }
    for number in range(layers):
        own = post_norm_params(d, d_model, d_ff, crossing=False)
        params |= {f"layers.{number}.{name}": value for name, value in own.items()}
    sizes = {"vocab_size": vocab, "d_model": d_model, "num_layers": layers, "num_heads": heads, "d_ff": d_ff}
    inputs = {"token_ids": d.integers(0, vocab, *shape) if ids is None else ids}
    inputs |= {} if padding is None else {"padding": padding}
    return Call(inputs, sizes | {"max_len": longest} | init, params)


PADDING = torch.tensor([[True, True, False, True, False], [True, True, True, True, True]])
NONE_REAL = torch.tensor([[False] * 5, [True, False, True, False, True]])


class TestTransformerEncoder(NormedContract, HeadsContract, DropoutContract):
    name = "TransformerEncoder"
    oracle = staticmethod(model(library, library_layer_norm, library_feed_forward))
    variants = (
        model(stage_by_stage, layer_norm, feed_forward),
        model(library, library_layer_norm, library_feed_forward),
        model(normalised_last, layer_norm, library_feed_forward),
    )
    axes = {"token_ids": "batch seq", "padding": "batch seq", "result": "batch seq d_model"}
    cases = {
        "one_layer": lambda d: call(d, 2, 5),
        "as_long_as_allowed": lambda d: call(d, 2, 11),
        "as_many_tokens_as_entries": lambda d: call(d, 5, 5),
        "padding": lambda d: call(d, 2, 5, padding=PADDING),
        "two_layers_and_padding": lambda d: call(d, 3, 5, layers=2, padding=d.mask(3, 5)),
        "one_entry_is_all_padding": lambda d: call(d, 2, 5, layers=2, padding=NONE_REAL),
        "all_is_padding": lambda d: call(d, 2, 5, padding=torch.zeros(2, 5, dtype=torch.bool)),
        "small_embeddings": lambda d: call(d, 2, 5, loud=1e-6),
        "int32_tokens": lambda d: call(d, ids=d.integers(0, 13, 2, 5, dtype=torch.int32)),
        "the_same_token_again_and_again": lambda d: call(d, ids=torch.tensor([[3, 3, 3, 5, 3], [0, 12, 0, 12, 12]])),
    }
    telling = ("two_layers_and_padding",)
    more_shapes = {
        "one_token": lambda d: call(d, 2, 1),
        "one_entry_one_head": lambda d: call(d, 1, 5, heads=1, head_dim=8, padding=PADDING[:1]),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5, padding=d.mask(n, 5)),
        "seq": lambda d, n: call(d, 2, n, longest=20, padding=d.mask(2, n)),
        "heads": lambda d, n: call(d, 2, 5, heads=n),
        "width": lambda d, n: call(d, 2, 5, head_dim=n),
        "hidden width": lambda d, n: call(d, 2, 5, d_ff=n),
        "vocabulary": lambda d, n: call(d, 2, 5, vocab=n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        made = call(d, 2, 5)
        loud = {name: 300 + 4 * made.params[name] for name in ("token_embedding.weight", "position_embedding.weight")}
        loud["token_embedding.weight"][::2] = 300 * made.params["token_embedding.weight"][::2]
        return Call(made.inputs, made.init, made.params | loud)

    @staticmethod
    def delicate(d: Draw) -> Call:
        return call(d, 2, 5, head_dim=5)

    @staticmethod
    def timed(d: Draw) -> Call:
        padding = d.mask(2, 64)
        return call(d, 2, 64, vocab=211, layers=2, heads=4, head_dim=16, d_ff=96, longest=64, padding=padding)

    branches = {
        "the branch of the attention": "layers.1.self_attn.o_proj.bias",
        "the branch of the feed-forward layer": "layers.1.ffn.fc2.bias",
    }
    still = r"o_proj|fc2|layers\.0\.ffn_norm\.weight"
    hidden = "layers.1.ffn.", r"embedding_norm|o_proj|layers\.0\.ffn"

    @staticmethod
    def dropping(d: Draw, dropout: float) -> Call:
        return call(d, 2, 5, layers=2, padding=PADDING, dropout=dropout)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, layers=2, dropout=0.5)
        module = getattr(attempt, self.name)(*made.init.values())
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})
        module.to(attempt.device).load_state_dict({k: v.to(attempt.device) for k, v in made.params.items()})
        with torch.no_grad():
            got = {"result": module.eval()(self.on_device(attempt, made).inputs["token_ids"])}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_padding_reaches_no_real_token(self, attempt: Attempt, draw: Draw) -> None:
        made = self.on_device(attempt, call(draw, 2, 5, layers=2, padding=PADDING))
        module, (ids, real) = self.ready(attempt, made), made.inputs.values()
        changed = torch.where(real, ids, (ids + 1) % 13)
        with torch.no_grad():
            before, after = (tensor(module(each, padding=real), attempt.device) for each in (ids, changed))
        if before.shape != after.shape or not torch.allclose(before[real], after[real], atol=1e-4):
            fail("padding reaches no real token", "other ids in padded places changed the result of real tokens")

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        module = self.ready(attempt, call(draw, 2, 5))
        for seq in (12, 17):
            ids = draw.integers(0, 13, 2, seq).to(attempt.device)
            for more in ({}, {"padding": ids > 3}):
                refuses(partial(module, ids, **more), seq, sentence="seq > max_len is a ValueError")


BUGS = [
    Bug(
        "no positions",
        "without positions a sentence is a bag of words.",
        "x = self.token_embedding(token_ids) + self.position_embedding.weight[:seq]",
        "x = self.token_embedding(token_ids) + 0 * self.position_embedding.weight[:seq]",
    ),
    Bug(
        "positions looked up by token id",
        "a position is a place in the sequence.",
        "x = self.token_embedding(token_ids) + self.position_embedding.weight[:seq]",
        "x = self.token_embedding(token_ids) + self.position_embedding(token_ids % self.max_len)",
    ),
    Bug(
        "positions counted from 1",
        "the first token stands at position 0.",
        "x = self.token_embedding(token_ids) + self.position_embedding.weight[:seq]",
        "x = self.token_embedding(token_ids) + self.position_embedding.weight.roll(-1, 0)[:seq]",
    ),
    Bug(
        "positions along the batch",
        "positions run along the sequence.",
        "x = self.token_embedding(token_ids) + self.position_embedding.weight[:seq]",
        "x = self.token_embedding(token_ids) + self.position_embedding.weight[: len(token_ids), None]",
    ),
    Bug(
        "no norm on the embeddings",
        "the sum of embedding and position is normalised before the first layer.",
        "x = self.dropout(self.embedding_norm(x))",
        "x = self.dropout(x + 0 * self.embedding_norm(x))",
    ),
    Bug(
        "embeddings scaled by the root of d_model",
        "that is the model of 2017; BERT adds and normalises.",
        "x = self.token_embedding(token_ids) + self.position_embedding.weight[:seq]",
        "x = self.token_embedding(token_ids) * math.sqrt(self.token_embedding.embedding_dim) + self.position_embedding.weight[:seq]",  # noqa: E501
    ),
    Bug(
        "padding inverted",
        "True is a real token; PyTorch's own key_padding_mask is True where a token is not.",
        "mask = None if padding is None else padding[:, None, None, :]",
        "mask = None if padding is None else ~padding[:, None, None, :]",
    ),
    Bug(
        "padding ignored",
        "no token attends to padding.",
        "mask = None if padding is None else padding[:, None, None, :]",
        "mask = None",
    ),
    Bug(
        "padding kept from the first layer only",
        "padding must stay out of every layer: what one layer hides the next one sees.",
        "x = layer(x, mask)",
        "x = layer(x, mask); mask = None",
    ),
    Bug(
        "causal",
        "an encoder reads in both directions.",
        "mask = None if padding is None else padding[:, None, None, :]",
        "mask = torch.ones(seq, seq, device=token_ids.device).tril().bool() & (True if padding is None else padding[:, None, None, :])",  # noqa: E501
    ),
    Bug(
        "pre-norm instead of post-norm",
        "BERT normalises the sum of input and branch.",
        "x = self.ffn_norm(x + self.dropout(self.ffn(x)))",
        "x = x + self.dropout(self.ffn(self.ffn_norm(x)))",
    ),
    Bug(
        "the same layer in every place",
        "[layer] * n is one layer n times: all places share its weights.",
        "EncoderLayer(d_model, num_heads, d_ff, dropout, device=device, dtype=dtype) for _ in range(num_layers)",
        "[EncoderLayer(d_model, num_heads, d_ff, dropout, device=device, dtype=dtype)] * num_layers",
    ),
    Bug(
        "the last layer left out",
        "all layers take part.",
        "for layer in self.layers:",
        "for layer in self.layers[: max(1, len(self.layers) - 1)]:",
    ),
    Bug(
        "one norm more at the end",
        "post-norm layers normalise their own result.",
        'return x\n        ### END SOLUTION\n\n\n# %% [markdown] tags=["solution"]',
        'return F.layer_norm(x, x.shape[-1:])\n        ### END SOLUTION\n\n\n# %% [markdown] tags=["solution"]',
    ),
    Bug(
        "the eps of PyTorch",
        "BERT's norms have 1e-12, not nn.LayerNorm's default of 1e-5.",
        "self.embedding_norm = nn.LayerNorm(d_model, EPS, device=device, dtype=dtype)",
        "self.embedding_norm = nn.LayerNorm(d_model, device=device, dtype=dtype)",
    ),
    Bug(
        "relu instead of gelu",
        "BERT has GELU.",
        "return self.fc2(self.dropout(F.gelu(self.fc1(x))))",
        "return self.fc2(self.dropout(F.relu(self.fc1(x))))",
    ),
    Bug(
        "a position table that is not a parameter",
        "learned positions are learned: a tensor kept as a plain attribute never is.",
        "self.position_embedding = nn.Embedding(max_len, d_model, device=device, dtype=dtype)",
        'self.position_embedding = type("Table", (), {"weight": torch.randn(max_len, d_model, device=device, dtype=dtype)})()',  # noqa: E501
    ),
    Bug(
        "dropout in evaluation mode too",
        "dropout is noise for training; what is evaluated must not depend on chance.",
        "x = self.dropout(self.embedding_norm(x))",
        "x = F.dropout(self.embedding_norm(x), self.dropout.p)",
    ),
    Bug(
        "longer sequences are not refused",
        "what an index finds outside the table, an IndexError or a shape that does not fit, tells the caller nothing.",
        "if seq > self.max_len:",
        "if False:",
    ),
]

EQUIVALENT = (*attending.EQUIVALENT,)
