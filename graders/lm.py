"""What `TransformerLM` must do. The oracle is made of torch's parts and complex numbers in float64, head by head."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo import attending
from dojo.attending import Attention, library, normalised_last, stage_by_stage, very_large_scores, weights
from dojo.bugs import Bug, Equivalent
from dojo.contract import NormedContract, core, robust
from dojo.expect import Call, Draw, fail, parameters_are, refuses, tensor
from dojo.formulas import (
    Gated,
    Norm,
    Turn,
    causal_self_attention,
    library_rms_norm,
    library_swiglu,
    rms_norm,
    swiglu,
    turned,
    turned_by_float32_angles,
    under,
)
from dojo.judge.proxy import Attempt
from dojo.rule import Formula


def model(attend: Attention, turn: Turn, norm: Norm, gated: Gated) -> Formula:
    """A language model of these parts."""

    def formula(init: dict, params: dict, token_ids: Tensor) -> Tensor:
        eps, theta = init.get("eps", 1e-5), init.get("theta", 10000.0)
        x = params["token_embedding.weight"][token_ids.long()]
        for number in range(init["num_layers"]):
            own = under(f"layers.{number}.", params)
            h = norm(x, own["attn_norm.weight"], eps)
            x = x + causal_self_attention(attend, turn, under("attn.", own), h, init["num_heads"], theta)
            x = x + gated(under("ffn.", own), norm(x, own["ffn_norm.weight"], eps))
        return norm(x, params["final_norm.weight"], eps) @ params["lm_head.weight"].mT

    return formula


def call(
    d: Draw, *shape: int, vocab: int = 13, layers: int = 1, heads: int = 3, head_dim: int = 4, d_ff: int = 7,
    longest: int = 11, kv_heads: int | None = None, loud: float = 1.0, ids: Tensor | None = None, **more: float,
) -> Call:  # fmt: skip
    """A call on random tokens; embeddings have standard deviation `loud`."""
    d_model, kv_dim = heads * head_dim, (kv_heads or heads) * head_dim
    init = {
        "vocab_size": vocab,
        "d_model": d_model,
        "num_layers": layers,
        "num_heads": heads,
        "d_ff": d_ff,
        "max_seq_len": longest,
    }
    init |= {"num_kv_heads": kv_heads} if kv_heads else {}
    params = {"token_embedding.weight": d.normal(vocab, d_model, scale=loud)}
    for number in range(layers):
        own = {f"attn.{name}": value for name, value in weights(d, d_model, kv_dim, sharp=1.5).items()}
        own |= {f"{name}_norm.weight": d.uniform(d_model, low=-2, high=2) for name in ("attn", "ffn")}
        own |= {f"ffn.{name}.weight": d.normal(d_ff, d_model, scale=d_model**-0.5) for name in ("w1", "w3")}
        own["ffn.w2.weight"] = d.normal(d_model, d_ff, scale=d_ff**-0.5)
        params |= {f"layers.{number}.{name}": value for name, value in own.items()}
    params["final_norm.weight"] = d.uniform(d_model, low=-2, high=2)
    params["lm_head.weight"] = d.normal(vocab, d_model, scale=d_model**-0.5)
    return Call({"token_ids": d.integers(0, vocab, *shape) if ids is None else ids}, init | more, params)


def far(d: Draw) -> Call:
    """Positions that half precision cannot even count."""
    return call(d, 1, 307, vocab=17, heads=1, head_dim=6, longest=313)


class TestTransformerLM(NormedContract):
    name = "TransformerLM"
    oracle = staticmethod(model(library, turned, library_rms_norm, library_swiglu))
    variants = (
        model(stage_by_stage, turned_by_float32_angles, rms_norm, swiglu),
        model(library, turned_by_float32_angles, library_rms_norm, library_swiglu),
        model(normalised_last, turned, library_rms_norm, swiglu),
    )
    axes = {"token_ids": "batch seq", "result": "batch seq vocab"}
    cases = {
        "one_layer": lambda d: call(d, 2, 5),
        "as_long_as_allowed": lambda d: call(d, 2, 11),
        "two_layers": lambda d: call(d, 2, 5, layers=2),
        "shared_key_heads": lambda d: call(d, 5, 8, heads=6, kv_heads=2),
        "one_key_head": lambda d: call(d, 2, 5, kv_heads=1),
        "another_theta": lambda d: call(d, 2, 5, head_dim=6, theta=50.0),
        "another_eps_and_small_embeddings": lambda d: call(d, 2, 5, loud=0.01, eps=1e-3),
        "the_default_eps_and_small_embeddings": lambda d: call(d, 2, 5, loud=0.003),
        "int32_tokens": lambda d: call(d, ids=d.integers(0, 13, 2, 5, dtype=torch.int32)),
        "the_same_token_again_and_again": lambda d: call(d, ids=torch.tensor([[3, 3, 3, 5, 3], [0, 12, 0, 12, 12]])),
    }
    telling = ("two_layers", "shared_key_heads")
    more_shapes = {
        "one_token": lambda d: call(d, 2, 1),
        "one_entry": lambda d: call(d, 1, 5),
        "a_long_sequence": far,
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5),
        "seq": lambda d, n: call(d, 2, n, longest=20),
        "heads": lambda d, n: call(d, 2, 5, heads=n),
        "heads that share a key head": lambda d, n: call(d, 2, 5, heads=n, kv_heads=1),
        "key heads": lambda d, n: call(d, 2, 5, heads=2 * n, kv_heads=n),
        "width": lambda d, n: call(d, 2, 5, head_dim=2 * n),
        "hidden width": lambda d, n: call(d, 2, 5, d_ff=n),
        "vocabulary": lambda d, n: call(d, 2, 5, vocab=n),
    }
    delicate = staticmethod(far)
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        shaped = call(d, 2, 5)
        loud = {"token_embedding.weight": 300 + d.normal(13, 12)}
        return Call(shaped.inputs, shaped.init, shaped.params | loud)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 2, 64, vocab=211, layers=2, heads=4, head_dim=16, d_ff=96, longest=64)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, heads=6, kv_heads=2, theta=50.0, loud=0.01, eps=1e-3)
        module = getattr(attempt, self.name)(*made.init.values())
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})
        here = self.on_device(attempt, made)
        module.to(attempt.device).load_state_dict({k: v.to(attempt.device) for k, v in made.params.items()})
        got = {"result": module(here.inputs["token_ids"]).detach()}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_a_later_token_changes_no_earlier_logits(self, attempt: Attempt, draw: Draw) -> None:
        made = very_large_scores(call(draw, 2, 7, layers=2))
        module, ids = self.ready(attempt, made), made.inputs["token_ids"]
        changed = ids.clone()
        changed[:, 4:] = (changed[:, 4:] + 1) % 13
        before, after = (tensor(module(each.to(attempt.device)), attempt.device).detach() for each in (ids, changed))
        if before.shape != after.shape or not torch.allclose(before[:, :4], after[:, :4], atol=1e-4):
            fail("the model is causal", "tokens 4 to 6 changed the logits of tokens 0 to 3")

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        module = self.ready(attempt, call(draw, 2, 5))
        for seq in (12, 17):
            ids = draw.integers(0, 13, 2, seq).to(attempt.device)
            refuses(lambda ids=ids: module(ids), seq, sentence="seq > max_seq_len is a ValueError")


BUGS = [
    Bug(
        "norm weights start as zeros",
        "a norm starts as the plain norm: with weights of 0 nothing passes through it, and training starts blind.",
        "self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))",
    ),
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
        "queries and keys turn the same way.",
        "q = rotate(q, cos, sin)",
        "q = rotate(q, cos, -sin)",
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
        "the diagonal of the mask belongs to the token itself: position t sees 0 … t, and t + 1 is the answer.",
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        "heads = F.scaled_dot_product_attention(q, k, v, q.new_ones(q.shape[-2], q.shape[-2]).tril(1).bool(), enable_gqa=True)",  # noqa: E501
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
        "no final norm",
        "a pre-norm model normalises once more before the head.",
        "return self.lm_head(self.final_norm(x))",
        "return self.lm_head(x + 0 * self.final_norm(x))",
    ),
    Bug(
        "head tied to the embedding",
        "lm_head has a weight of its own here.",
        "return self.lm_head(self.final_norm(x))",
        "return F.linear(self.final_norm(x), self.token_embedding.weight + 0 * self.lm_head.weight)",
    ),
    Bug(
        "softmax on the logits",
        "the model gives logits; the loss takes the softmax.",
        "return self.lm_head(self.final_norm(x))",
        "return torch.softmax(self.lm_head(self.final_norm(x)).float(), -1).to(x.dtype)",
    ),
    Bug(
        "post-norm blocks",
        "Llama is pre-norm: the branch reads the norm, the residual stream is left alone.",
        "x = x + self.attn(self.attn_norm(x), cos, sin)",
        "x = self.attn_norm(x + self.attn(x, cos, sin))",
    ),
    Bug(
        "no residual around attention",
        "each branch is added to its input.",
        "x = x + self.attn(self.attn_norm(x), cos, sin)",
        "x = self.attn(self.attn_norm(x), cos, sin)",
    ),
    Bug(
        "no residual around the feed-forward layer",
        "each branch is added to its input.",
        "x = x + self.ffn(self.ffn_norm(x))",
        "x = self.ffn(self.ffn_norm(x))",
    ),
    Bug(
        "both branches read the input of the block",
        "that is the parallel block of GPT-J; here the feed-forward layer reads what attention made of the input.",
        "x = x + self.attn(self.attn_norm(x), cos, sin)",
        "x = x + self.attn(self.attn_norm(x), cos, sin) + self.ffn(self.ffn_norm(x)); return x",
    ),
    Bug(
        "the gate on the wrong branch",
        "silu acts on w1 x, and w3 x is what it gates.",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(self.w1(x) * F.silu(self.w3(x)))",
    ),
    Bug(
        "eps fixed at 1e-5",
        "eps is an argument; checkpoints differ in it.",
        "return (wide * torch.rsqrt(mean_square + self.eps) * self.weight).to(x.dtype)",
        "return (wide * torch.rsqrt(mean_square + 1e-5) * self.weight).to(x.dtype)",
    ),
    Bug(
        "squares in half precision",
        "the square of 300 is beyond the largest float16, 65,504.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "mean_square = x.square().mean(dim=-1, keepdim=True)",
    ),
    Bug(
        "positions counted from 1 for queries alone",
        "queries and keys must be numbered alike, or every distance is off by one.",
        "q = rotate(q, cos, sin)",
        "q = rotate(rotate(q, cos, sin), cos[1:2], sin[1:2]) if q.shape[-2] > 1 else rotate(q, cos, sin)",
    ),
    Bug(
        "longer sequences are not refused",
        "behind max_seq_len there is no row in the tables.",
        "if seq > self.max_seq_len:",
        "if seq < 0:",
    ),
    Bug(
        "the longest sequence is refused",
        "max_seq_len tokens are allowed.",
        "if seq > self.max_seq_len:",
        "if seq >= self.max_seq_len:",
    ),
    Bug(
        "tables persistent",
        "a persistent buffer shows in the state dict, which then fits no other implementation.",
        "self.cos = angles.cos().to(device)",
        'self.register_buffer("cos", angles.cos().to(device))',
    ),
    Bug(
        "tables cast with the module",
        "a buffer is rounded by module.to(bfloat16).",
        "self.sin = angles.sin().to(device)",
        'self.register_buffer("sin", angles.sin().to(device), persistent=False)',
    ),
]

EQUIVALENT = (
    *attending.EQUIVALENT,
    *attending.ROTATING_EQUIVALENT,
    Equivalent(r"if .*(heads|head_dim).*→", "head counts that do not divide are not graded: the contract names none."),
    Equivalent(r"raise ValueError.*(heads|odd).*→", "head counts that do not divide are not graded."),
    Equivalent(r"token_ids\.shape\[-1\].*→.*shape\[1\]", "axis 1 of two is the last."),
    Equivalent(r"positions = torch.arange\(seq.*→", "indices of the CPU may index on any device."),
)
