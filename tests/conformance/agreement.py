"""What it means that a solution and a library agree, and how their weights map onto each other."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor, nn

from dojo.content import catalog
from dojo.contracts.checks import tolerance


def solution(name: str) -> ModuleType:
    """The module of a hidden solution."""
    return catalog.load(catalog.katas()[name].master)


def agree(theirs: Callable[[torch.dtype], Tensor], ours: Callable[[torch.dtype], Tensor], exact: float = 1e-10) -> None:
    """Both compute the same: in float64 to 1e-10, or what is exact there, and in float32 within the error rule.

    Each is called with a dtype and answers in it. The library in float64 is the truth; its own error in float32 is the
    `b` of the rule, and rounding the inputs is its `s`.
    """
    with torch.no_grad():
        truth, own = theirs(torch.float64), ours(torch.float64)
        assert own.shape == truth.shape
        assert own.dtype is torch.float64
        assert (own - truth).abs().max() < exact
        single = theirs(torch.float32)
        error = (single.double() - truth).abs().amax(-1, keepdim=True)
        scale = truth.abs() + truth.square().mean(-1, keepdim=True).sqrt()
        allowed = 32 * error + 32 * torch.finfo(torch.float32).eps * scale
        assert tolerance.error_ratio(ours(torch.float32), truth, allowed).max() <= 1


def randomised(module: nn.Module, seed: int, std: float = 0.3) -> nn.Module:
    """The module in evaluation mode, every parameter drawn anew in float64, norms and biases included."""
    generator = torch.Generator().manual_seed(seed)
    module = module.eval().to(torch.float64)
    for parameter in module.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * std)
    return module


def normal(*shape: int, seed: int = 1) -> Tensor:
    """Float64 normal, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integers(high: int, *shape: int, seed: int = 1) -> Tensor:
    """Ids below `high`, the same for the same seed."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


class Rotary(nn.Module):
    """The rotary embedding of `transformers` in the arithmetic of x: theirs rounds its angles to float32."""

    def __init__(self, theirs: nn.Module) -> None:
        super().__init__()
        config = theirs.config
        size = config.hidden_size // config.num_attention_heads
        theta = config.rope_parameters["rope_theta"]
        self.frequencies = theta ** (-torch.arange(0, size, 2).double() / size)
        assert torch.allclose(self.frequencies, theirs.inv_freq.double(), rtol=1e-6)

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = position_ids[..., None] * torch.cat([self.frequencies, self.frequencies])
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def neighbouring_pairs(weight: Tensor, heads: int) -> Tensor:
    """Rows of a query or key projection from the half-split layout of Llama checkpoints to neighbouring pairs.

    Hugging Face turns rows i and i + head_dim/2 of a head together; we turn rows 2i and 2i + 1.
    """
    halves = weight.unflatten(0, (heads, 2, -1))  # (heads, 2, head_dim / 2, in)
    return halves.transpose(1, 2).flatten(0, 2)


def from_llama(llama: nn.Module) -> dict[str, Tensor]:
    """The state dict of a `LlamaForCausalLM` under the names of `TransformerLM`."""
    config, theirs, ours = llama.config, llama.state_dict(), {}
    ours["token_embedding.weight"] = theirs["model.embed_tokens.weight"]
    ours["final_norm.weight"], ours["lm_head.weight"] = theirs["model.norm.weight"], theirs["lm_head.weight"]
    parts = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    parts |= {"ffn.w1": "mlp.gate_proj", "ffn.w3": "mlp.up_proj", "ffn.w2": "mlp.down_proj"}
    parts |= {f"attn.{n}_proj": f"self_attn.{n}_proj" for n in "qkvo"}
    for number in range(config.num_hidden_layers):
        own = {name: theirs[f"model.layers.{number}.{part}.weight"] for name, part in parts.items()}
        own["attn.q_proj"] = neighbouring_pairs(own["attn.q_proj"], config.num_attention_heads)
        own["attn.k_proj"] = neighbouring_pairs(own["attn.k_proj"], config.num_key_value_heads)
        ours |= {f"layers.{number}.{name}.weight": value for name, value in own.items()}
    return ours


def from_bert_layer(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of a `BertLayer` under the names of `EncoderLayer`."""
    parts = {f"self_attn.{ours}": f"attention.self.{name}" for ours, name in _BERT_PROJECTIONS.items()}
    parts |= {"self_attn.o_proj": "attention.output.dense", "attn_norm": "attention.output.LayerNorm"}
    parts |= {"ffn.fc1": "intermediate.dense", "ffn.fc2": "output.dense", "ffn_norm": "output.LayerNorm"}
    return {f"{ours}.{kind}": theirs[f"{name}.{kind}"] for ours, name in parts.items() for kind in ("weight", "bias")}


_BERT_PROJECTIONS = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}


def from_bert(bert: nn.Module) -> dict[str, Tensor]:
    """The state dict of a `BertModel` under the names of `TransformerEncoder`, segment 0 added to the positions."""
    theirs = bert.state_dict()
    ours = {
        "token_embedding.weight": theirs["embeddings.word_embeddings.weight"],
        "position_embedding.weight": theirs["embeddings.position_embeddings.weight"]
        + theirs["embeddings.token_type_embeddings.weight"][0],
        "embedding_norm.weight": theirs["embeddings.LayerNorm.weight"],
        "embedding_norm.bias": theirs["embeddings.LayerNorm.bias"],
    }
    for number, layer in enumerate(bert.encoder.layer):
        ours |= {f"layers.{number}.{name}": value for name, value in from_bert_layer(layer.state_dict()).items()}
    return ours


def from_torch_attention(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of an `nn.MultiheadAttention` under the names of ours: one matrix of three becomes three."""
    ours = {f"o_proj.{kind}": theirs[f"out_proj.{kind}"] for kind in ("weight", "bias") if f"out_proj.{kind}" in theirs}
    for kind in ("weight", "bias"):
        if f"in_proj_{kind}" in theirs:
            thirds = theirs[f"in_proj_{kind}"].chunk(3)
            ours |= {f"{name}_proj.{kind}": third for name, third in zip("qkv", thirds, strict=True)}
    return ours


def from_torch_layer(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> dict[str, Tensor]:
    """The state dict of a layer of `nn.Transformer` under the names of `EncoderLayer` or `DecoderLayer`."""
    crossing = hasattr(layer, "multihead_attn")
    norms = ("self_attn_norm", "cross_attn_norm", "ffn_norm") if crossing else ("attn_norm", "ffn_norm")
    parts = {"ffn.fc1": layer.linear1, "ffn.fc2": layer.linear2}
    parts |= {name: getattr(layer, f"norm{number}") for number, name in enumerate(norms, 1)}
    ours = {f"{name}.{kind}": value for name, part in parts.items() for kind, value in part.state_dict().items()}
    attentions = {"self_attn": layer.self_attn} | ({"cross_attn": layer.multihead_attn} if crossing else {})
    for name, attention in attentions.items():
        mapped = from_torch_attention(attention.state_dict())
        ours |= {f"{name}.{part}": value for part, value in mapped.items()}
    return ours
