"""The reference against the library people use: the same weights give the same logits as transformers' Llama."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
import torch
from torch import Tensor

from dojo import catalog, rule

transformers = pytest.importorskip("transformers", reason="transformers is part of the test extra")


def solution(name: str) -> ModuleType:
    """The module of a hidden solution."""
    spec = importlib.util.spec_from_file_location(f"solution_{name}", catalog.katas()[name].master)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def neighbouring_pairs(weight: Tensor, heads: int) -> Tensor:
    """Rows of a query or key projection from the half-split layout of Llama checkpoints to neighbouring pairs.

    Hugging Face turns rows i and i + head_dim/2 of a head together; we turn rows 2i and 2i + 1.
    """
    halves = weight.unflatten(0, (heads, 2, -1))  # (heads, 2, head_dim / 2, in)
    return halves.transpose(1, 2).flatten(0, 2)


def our_weights(llama: torch.nn.Module) -> dict[str, Tensor]:
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


def a_pair(kv_heads: int, dtype: torch.dtype) -> tuple[torch.nn.Module, torch.nn.Module]:
    """A tiny random Llama, and ours with its weights."""
    torch.manual_seed(kv_heads)
    config = transformers.LlamaConfig(
        vocab_size=53, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=kv_heads,
        intermediate_size=40, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False,
    )  # fmt: skip
    llama = transformers.LlamaForCausalLM(config).eval()
    for parameter in llama.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ours = solution("lm").TransformerLM(53, 24, 2, 6, 40, 64, num_kv_heads=kv_heads)
    ours.load_state_dict(our_weights(llama))
    return llama.to(dtype), ours.to(dtype)


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_lm_gives_the_logits_of_llama_in_float32(kv_heads: int) -> None:
    llama, ours = a_pair(kv_heads, torch.float32)
    ids = torch.randint(0, 53, (3, 17))
    with torch.no_grad():
        theirs, got = llama(ids).logits, ours(ids)
        exact, _ = a_pair(kv_heads, torch.float64)
        reference = exact(ids).logits
    eps = torch.finfo(torch.float32).eps
    error = (theirs.double() - reference).abs().amax(-1, keepdim=True)
    scale = reference.abs() + reference.square().mean(-1, keepdim=True).sqrt()
    used = rule.usage(got, reference, 16 * error + 32 * eps * scale)
    assert used.max() <= 1


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_lm_gives_the_logits_of_llama_in_float64(kv_heads: int) -> None:
    """Both sides keep their RoPE tables in float32, so float64 agrees to what float32 angles leave."""
    llama, ours = a_pair(kv_heads, torch.float64)
    ids = torch.randint(0, 53, (3, 17))
    with torch.no_grad():
        difference = (llama(ids).logits - ours(ids)).abs().max()
    assert difference < 1e-5
