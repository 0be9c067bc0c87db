"""The solutions against the models people use: the same weights, tiny and random, give the same numbers."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from tests.conformance.agreement import (
    Rotary,
    agree,
    from_bert,
    from_bert_layer,
    from_llama,
    integers,
    neighbouring_pairs,
    normal,
    randomised,
    solution,
)

transformers = pytest.importorskip("transformers", reason="transformers is part of the test extra")


def precise(llama: nn.Module) -> nn.Module:
    """The same Llama with norms and angles in float64, which `transformers` always computes in float32."""
    llama = copy.deepcopy(llama)
    llama.model.rotary_emb = Rotary(llama.model.rotary_emb)
    for parent in [llama.model, *llama.model.layers]:
        for name, child in list(parent.named_children()):
            if type(child).__name__ == "LlamaRMSNorm":
                norm = nn.RMSNorm(child.weight.shape[0], child.variance_epsilon, dtype=child.weight.dtype)
                norm.weight = child.weight
                setattr(parent, name, norm)
    return llama


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_lm_gives_the_logits_of_llama(kv_heads: int) -> None:
    config = transformers.LlamaConfig(
        vocab_size=53, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=kv_heads,
        intermediate_size=40, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False,
    )  # fmt: skip
    llama = randomised(transformers.LlamaForCausalLM(config), kv_heads)
    ours = solution("lm").TransformerLM(53, 24, 2, 6, 40, 64, num_kv_heads=kv_heads, dtype=torch.float64)
    ours.load_state_dict(from_llama(llama))
    ids = integers(53, 3, 17)

    def theirs(dtype: torch.dtype) -> Tensor:
        model = precise(llama) if dtype is torch.float64 else copy.deepcopy(llama).to(dtype)
        return model(ids).logits

    agree(theirs, lambda dtype: copy.deepcopy(ours).to(dtype)(ids), exact=1e-4)  # tables of float32


@pytest.mark.parametrize(("width", "layers", "heads"), [(24, 1, 6), (24, 3, 2), (40, 2, 5)])
def test_gpt2_loads_the_state_dict_of_transformers_and_gives_its_logits(width: int, layers: int, heads: int) -> None:
    config = transformers.GPT2Config(
        vocab_size=53, n_positions=32, n_embd=width, n_layer=layers, n_head=heads, bos_token_id=0, eos_token_id=0
    )
    theirs = randomised(transformers.GPT2LMHeadModel(config), heads)
    ours = solution("gpt2").GPT2(53, 32, width, layers, heads, dtype=torch.float64)
    assert ours.load_state_dict(theirs.state_dict(), strict=True)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    ids, models = integers(53, 3, 32), {"theirs": theirs, "ours": ours}

    def logits(which: str, dtype: torch.dtype) -> Tensor:
        found = copy.deepcopy(models[which]).to(dtype)(ids)
        return found.logits if which == "theirs" else found

    agree(lambda dtype: logits("theirs", dtype), lambda dtype: logits("ours", dtype))


def test_gpt2_small_has_the_number_of_parameters_that_is_known() -> None:
    with torch.device("meta"):
        ours = solution("gpt2").GPT2(50257, 1024, 768, 12, 12)
    assert sum(p.numel() for p in ours.parameters()) == 124_439_808


@pytest.mark.parametrize("kv_heads", [6, 2])
def test_causal_attention_gives_that_of_llama(kv_heads: int) -> None:
    config = transformers.LlamaConfig(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=kv_heads, attn_implementation="sdpa"
    )
    attention = randomised(transformers.models.llama.modeling_llama.LlamaAttention(config, 0), kv_heads)
    rotary = Rotary(transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config))
    weights = attention.state_dict()
    weights["q_proj.weight"] = neighbouring_pairs(weights["q_proj.weight"], 6)
    weights["k_proj.weight"] = neighbouring_pairs(weights["k_proj.weight"], kv_heads)
    ours = solution("causal_attention").CausalSelfAttention(24, 6, 64, num_kv_heads=kv_heads, dtype=torch.float64)
    ours.load_state_dict(weights)
    x, positions = normal(2, 9, 24), torch.arange(20, 29)
    future = torch.full((9, 9), -torch.inf).triu(1)

    def theirs(dtype: torch.dtype) -> Tensor:
        here = x.to(dtype)
        tables = rotary(here, positions[None])
        return copy.deepcopy(attention).to(dtype)(here, tables, future.to(dtype)[None, None])[0]

    def mine(dtype: torch.dtype) -> Tensor:
        cast = copy.deepcopy(ours).to(dtype)
        cast.reset_parameters()  # its tables are float32, whatever it is built in
        return cast(x.to(dtype), positions)

    agree(theirs, mine, exact=1e-4)


@pytest.mark.parametrize("form", ["RoPEReal", "RoPEComplex"])
def test_rope_turns_as_transformers_does_after_the_permutation(form: str) -> None:
    config = transformers.LlamaConfig(hidden_size=8, num_attention_heads=1)
    llama = transformers.models.llama.modeling_llama
    rotary = llama.LlamaRotaryEmbedding(config)  # whose angles are float32, as ours are
    ours = getattr(solution("rope"), form)(8, 4096)
    x, positions = normal(2, 3, 7, 8), integers(4096, 7)

    def theirs(dtype: torch.dtype) -> Tensor:
        cos, sin = rotary(x.to(dtype), positions[None])
        halves = x.to(dtype).unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)  # neighbours to halves
        turned, _ = llama.apply_rotary_pos_emb(halves, halves, cos, sin)
        return turned.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)

    agree(theirs, lambda dtype: ours(x.to(dtype), positions), exact=1e-4)


def test_swiglu_gives_the_feed_forward_layer_of_llama() -> None:
    config = transformers.LlamaConfig(hidden_size=12, num_attention_heads=3, intermediate_size=20)
    mlp = randomised(transformers.models.llama.modeling_llama.LlamaMLP(config), 3)
    ours = solution("swiglu").SwiGLU(12, 20, dtype=torch.float64)
    names = {"w1.weight": "gate_proj.weight", "w3.weight": "up_proj.weight", "w2.weight": "down_proj.weight"}
    ours.load_state_dict({name: mlp.state_dict()[theirs] for name, theirs in names.items()})
    x = normal(2, 5, 12)
    models = {"theirs": mlp, "ours": ours}

    def of(which: str, dtype: torch.dtype) -> Tensor:
        return copy.deepcopy(models[which]).to(dtype)(x.to(dtype))

    agree(lambda dtype: of("theirs", dtype), lambda dtype: of("ours", dtype))


def a_bert() -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=53, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, intermediate_size=40,
        max_position_embeddings=32, attn_implementation="eager",
    )  # fmt: skip
    return randomised(transformers.BertModel(config, add_pooling_layer=False), 5)


@pytest.mark.parametrize("padded", [False, True])
def test_encoder_gives_the_hidden_states_of_bert(padded: bool) -> None:
    bert = a_bert()
    ours = solution("encoder").TransformerEncoder(53, 24, 2, 6, 40, 32, dtype=torch.float64).eval()
    ours.load_state_dict(from_bert(bert))
    ids, real = integers(53, 3, 11), torch.ones(3, 11, dtype=torch.bool)
    if padded:
        real[0, 7:], real[2, 3:] = False, False
    agree(
        lambda dtype: copy.deepcopy(bert).to(dtype)(ids, attention_mask=real.long()).last_hidden_state[real],
        lambda dtype: copy.deepcopy(ours).to(dtype)(ids, padding=real if padded else None)[real],
    )


def test_encoder_layer_gives_that_of_bert() -> None:
    layer = a_bert().encoder.layer[0]
    ours = solution("encoder_layer").EncoderLayer(24, 6, 40, dtype=torch.float64).eval()
    ours.load_state_dict(from_bert_layer(layer.state_dict()))
    x = normal(2, 7, 24)
    agree(
        lambda dtype: copy.deepcopy(layer).to(dtype)(x.to(dtype)),
        lambda dtype: copy.deepcopy(ours).to(dtype)(x.to(dtype)),
    )


@pytest.mark.parametrize("heads", [1, 2, 8, 3, 5, 12, 20])
def test_alibi_gives_the_weights_of_bloom(heads: int) -> None:
    """Bloom leaves out what is constant in a row, so attention weights are compared, under the causal mask."""
    build = transformers.models.bloom.modeling_bloom.build_alibi_tensor
    bloom = build(torch.ones(1, 9), heads, torch.float32).reshape(heads, 1, 9).expand(heads, 9, 9)
    scores, future = normal(heads, 9, 9), torch.ones(9, 9, dtype=torch.bool).triu(1)
    biases = {"theirs": bloom, "ours": solution("alibi").alibi_bias(heads, 9)}

    def weights(which: str, dtype: torch.dtype) -> Tensor:
        biased = (scores + biases[which].double()).to(dtype)
        return biased.masked_fill(future, -torch.inf).softmax(-1)

    # Slopes are float32 on both sides, each right to a unit in the last place.
    single = [weights(which, torch.float64) for which in biases]
    assert (single[0] - single[1]).abs().max() < (1e-10 if math.log2(heads).is_integer() else 1e-5)


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16, 32])
def test_alibi_gives_the_bias_of_mpt_for_the_last_query(heads: int) -> None:
    mpt = transformers.models.mpt.modeling_mpt.build_mpt_alibi_tensor(heads, 11)[:, 0]
    assert (solution("alibi").alibi_bias(heads, 1, 11)[:, 0] - mpt).abs().max() < 1e-10


@pytest.mark.parametrize("steps", [(), (9,), (4, 1, 4)])
def test_mla_is_that_of_deepseek(steps: tuple[int, ...]) -> None:
    config = transformers.DeepseekV3Config(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=None, kv_lora_rank=10,
        qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8, rope_interleave=True, attn_implementation="sdpa",
    )  # fmt: skip
    attention = transformers.models.deepseek_v3.modeling_deepseek_v3.DeepseekV3Attention(config, 0)
    norm = nn.RMSNorm(10, eps=attention.kv_a_layernorm.variance_epsilon)  # theirs is always in float32
    attention.kv_a_layernorm = norm
    attention = randomised(attention, 7)
    names = {"kv_a_proj_with_mqa": "kv_down", "kv_a_layernorm": "kv_norm", "kv_b_proj": "kv_up"}
    weights = {
        ".".join(names.get(part, part) for part in key.split(".")): v for key, v in attention.state_dict().items()
    }
    ours = solution("mla").MultiHeadLatentAttention(24, 3, 10, 6, 4, 8, 16, dtype=torch.float64)
    ours.load_state_dict(weights)
    x, future = normal(2, 9, 24), torch.full((9, 9), -torch.inf).triu(1)
    angles = torch.outer(torch.arange(9).double(), 10000.0 ** (-torch.arange(0, 4, 2).double() / 4)).repeat(1, 2)

    def theirs(dtype: torch.dtype) -> Tensor:
        tables = (angles.cos().to(dtype)[None], angles.sin().to(dtype)[None])
        return copy.deepcopy(attention).to(dtype)(x.to(dtype), tables, future.to(dtype)[None, None])[0]

    def mine(dtype: torch.dtype) -> Tensor:
        cast, here = copy.deepcopy(ours).to(dtype), x.to(dtype)
        if not steps:
            return cast(here)
        caches, parts = (here.new_zeros(2, 0, 10), here.new_zeros(2, 0, 4)), []
        for part in here.split(steps, 1):
            out, *caches = cast.decode(part, *caches)
            parts.append(out)
        return torch.cat(parts, 1)

    agree(theirs, mine, exact=1e-6)  # tables of float32
