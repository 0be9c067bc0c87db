"""What each solution is measured against: the best PyTorch that is published and installs here, on the same work.

An entry makes that work at a size: the solution's call, the peer's, and the inputs of both. Where no library has the
operation, its best form is written out here. `REASONS` says why a solution is slower, or takes more, on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_FUSED = "the peer is one fused kernel, and the kata is to write it out"
_SCORES = "the peer's attention is a fused kernel, and the kata holds scores and weights in memory"
REASONS: dict[str, str] = {
    **dict.fromkeys(["softmax", "sigmoid", "silu", "gelu", "RMSNorm", "LayerNorm"], _FUSED),
    "Linear": "at few tokens a module's own dispatch counts",
    "Embedding": "F.embedding is what is asked for; indexing copies row by row",
    "SinusoidalPositions": "one addition; a module's own dispatch counts",
    "LearnedPositions": "one addition; a module's own dispatch counts",
    "RoPEComplex": "torch.complex copies, and takes any layout; a view of pairs fails at an odd storage offset",
    "causal_mask": "three small operations for one, on half of the bytes",
    "FeedForward": "at few tokens a module's own dispatch counts",
    "SwiGLU": "at few tokens a module's own dispatch counts",
    **dict.fromkeys(["scaled_dot_product_attention", "MultiHeadAttention", "MultiQueryAttention"], _SCORES),
    **dict.fromkeys(["GroupedQueryAttention", "CausalSelfAttention", "PreNormBlock", "PostNormBlock"], _SCORES),
    **dict.fromkeys(["EncoderLayer", "DecoderLayer", "TransformerEncoder", "Seq2SeqTransformer"], _SCORES),
    **dict.fromkeys(
        ["CachedAttention", "attention_with_sinks", "MultiHeadLatentAttention", "paged_attention"], _SCORES
    ),
    **dict.fromkeys(["flash_attention", "attention_backward", "cross_entropy", "BatchNorm", "conv2d"], _FUSED),
    "window_mask": "three comparisons, spelled out, for one triangle less another",
    "KVCache": "microseconds: a view and its bounds",
    "LossScaler": "the peer is one kernel, which is what is to be written out",
    "linear_cross_entropy": "the peer writes chunks and sums into buffers of one dtype; ours are made anew",
    "AdamW": "the peer is foreach, which takes all parameters in one kernel",
    **dict.fromkeys(["clip_by_global_norm", "accumulate_gradients"], "the peer is foreach, whose norm is private"),
    "average_gradients": "microseconds: the plan of buckets, which its peer has not",
    "clip_loss": "small tensors, and casts that half precision needs",
    **dict.fromkeys(["ppo_loss", "value_loss", "grpo_loss"], "one `where` more, so that padding may hold nan"),
    "dropout": "a `where`, so that what is dropped is 0 even where x is infinite",
    **dict.fromkeys(
        ["group_advantages", "route", "dpo_loss", "kl_estimates", "reward_loss"], "casts that half precision needs"
    ),
    "kl_exact": "one `where` more, so that a token of probability 0 adds 0",
    "balance_loss": "bincount waits for the device, and scatter_add does not",
    "MixtureOfExperts": "tokens are found expert by expert, as Mixtral has it; sorting is the explanation's other form",
    "lm_loss": "microseconds at few tokens: labels are shifted in here",
    "quantize": "the peer is one fused kernel; here quotients are made, then rounded, then cast",
    "dequantize": "at few rows the views of groups count",
    "int8_linear": "x is quantized by the kata's own function, which makes quotients",
    "loss": "microseconds: the penalty, and labels whose shape is checked and dtype cast",
    "distillation_loss": "microseconds at few tokens: casts, and a `where` for what is ignored",
}


class Work(NamedTuple):
    """Two callables that do the same with these inputs; `alike` where their values can be held against each other."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    inputs: tuple[Any, ...] = ()
    alike: bool = True


class Peer(NamedTuple):
    """What a solution's callable is measured against, in words, and the work at a size."""

    kata: str
    name: str
    beside: str
    sizes: tuple[int, int, int, int]
    make: Callable[[ModuleType, int], Work]
    backward: bool


PEERS: list[Peer] = []
TOKENS, LENGTHS = (16, 64, 256, 1024), (32, 64, 128, 256)


def peer(
    kata: str, beside: str, sizes: tuple[int, int, int, int] = TOKENS, backward: bool = True
) -> Callable[[Callable], Callable]:
    """Make a function of the solution's module and a size the entry of the callable that it is named after."""

    def enter(make: Callable[[ModuleType, int], Work]) -> Callable[[ModuleType, int], Work]:
        PEERS.append(Peer(kata, make.__name__, beside, sizes, make, backward))
        return make

    return enter


def weights(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters())


def heads(x: Tensor, size: int) -> Tensor:
    return x.unflatten(-1, (-1, size)).transpose(-3, -2)


def attention(
    w: dict[str, Tensor],
    at: str,
    size: int,
    x: Tensor,
    source: Tensor | None = None,
    turns: Tensor | None = None,
    **how: Any,
) -> Tensor:
    """Attention by PyTorch's fused kernel, with the weights under this name; heads of this size, rotated by `turns`."""
    source = x if source is None else source
    q, k, v = (
        heads(F.linear(y, w[f"{at}{name}.weight"], w.get(f"{at}{name}.bias")), size)
        for name, y in (("q_proj", x), ("k_proj", source), ("v_proj", source))
    )
    if turns is not None:
        q, k = turned(q, turns), turned(k, turns)
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **how).transpose(-3, -2).flatten(-2)
    return F.linear(out, w[f"{at}o_proj.weight"], w.get(f"{at}o_proj.bias"))


def swiglu(w: dict[str, Tensor], at: str, x: Tensor) -> Tensor:
    return F.linear(F.silu(F.linear(x, w[f"{at}w1.weight"])) * F.linear(x, w[f"{at}w3.weight"]), w[f"{at}w2.weight"])


def gelu_ffn(w: dict[str, Tensor], at: str, x: Tensor) -> Tensor:
    hidden = F.gelu(F.linear(x, w[f"{at}fc1.weight"], w[f"{at}fc1.bias"]))
    return F.linear(hidden, w[f"{at}fc2.weight"], w[f"{at}fc2.bias"])


def rms(w: dict[str, Tensor], at: str, x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], w[f"{at}.weight"], 1e-5)


def norm(w: dict[str, Tensor], at: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w[f"{at}.weight"], w[f"{at}.bias"], 1e-12)


def pre_norm(w: dict[str, Tensor], size: int, x: Tensor) -> Tensor:
    x = x + attention(w, "attn.", size, rms(w, "attn_norm", x))
    return x + swiglu(w, "ffn.", rms(w, "ffn_norm", x))


def encoder_layer(w: dict[str, Tensor], at: str, size: int, x: Tensor) -> Tensor:
    x = norm(w, f"{at}attn_norm", x + attention(w, f"{at}self_attn.", size, x))
    return norm(w, f"{at}ffn_norm", x + gelu_ffn(w, f"{at}ffn.", x))


def decoder_layer(w: dict[str, Tensor], at: str, size: int, x: Tensor, memory: Tensor) -> Tensor:
    x = norm(w, f"{at}self_attn_norm", x + attention(w, f"{at}self_attn.", size, x, is_causal=True))
    x = norm(w, f"{at}cross_attn_norm", x + attention(w, f"{at}cross_attn.", size, x, memory))
    return norm(w, f"{at}ffn_norm", x + gelu_ffn(w, f"{at}ffn.", x))


def turns_of(size: int, length: int) -> Tensor:
    """exp(i · angle) of each position and pair, as Llama keeps it."""
    frequency = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequency)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """RoPE as Llama's own code has it."""
    return torch.view_as_real(torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * turns).flatten(-2).type_as(x)


def ids(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape)


def masked_mean(losses: Tensor, mask: Tensor) -> Tensor:
    return (losses * mask).sum() / mask.sum().clamp(min=1)


@peer("linear", "F.linear")
def Linear(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.Linear(512, 512)
    return Work(ours, lambda x: F.linear(x, ours.weight), (torch.randn(n, 512),))


@peer("embedding", "F.embedding")
def Embedding(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.Embedding(4096, 256)
    return Work(ours, lambda i: F.embedding(i, ours.weight), (ids(4096, n),))


@peer("rmsnorm", "F.rms_norm")
def RMSNorm(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.RMSNorm(1024)
    return Work(ours, lambda x: F.rms_norm(x, (1024,), ours.weight, 1e-5), (torch.randn(n, 1024),))


@peer("layernorm", "F.layer_norm")
def LayerNorm(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.LayerNorm(1024)
    return Work(ours, lambda x: F.layer_norm(x, (1024,), ours.weight, ours.bias), (torch.randn(n, 1024),))


@peer("softmax", "torch.softmax")
def softmax(m: ModuleType, n: int) -> Work:
    return Work(m.softmax, lambda x: torch.softmax(x, -1), (torch.randn(n, 1024),))


@peer("dropout", "a product with the mask")
def dropout(m: ModuleType, n: int) -> Work:
    drawn = torch.rand(n, 1024)
    return Work(lambda x: m.dropout(x, drawn), lambda x: x * (drawn >= 0.5) * 2.0, (torch.randn(n, 1024),))


@peer("activations", "torch.sigmoid")
def sigmoid(m: ModuleType, n: int) -> Work:
    return Work(m.sigmoid, torch.sigmoid, (torch.randn(n, 1024),))


@peer("activations", "F.silu")
def silu(m: ModuleType, n: int) -> Work:
    return Work(m.silu, F.silu, (torch.randn(n, 1024),))


@peer("activations", "F.gelu")
def gelu(m: ModuleType, n: int) -> Work:
    return Work(m.gelu, F.gelu, (torch.randn(n, 1024),))


@peer("absolute_positions", "x + table[:n], the table in x's dtype", LENGTHS)
def SinusoidalPositions(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.SinusoidalPositions(512, 256)
    table = ours(torch.zeros(512, 256))
    return Work(ours, lambda x: x + table[:n], (torch.randn(4, n, 256),))


@peer("absolute_positions", "x + weight[:n]", LENGTHS)
def LearnedPositions(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.LearnedPositions(512, 256)
    return Work(ours, lambda x: x + ours.weight[:n], (torch.randn(4, n, 256),))


@peer("alibi", "the slopes times the distance, as MPT makes them", LENGTHS, backward=False)
def alibi_bias(m: ModuleType, n: int) -> Work:
    def mpt() -> Tensor:
        place, slopes = torch.arange(n), 2.0 ** -torch.arange(1.0, 9.0)
        return -(place[:, None] - place).abs() * slopes[:, None, None]

    return Work(lambda: m.alibi_bias(8, n), mpt)


@peer("rope", "stacked halves, as torchtune rotates", LENGTHS)
def RoPEReal(m: ModuleType, n: int) -> Work:  # noqa: N802
    table = torch.view_as_real(turns_of(64, 512))

    def torchtune(x: Tensor, positions: Tensor) -> Tensor:
        x, turns = x.float().unflatten(-1, (-1, 2)), table[positions]
        real = x[..., 0] * turns[..., 0] - x[..., 1] * turns[..., 1]
        return torch.stack([real, x[..., 1] * turns[..., 0] + x[..., 0] * turns[..., 1]], -1).flatten(-2).type_as(x)

    return Work(m.RoPEReal(64, 512), torchtune, (torch.randn(2, 8, n, 64), torch.arange(n)))


@peer("rope", "complex products, as Llama and torchtitan rotate", LENGTHS)
def RoPEComplex(m: ModuleType, n: int) -> Work:  # noqa: N802
    table = turns_of(64, 512)
    inputs = (torch.randn(2, 8, n, 64), torch.arange(n))
    return Work(m.RoPEComplex(64, 512), lambda x, positions: turned(x, table[positions]), inputs)


@peer("rope_scaling", "float32 throughout, as transformers computes it", LENGTHS, backward=False)
def ntk_frequencies(m: ModuleType, n: int) -> Work:
    def transformers() -> Tensor:
        return 1.0 / (10000.0 * 4.0 ** (n / (n - 2))) ** (torch.arange(0, n, 2).float() / n)

    return Work(lambda: m.ntk_frequencies(n, 10000.0, 4.0), transformers)


@peer("rope_scaling", "transformers", LENGTHS, backward=False)
def llama3_frequencies(m: ModuleType, n: int) -> Work:
    more = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return Work(lambda: m.llama3_frequencies(n, 10000.0, 8.0, 8192), scaled("llama3", n, 8.0, 8192, **more))


@peer("rope_scaling", "transformers", LENGTHS, backward=False)
def yarn_frequencies(m: ModuleType, n: int) -> Work:
    return Work(lambda: m.yarn_frequencies(n, 10000.0, 4.0, 4096), scaled("yarn", n, 4.0, 4096))


def scaled(kind: str, size: int, factor: float, length: int, **more: float) -> Callable[[], Any]:
    """The frequencies that transformers makes by one of its recipes."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    recipe = {"rope_type": kind, "rope_theta": 10000.0, "factor": factor, "original_max_position_embeddings": length}
    config = LlamaConfig(head_dim=size, max_position_embeddings=int(factor * length), rope_parameters=recipe | more)
    make = ROPE_INIT_FUNCTIONS[kind]
    return lambda: make(config, torch.device("cpu"))[slice(2) if kind == "yarn" else 0]


@peer("causal_mask", "torch.ones(n, n).tril()", LENGTHS, backward=False)
def causal_mask(m: ModuleType, n: int) -> Work:
    return Work(lambda: m.causal_mask(n), lambda: torch.ones(n, n, dtype=torch.bool).tril())


@peer("window_attention", "two triangles of torch.ones", LENGTHS, backward=False)
def window_mask(m: ModuleType, n: int) -> Work:
    def triangles() -> Tensor:
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        mask[:, 4:] &= torch.ones(n, n - 4, dtype=torch.bool).triu(4 - 15)
        return mask

    return Work(lambda: m.window_mask(n, window=16, sinks=4), triangles)


@peer("window_attention", "F.scaled_dot_product_attention with a key of zeros for the sink", LENGTHS)
def attention_with_sinks(m: ModuleType, n: int) -> Work:
    def fused(q: Tensor, k: Tensor, v: Tensor, sink: Tensor, mask: Tensor) -> Tensor:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        bias = torch.zeros(n, n).masked_fill(~mask, -torch.inf).expand(1, 8, n, n)
        bias = torch.cat([bias, sink[:, None, None].expand(1, 8, n, 1)], -1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    q, k, v = torch.randn(3, 1, 8, n, 64)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return Work(m.attention_with_sinks, fused, (q, k, v, torch.randn(8), mask))


@peer("sdpa", "F.scaled_dot_product_attention", LENGTHS)
def scaled_dot_product_attention(m: ModuleType, n: int) -> Work:
    q, k, v = torch.randn(3, 1, 8, n, 64)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return Work(m.scaled_dot_product_attention, F.scaled_dot_product_attention, (q, k, v, mask))


@peer("flash_attention", "PyTorch's own flash attention for the CPU", LENGTHS)
def flash_attention(m: ModuleType, n: int) -> Work:
    q, k, v = torch.randn(3, 1, 8, n, 64)
    theirs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return Work(lambda q, k, v: m.flash_attention(q, k, v, True), lambda *t: theirs(*t, 0.0, True), (q, k, v))


@peer("attention_backward", "the backward of PyTorch's own flash attention for the CPU", LENGTHS, backward=False)
def attention_backward(m: ModuleType, n: int) -> Work:
    q, k, v, grad = torch.randn(4, 1, 8, n, 64)
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    back = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    ours = lambda q, k, v, out, lse, grad: m.attention_backward(q, k, v, out, lse, grad, True)  # noqa: E731
    theirs = lambda q, k, v, out, lse, grad: back(grad, q, k, v, out, lse, 0.0, True)  # noqa: E731
    return Work(ours, theirs, (q, k, v, out, lse, grad))


def fused_heads(ours: nn.Module, n: int, **how: Any) -> Work:
    w = weights(ours)
    return Work(ours, lambda x: attention(w, "", 32, x, **how), (torch.randn(2, n, 256),))


@peer("mha", "F.scaled_dot_product_attention between F.linear", LENGTHS)
def MultiHeadAttention(m: ModuleType, n: int) -> Work:  # noqa: N802
    return fused_heads(m.MultiHeadAttention(256, 8), n)


@peer("mqa", "F.scaled_dot_product_attention between F.linear", LENGTHS)
def MultiQueryAttention(m: ModuleType, n: int) -> Work:  # noqa: N802
    return fused_heads(m.MultiQueryAttention(256, 8), n)


@peer("gqa", "F.scaled_dot_product_attention between F.linear", LENGTHS)
def GroupedQueryAttention(m: ModuleType, n: int) -> Work:  # noqa: N802
    return fused_heads(m.GroupedQueryAttention(256, 8, 2), n)


@peer("causal_attention", "F.scaled_dot_product_attention and complex RoPE between F.linear", LENGTHS)
def CausalSelfAttention(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.CausalSelfAttention(256, 8, 512, num_kv_heads=2)
    return fused_heads(ours, n, turns=turns_of(32, n), is_causal=True)


@peer("kv_cache", "F.scaled_dot_product_attention and complex RoPE between F.linear", LENGTHS)
def CachedAttention(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.CachedAttention(256, 8, 512, num_kv_heads=2)
    return fused_heads(ours, n, turns=turns_of(32, n), is_causal=True)


@peer("kv_cache", "one token copied into room that is there", LENGTHS, backward=False)
def KVCache(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours, room = m.KVCache(1, 8, n + 1, 64), torch.zeros(2, 1, 8, n + 1, 64)
    ours.append(*torch.zeros(2, 1, 8, n, 64))

    def append(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        ours.truncate(n)
        return ours.append(k, v)

    def written(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        room[0, :, :, n : n + 1].copy_(k)
        room[1, :, :, n : n + 1].copy_(v)
        return room[0], room[1]

    return Work(append, written, tuple(torch.randn(2, 1, 8, 1, 64)))


@peer("gelu_ffn", "F.gelu between F.linear")
def FeedForward(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.FeedForward(256, 1024)
    return Work(ours, lambda x: gelu_ffn(weights(ours), "", x), (torch.randn(n, 256),))


@peer("swiglu", "F.silu and a product between F.linear")
def SwiGLU(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.SwiGLU(256, 704)
    return Work(ours, lambda x: swiglu(weights(ours), "", x), (torch.randn(n, 256),))


@peer("block", "F.rms_norm, fused attention and F.linear", LENGTHS)
def PreNormBlock(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.PreNormBlock(256, 8, 704)
    w = weights(ours)

    return Work(ours, lambda x: pre_norm(w, 32, x), (torch.randn(2, n, 256),))


@peer("block", "F.rms_norm, fused attention and F.linear", LENGTHS)
def PostNormBlock(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.PostNormBlock(256, 8, 704)
    w = weights(ours)

    def theirs(x: Tensor) -> Tensor:
        x = rms(w, "attn_norm", x + attention(w, "attn.", 32, x))
        return rms(w, "ffn_norm", x + swiglu(w, "ffn.", x))

    return Work(ours, theirs, (torch.randn(2, n, 256),))


@peer("encoder_layer", "F.layer_norm, fused attention and F.linear", LENGTHS)
def EncoderLayer(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.EncoderLayer(256, 8, 1024)
    return Work(ours, lambda x: encoder_layer(weights(ours), "", 32, x), (torch.randn(2, n, 256),))


@peer("decoder_layer", "F.layer_norm, fused attention and F.linear", LENGTHS)
def DecoderLayer(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.DecoderLayer(256, 8, 1024)
    inputs = (torch.randn(2, n, 256), torch.randn(2, 64, 256))
    return Work(ours, lambda x, memory: decoder_layer(weights(ours), "", 32, x, memory), inputs)


@peer("encoder", "F.layer_norm, fused attention and F.linear", LENGTHS)
def TransformerEncoder(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.TransformerEncoder(1024, 256, 2, 8, 1024, 512)
    w = weights(ours)

    def theirs(i: Tensor) -> Tensor:
        x = F.embedding(i, w["token_embedding.weight"]) + w["position_embedding.weight"][:n]
        x = norm(w, "embedding_norm", x)
        for layer in range(2):
            x = encoder_layer(w, f"layers.{layer}.", 32, x)
        return x

    return Work(ours, theirs, (ids(1024, 2, n),))


@peer("lm", "transformers' LlamaForCausalLM", LENGTHS)
def TransformerLM(m: ModuleType, n: int) -> Work:  # noqa: N802
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=1024, hidden_size=256, intermediate_size=704, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=512, use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip
    llama = LlamaForCausalLM(config)
    ours = m.TransformerLM(1024, 256, 2, 8, 704, 512, num_kv_heads=2)
    return Work(ours, Logits(llama), (ids(1024, 2, n),), alike=False)


@peer("gpt2", "transformers' GPT2LMHeadModel", LENGTHS)
def GPT2(m: ModuleType, n: int) -> Work:  # noqa: N802
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=1024, n_positions=512, n_embd=256, n_layer=2, n_head=8, use_cache=False, attn_implementation="sdpa",
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    theirs, ours = GPT2LMHeadModel(config).eval(), m.GPT2(1024, 512, 256, 2, 8)
    ours.load_state_dict(theirs.state_dict())
    return Work(ours, Logits(theirs), (ids(1024, 2, n),))


class Logits(nn.Module):
    """A model of transformers that gives its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, token_ids: Tensor) -> Tensor:
        return self.model(token_ids).logits


@peer("seq2seq", "F.layer_norm, fused attention and F.linear", LENGTHS)
def Seq2SeqTransformer(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.Seq2SeqTransformer(1024, 1024, 256, 1, 8, 1024, 512)
    w, table = weights(ours), ours.table.float()

    def theirs(source: Tensor, target: Tensor) -> Tensor:
        memory = F.embedding(source, w["src_embedding.weight"]) * 16 + table[:n]
        memory = encoder_layer(w, "encoder_layers.0.", 32, memory)
        x = F.embedding(target, w["tgt_embedding.weight"]) * 16 + table[:n]
        return F.linear(decoder_layer(w, "decoder_layers.0.", 32, x, memory), w["lm_head.weight"])

    return Work(ours, theirs, (ids(1024, 2, n), ids(1024, 2, n)))


@peer("cross_entropy", "F.cross_entropy")
def cross_entropy(m: ModuleType, n: int) -> Work:
    return Work(m.cross_entropy, F.cross_entropy, (torch.randn(n, 2048), ids(2048, n)))


def backward_of(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor | None, ...]]:
    """The gradients of what a function gives, its forward included."""

    def run(*inputs: Tensor) -> tuple[Tensor | None, ...]:
        leaves = [each.detach().requires_grad_() for each in inputs]
        with torch.enable_grad():
            function(*leaves).sum().backward()
        return tuple(each.grad for each in leaves)

    return run


@peer("linear_cross_entropy", "F.linear_cross_entropy in chunks, forward and backward", LENGTHS, backward=False)
def linear_cross_entropy(m: ModuleType, n: int) -> Work:
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=32)

    targets = ids(4096, n)

    def ours(hidden: Tensor, weight: Tensor) -> Tensor:
        return m.linear_cross_entropy(hidden, weight, targets, chunk_size=32)

    def theirs(hidden: Tensor, weight: Tensor) -> Tensor:
        return F.linear_cross_entropy(hidden, weight, targets, options=options)

    return Work(backward_of(ours), backward_of(theirs), (torch.randn(n, 128), torch.randn(4096, 128) / 11))


@peer("lm_loss", "F.cross_entropy with ignore_index", LENGTHS)
def lm_loss(m: ModuleType, n: int) -> Work:
    def theirs(logits: Tensor, token_ids: Tensor, mask: Tensor) -> Tensor:
        labels = token_ids.masked_fill(~mask, -100)[:, 1:]
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels.flatten())

    return Work(m.lm_loss, theirs, (torch.randn(4, n, 1024), ids(1024, 4, n), torch.rand(4, n) < 0.5))


@peer("sampling", "transformers' logits processors", backward=False)
def next_token_logprobs(m: ModuleType, n: int) -> Work:
    from transformers.generation import logits_process as by

    chain = (by.TemperatureLogitsWarper(0.9), by.TopKLogitsWarper(50), by.TopPLogitsWarper(0.9))
    theirs = by.LogitsProcessorList([*chain, by.MinPLogitsWarper(0.02)])
    ours = lambda logits: m.next_token_logprobs(logits, 0.9, 50, 0.9, 0.02)  # noqa: E731
    return Work(ours, lambda logits: theirs(None, logits).log_softmax(-1), (torch.randn(n, 2048),))


@peer("sampling", "torch.searchsorted in the cumulative sum", backward=False)
def sample(m: ModuleType, n: int) -> Work:
    def theirs(logprobs: Tensor, uniform: Tensor) -> Tensor:
        return torch.searchsorted(logprobs.exp().cumsum(-1), uniform[:, None], right=True)[:, 0]

    return Work(m.sample, theirs, (torch.randn(n, 2048).log_softmax(-1), 0.99 * torch.rand(n)))


@peer("speculative", "the same tensors without a look at their values", backward=False)
def speculative_verify(m: ModuleType, n: int) -> Work:
    def theirs(tokens: Tensor, q: Tensor, p: Tensor, accept: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        taken = tokens[..., None]
        fits = accept * q.gather(-1, taken)[..., 0] < p[:, :-1].gather(-1, taken)[..., 0]
        count, rows = fits.cumprod(-1).sum(-1), torch.arange(n)
        rest = p[rows, count]
        rest = torch.where(count[:, None] < 4, (rest - q[rows, count.clamp(max=3)]).clamp_min(0), rest)
        total = rest.cumsum(-1)
        drawn = torch.searchsorted(total, uniform[:, None] * total[:, -1:], right=True)
        places = torch.arange(5)
        found = torch.where(places < count[:, None], F.pad(tokens, (0, 1)), -1)
        return torch.where(places == count[:, None], drawn, found), count + 1

    q, p = torch.randn(n, 4, 1024).softmax(-1), torch.randn(n, 5, 1024).softmax(-1)
    return Work(m.speculative_verify, theirs, (ids(1024, n, 4), q, p, torch.rand(n, 4), 0.99 * torch.rand(n)))


@peer("data_loader", "torch.stack of slices of the stream, as in nanoGPT", LENGTHS, backward=False)
def DataLoader(m: ModuleType, n: int) -> Work:  # noqa: N802
    tokens = ids(50257, 1 << 20).to(torch.int32)
    ours, order = m.DataLoader(tokens, 16, n, 0), iter(torch.randperm((1 << 20) // n - 1).repeat(1000).split(16))

    def theirs() -> tuple[Tensor, ...]:
        starts = [int(row) * n for row in next(order)]
        return tuple(torch.stack([tokens[at + i : at + i + n].long() for i in starts]) for at in (0, 1))

    return Work(lambda: next(ours), theirs, alike=False)


def with_gradients(*shapes: tuple[int, ...]) -> list[nn.Parameter]:
    """Parameters of these shapes after a backward."""
    found = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    for each in found:
        each.grad = torch.randn_like(each)
    return found


def optimised(ours: type[torch.optim.Optimizer], *shapes: tuple[int, ...]) -> Work:
    """A step of AdamW beside that of PyTorch, each on parameters of its own."""
    theirs = torch.optim.AdamW(with_gradients(*shapes), foreach=True)
    return Work(ours(with_gradients(*shapes)).step, theirs.step, alike=False)


@peer("adamw", "torch.optim.AdamW(foreach=True)", LENGTHS, backward=False)
def AdamW(m: ModuleType, n: int) -> Work:  # noqa: N802
    return optimised(m.AdamW, *[(n, n)] * 8)


@peer("checkpointing", "torch.utils.checkpoint without reentrance, forward and backward", LENGTHS, backward=False)
def checkpoint(m: ModuleType, n: int) -> Work:
    from torch.utils.checkpoint import checkpoint as library

    weight = torch.randn(256, 256) / 16

    def block(x: Tensor) -> Tensor:
        for _ in range(4):
            x = torch.tanh(x @ weight)
        return x

    ours, theirs = partial(m.checkpoint, block), partial(library, block, use_reentrant=False)
    return Work(backward_of(ours), backward_of(theirs), (torch.randn(n, 256),))


@peer("mixed_precision", "torch.amp.GradScaler, which has a kernel of its own", LENGTHS, backward=False)
def LossScaler(m: ModuleType, n: int) -> Work:  # noqa: N802
    def stepping(scaler: Any) -> Callable[[], Any]:
        optimizer = torch.optim.SGD(with_gradients(*[(n, n)] * 8), lr=0.0)

        def step() -> None:
            scaler.scale(torch.ones(()))
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()

        return step

    return Work(stepping(m.LossScaler(1.0)), stepping(torch.amp.GradScaler("cpu", init_scale=1.0)), alike=False)


@peer("gradients", "torch._foreach_norm and torch._foreach_mul, as clip_grad_norm_ has them", LENGTHS, backward=False)
def clip_by_global_norm(m: ModuleType, n: int) -> Work:
    def theirs(grads: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        return torch._foreach_mul(grads, (1.0 / (total + 1e-6)).clamp(max=1.0)), total

    return Work(lambda grads: m.clip_by_global_norm(grads, 1.0), theirs, ([torch.randn(n, n) for _ in range(8)],))


@peer("gradients", "torch._foreach_mul and torch._foreach_add_", LENGTHS, backward=False)
def accumulate_gradients(m: ModuleType, n: int) -> Work:
    def theirs(grads: list[list[Tensor]]) -> list[Tensor]:
        total = torch._foreach_mul(grads[0], 0.25)
        for each in grads[1:]:
            torch._foreach_add_(total, each, alpha=0.25)
        return total

    grads = [[torch.randn(n, n) for _ in range(4)] for _ in range(4)]
    return Work(lambda grads: m.accumulate_gradients(grads, [3, 3, 3, 3]), theirs, (grads,))


class Two:
    """A group of two ranks, of which the other brings what this one does."""

    rank, size = 0, 2

    def all_reduce(self, x: Tensor) -> Tensor:
        return x.detach() * 2


@peer("ddp", "coalesced by torch's helpers and copied back, as Megatron-LM has it", LENGTHS, backward=False)
def average_gradients(m: ModuleType, n: int) -> Work:
    def megatron(params: list[nn.Parameter], group: Two, num_tokens: int) -> None:
        grads = [each.grad for each in params if each.grad is not None]
        count = torch.tensor([num_tokens], dtype=torch.float32)
        flat = torch._utils._flatten_dense_tensors(grads)
        flat *= count / group.all_reduce(count)
        for grad, part in zip(grads, torch._utils._unflatten_dense_tensors(group.all_reduce(flat), grads), strict=True):
            grad.copy_(part)

    def averaging(average: Callable[..., None]) -> Callable[[], None]:
        found = with_gradients(*[(n, n)] * 8)
        return lambda: average(found, Two(), 3)

    return Work(averaging(m.average_gradients), averaging(megatron), alike=False)


@peer("tensor_parallel", "F.linear and two functions, as Megatron-LM has it")
def TensorParallelSwiGLU(m: ModuleType, n: int) -> Work:  # noqa: N802
    group = Two()

    class Copied(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return group.all_reduce(grad)

    class Summed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return group.all_reduce(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad

    ours = m.TensorParallelSwiGLU(256, 688, group)
    w = weights(ours)

    def theirs(x: Tensor) -> Tensor:
        x = Copied.apply(x)
        return Summed.apply(F.linear(F.silu(F.linear(x, w["w1.weight"])) * F.linear(x, w["w3.weight"]), w["w2.weight"]))

    return Work(ours, theirs, (torch.randn(n, 256),))


@peer("lora", "peft's lora.Linear")
def LoRALinear(m: ModuleType, n: int) -> Work:  # noqa: N802
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=8, lora_alpha=16, target_modules=["0"])
    theirs = inject_adapter_in_model(config, nn.Sequential(nn.Linear(512, 512, bias=False)))
    return Work(m.LoRALinear(512, 512, 8), theirs, (torch.randn(n, 512),), alike=False)


@peer("mla", "F.scaled_dot_product_attention over keys and values multiplied out, complex RoPE", LENGTHS)
def MultiHeadLatentAttention(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours, turns = m.MultiHeadLatentAttention(256, 8, 64, 32, 16, 32, 512), turns_of(16, n)
    w = weights(ours)

    def theirs(x: Tensor) -> Tensor:
        q, down = heads(F.linear(x, w["q_proj.weight"]), 48), F.linear(x, w["kv_down.weight"])
        latents = F.rms_norm(down[..., :64], (64,), w["kv_norm.weight"], 1e-6)
        k, v = heads(F.linear(latents, w["kv_up.weight"]), 64).chunk(2, -1)
        q = torch.cat([q[..., :32], turned(q[..., 32:], turns)], -1)
        k = torch.cat([k, turned(down[:, None, :, 64:], turns).expand(-1, 8, -1, -1)], -1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(out.transpose(1, 2).flatten(-2), w["o_proj.weight"])

    return Work(ours, theirs, (torch.randn(2, n, 256),))


@peer("paged_attention", "gathered pages, and F.scaled_dot_product_attention", LENGTHS, backward=False)
def paged_attention(m: ModuleType, n: int) -> Work:
    pages, q = torch.randn(2, 4 * n, 16, 2, 64), torch.randn(8, 8, 64)
    table, lengths = torch.randperm(4 * n)[: 8 * (n // 16)].view(8, -1), torch.randint(n // 2, n + 1, (8,))

    def theirs(q: Tensor) -> Tensor:
        k, v = (each[table].flatten(1, 2).transpose(1, 2) for each in pages)
        mask = torch.arange(k.shape[2]) < lengths[:, None]
        return F.scaled_dot_product_attention(
            q[:, :, None], k, v, attn_mask=mask[:, None, None], enable_gqa=True
        ).squeeze(2)

    return Work(lambda q: m.paged_attention(q, *pages, table, lengths), theirs, (q,))


@peer("paged_attention", "indexed by row and page", backward=False)
def slot_indices(m: ModuleType, n: int) -> Work:
    table, positions = torch.randperm(8 * n).view(8, -1), torch.randint(0, 16 * n, (8, n))
    rows = torch.arange(8)[:, None]

    def theirs(table: Tensor, positions: Tensor) -> Tensor:
        return table[rows, positions // 16] * 16 + positions % 16

    return Work(lambda table, positions: m.slot_indices(table, positions, 16), theirs, (table, positions))


@peer("quantize", "torch.aminmax, and torch.quantize_per_channel", backward=False)
def quantize(m: ModuleType, n: int) -> Work:
    zeros = torch.zeros(n, dtype=torch.long)

    def theirs(x: Tensor) -> tuple[Tensor, Tensor]:
        low, high = torch.aminmax(x, dim=-1)
        scales = torch.maximum(-low, high) / 127
        return torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8).int_repr(), scales[:, None]

    return Work(m.quantize, theirs, (torch.randn(n, 512),), alike=False)  # which may round a quotient's last bit


@peer("quantize", "one product in place of a cast", backward=False)
def dequantize(m: ModuleType, n: int) -> Work:
    codes = torch.randint(-127, 128, (n, 512), dtype=torch.int8)
    return Work(m.dequantize, torch.mul, (codes, torch.rand(n, 1)))


@peer("quantize", "torchao's: shifted halves of a byte", backward=False)
def pack_int4(m: ModuleType, n: int) -> Work:
    def theirs(codes: Tensor) -> Tensor:
        bytes_ = (codes + 8).view(torch.uint8)
        return bytes_[..., ::2] | bytes_[..., 1::2] << 4

    return Work(m.pack_int4, theirs, (torch.randint(-8, 8, (n, 512), dtype=torch.int8),))


@peer("quantize", "torchao's: shifted halves of a byte", backward=False)
def unpack_int4(m: ModuleType, n: int) -> Work:
    def theirs(packed: Tensor) -> Tensor:
        return torch.stack([(packed & 15).view(torch.int8) - 8, (packed >> 4).view(torch.int8) - 8], -1).flatten(-2)

    return Work(m.unpack_int4, theirs, (torch.randint(0, 256, (n, 256), dtype=torch.uint8),))


@peer("quantize", "torch._int_mm between its scales", backward=False)
def int8_linear(m: ModuleType, n: int) -> Work:
    codes, scales = torch.randint(-127, 128, (512, 512), dtype=torch.int8), torch.rand(512, 1) / 100

    def theirs(x: Tensor) -> Tensor:
        low, high = torch.aminmax(x, dim=-1)
        own = torch.maximum(-low, high)[:, None] / 127
        return torch._int_mm(x.div(own).round_().to(torch.int8), codes.T).float().mul_(own).mul_(scales.T)

    return Work(lambda x: m.int8_linear(x, codes, scales), theirs, (torch.randn(n, 512),))


@peer("router", "softmax and topk, as Mixtral routes")
def route(m: ModuleType, n: int) -> Work:
    def theirs(logits: Tensor) -> tuple[Tensor, Tensor]:
        found, experts = torch.topk(logits.softmax(-1, dtype=torch.float32), 6, -1)
        return found / found.sum(-1, keepdim=True), experts

    return Work(lambda logits: m.route(logits, 6), theirs, (torch.randn(n, 64),))


@peer("router", "torch.bincount for the loads")
def balance_loss(m: ModuleType, n: int) -> Work:
    def theirs(logits: Tensor, experts: Tensor) -> Tensor:
        share = torch.bincount(experts.flatten(), minlength=64) / experts.numel()
        return 64 * (share * logits.softmax(-1).mean(0)).sum()

    logits = torch.randn(n, 64)
    return Work(m.balance_loss, theirs, (logits, logits.topk(6).indices))


@peer("router", "topk twice, as DeepSeek-V3 routes")
def biased_route(m: ModuleType, n: int) -> Work:
    def theirs(logits: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        scores = logits.sigmoid()
        choice = scores + bias
        groups = choice.view(-1, 8, 8).topk(2, -1).values.sum(-1).topk(4, -1, sorted=False).indices
        kept = torch.zeros(n, 8).scatter_(1, groups, 1.0).bool()
        choice = choice.masked_fill(~kept[:, :, None].expand(-1, -1, 8).reshape(n, -1), -torch.inf)
        experts = choice.topk(6, -1).indices
        found = scores.gather(1, experts)
        return found / (found.sum(-1, keepdim=True) + 1e-20), experts

    ours = lambda logits, bias: m.biased_route(logits, bias, 6, 8, 4)  # noqa: E731
    return Work(ours, theirs, (torch.randn(n, 64), torch.zeros(64)))


@peer("moe", "tokens sorted by expert, as in megablocks' plain form")
def MixtureOfExperts(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours = m.MixtureOfExperts(128, 256, 8, 2)
    w = weights(ours)

    def theirs(x: Tensor) -> Tensor:
        found, experts = torch.topk(F.linear(x, w["router.weight"]).softmax(-1), 2, -1)
        found = found / found.sum(-1, keepdim=True)
        order = experts.flatten().argsort()
        counts = torch.bincount(experts.flatten(), minlength=8).tolist()
        parts = []
        for expert, rows in enumerate(x[order // 2].split(counts)):
            hidden = F.silu(F.linear(rows, w["w1"][expert])) * F.linear(rows, w["w3"][expert])
            parts.append(F.linear(hidden, w["w2"][expert]))
        return torch.zeros_like(x).index_add(0, order // 2, torch.cat(parts) * found.flatten()[order, None])

    return Work(ours, theirs, (torch.randn(n, 128),))


def of_tokens(logits: Tensor, token_ids: Tensor) -> Tensor:
    """The log-probability of each token, as TRL computes it: no second table of the logits' size."""
    return logits.gather(-1, token_ids[..., None])[..., 0] - logits.logsumexp(-1)


@peer("dpo", "gather minus logsumexp, as TRL has it", LENGTHS)
def sequence_logprobs(m: ModuleType, n: int) -> Work:
    def theirs(logits: Tensor, token_ids: Tensor, mask: Tensor) -> Tensor:
        return (of_tokens(logits[:, :-1], token_ids[:, 1:]) * mask[:, 1:]).sum(-1)

    return Work(m.sequence_logprobs, theirs, (torch.randn(4, n, 1024), ids(1024, 4, n), torch.rand(4, n) < 0.5))


@peer("dpo", "F.logsigmoid of both margins, as TRL has it", (64, 512, 4096, 32768))
def dpo_loss(m: ModuleType, n: int) -> Work:
    smoothing = 0.0

    def theirs(chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor) -> Tensor:
        margin = 0.1 * (chosen - rejected - (ref_chosen - ref_rejected).detach())
        return (-F.logsigmoid(margin) * (1 - smoothing) - F.logsigmoid(-margin) * smoothing).mean()

    return Work(m.dpo_loss, theirs, tuple(torch.randn(4, n)))


@peer("reward_model", "the largest index that is not padding, as transformers has it", LENGTHS)
def last_token_values(m: ModuleType, n: int) -> Work:
    def theirs(values: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(values.shape[1], dtype=torch.int32)
        return values[torch.arange(len(values)), (places * mask.int()).argmax(-1)]

    mask = torch.rand(48, n) < 0.6
    mask[:, 0] = True
    return Work(m.last_token_values, theirs, (torch.randn(48, n), mask))


@peer("reward_model", "F.logsigmoid of the gap, as TRL has it", (64, 512, 4096, 32768))
def reward_loss(m: ModuleType, n: int) -> Work:
    return Work(
        m.reward_loss, lambda chosen, rejected: -F.logsigmoid(chosen - rejected).mean(), tuple(torch.randn(2, n))
    )


@peer("gae", "a loop over time, as CleanRL has it", LENGTHS, backward=False)
def gae(m: ModuleType, n: int) -> Work:
    def cleanrl(rewards: Tensor, values: Tensor, dones: Tensor, last_value: Tensor) -> tuple[Tensor, Tensor]:
        advantages, last = torch.zeros_like(rewards), torch.zeros_like(last_value)
        alive = 1.0 - dones.float()
        for t in reversed(range(n)):
            following = last_value if t == n - 1 else values[:, t + 1]
            delta = rewards[:, t] + 0.99 * following * alive[:, t] - values[:, t]
            advantages[:, t] = last = delta + 0.99 * 0.95 * alive[:, t] * last
        return advantages, advantages + values

    return Work(m.gae, cleanrl, (torch.randn(32, n), torch.randn(32, n), torch.rand(32, n) < 0.1, torch.randn(32)))


@peer("kl_estimators", "gather minus logsumexp, as TRL has it")
def token_logprobs(m: ModuleType, n: int) -> Work:
    return Work(m.token_logprobs, of_tokens, (torch.randn(n, 2048), ids(2048, n)))


@peer("kl_estimators", "three formulas", (64, 512, 4096, 32768))
def kl_estimates(m: ModuleType, n: int) -> Work:
    def theirs(logp: Tensor, ref_logp: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = ref_logp - logp
        return -x, 0.5 * x.square(), x.expm1() - x

    return Work(m.kl_estimates, theirs, tuple(torch.randn(2, n)))


@peer("kl_estimators", "F.kl_div of two log_softmax")
def kl_exact(m: ModuleType, n: int) -> Work:
    def theirs(logits: Tensor, ref: Tensor) -> Tensor:
        return F.kl_div(ref.log_softmax(-1), logits.log_softmax(-1), log_target=True, reduction="none").sum(-1)

    return Work(m.kl_exact, theirs, tuple(torch.randn(2, n, 2048)))


@peer("ppo", "two products and their larger, as TRL has it", LENGTHS)
def ppo_loss(m: ModuleType, n: int) -> Work:
    def theirs(logp: Tensor, old: Tensor, gain: Tensor, mask: Tensor) -> Tensor:
        ratio = (logp - old.detach()).exp()
        return masked_mean(torch.max(-gain.detach() * ratio, -gain.detach() * ratio.clamp(0.8, 1.2)), mask)

    return Work(m.ppo_loss, theirs, (*torch.randn(3, 48, n), torch.rand(48, n) < 0.6))


@peer("ppo", "two squares and their larger, as TRL has it", LENGTHS)
def value_loss(m: ModuleType, n: int) -> Work:
    def theirs(values: Tensor, old: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
        old, returns = old.detach(), returns.detach()
        near = torch.clamp(values, old - 0.2, old + 0.2)
        return 0.5 * masked_mean(torch.max((values - returns).square(), (near - returns).square()), mask)

    return Work(m.value_loss, theirs, (*torch.randn(3, 48, n), torch.rand(48, n) < 0.6))


@peer("grpo", "centred and scaled rows, as TRL has it")
def group_advantages(m: ModuleType, n: int) -> Work:
    def theirs(rewards: Tensor) -> Tensor:
        return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)

    return Work(m.group_advantages, theirs, (torch.randn(n, 16),))


@peer("grpo", "the clipped loss and k3, as TRL has it", LENGTHS)
def grpo_loss(m: ModuleType, n: int) -> Work:
    def theirs(logp: Tensor, old: Tensor, ref: Tensor, gain: Tensor, mask: Tensor) -> Tensor:
        ratio, gain = (logp - old.detach()).exp(), gain.detach()[:, None]
        gap = ref.detach() - logp
        losses = 0.04 * (gap.exp() - gap - 1) - torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        return ((losses * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean()

    return Work(m.grpo_loss, theirs, (*torch.randn(3, 48, n), torch.randn(48), torch.rand(48, n) < 0.6))


@peer("batchnorm", "F.batch_norm in training", LENGTHS)
def BatchNorm(m: ModuleType, n: int) -> Work:  # noqa: N802
    ours, running = m.BatchNorm(32), (torch.zeros(32), torch.ones(32))
    theirs = lambda x: F.batch_norm(x, *running, ours.weight, ours.bias, training=True)  # noqa: E731
    return Work(ours, theirs, (torch.randn(n, 32, 8, 8),))


@peer("conv2d", "F.conv2d", (8, 16, 32, 64))
def conv2d(m: ModuleType, n: int) -> Work:
    inputs = (torch.randn(4, 16, n, n), torch.randn(16, 16, 3, 3), torch.randn(16), 1, 1)
    return Work(m.conv2d, F.conv2d, inputs)


@peer("contrastive", "F.normalize and F.cross_entropy, as OpenCLIP has it", LENGTHS)
def clip_loss(m: ModuleType, n: int) -> Work:
    def theirs(image: Tensor, text: Tensor, log_scale: Tensor) -> Tensor:
        logits = log_scale.exp() * F.normalize(image, dim=-1) @ F.normalize(text, dim=-1).T
        own = torch.arange(n)
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    return Work(m.clip_loss, theirs, (*torch.randn(2, n, 256), torch.tensor(2.0)))


@peer("kmeans", "addmm for the distances, scatter_reduce for the means", LENGTHS, backward=False)
def kmeans(m: ModuleType, n: int) -> Work:
    def theirs(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(4):
            nearest = torch.addmm(centres.square().sum(1), points, centres.T, alpha=-2).argmin(1)
            rows = nearest[:, None].expand_as(points)
            centres = centres.scatter_reduce(0, rows, points, "mean", include_self=False)
        return centres, torch.addmm(centres.square().sum(1), points, centres.T, alpha=-2).argmin(1)

    points = torch.randn(16 * n, 32)
    return Work(lambda *inputs: m.kmeans(*inputs, 4), theirs, (points, points[:16].clone()))


@peer("logistic_regression", "F.binary_cross_entropy_with_logits and torch.optim.SGD", LENGTHS, backward=False)
def fit(m: ModuleType, n: int) -> Work:
    @torch.enable_grad()
    def theirs(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        weight, bias = nn.Parameter(x.new_zeros(32)), nn.Parameter(x.new_zeros(()))
        groups = [{"params": [weight], "weight_decay": 0.01}, {"params": [bias]}]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        for _ in range(8):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(x @ weight + bias, y).backward()
            optimizer.step()
        return weight.detach(), bias.detach()

    x, y = torch.randn(16 * n, 32), torch.randint(2, (16 * n,)).float()
    return Work(lambda x, y: m.fit(x, y, 8, 0.1, 0.01), theirs, (x, y))


@peer("logistic_regression", "F.binary_cross_entropy_with_logits", LENGTHS, backward=False)
def loss(m: ModuleType, n: int) -> Work:
    def theirs(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(x @ weight + bias, y) + 0.005 * (weight @ weight)

    x, y = torch.randn(16 * n, 32), torch.randint(2, (16 * n,)).float()
    return Work(lambda *inputs: m.loss(*inputs, 0.01), theirs, (x, y, torch.randn(32), torch.tensor(0.5)))


@peer("packing", "a comparison, tril and where documents are real", LENGTHS, backward=False)
def document_mask(m: ModuleType, n: int) -> Work:
    def theirs(documents: Tensor) -> Tensor:
        same = documents[:, None, :, None] == documents[:, None, None, :]
        return same.tril() & (documents >= 0)[:, None, :, None]

    return Work(m.document_mask, theirs, ((torch.rand(16, n) < 0.1).cumsum(1),))


@peer("distillation", "F.kl_div and F.cross_entropy")
def distillation_loss(m: ModuleType, n: int) -> Work:
    def theirs(student: Tensor, teacher: Tensor, targets: Tensor) -> Tensor:
        log_q, log_p = F.log_softmax(student / 2.0, dim=-1), F.log_softmax(teacher.detach() / 2.0, dim=-1)
        soft = F.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
        return 0.5 * 4.0 * soft + 0.5 * F.cross_entropy(student, targets)

    return Work(m.distillation_loss, theirs, (*torch.randn(2, n, 2048), ids(2048, n)))
