"""The solutions against torch's own layers: the same weights, tiny and random, give the same numbers."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.experimental._paged_attention import PagedAttention

from tests.conformance.agreement import (
    agree,
    from_torch_attention,
    from_torch_layer,
    integers,
    normal,
    randomised,
    solution,
)


def same_modules(theirs: nn.Module, ours: nn.Module, *inputs: Tensor, weights: dict[str, Tensor] | None = None) -> None:
    """Two modules agree on these inputs, once ours has their weights."""
    theirs = randomised(theirs, 7)
    ours = ours.eval().to(torch.float64)
    ours.load_state_dict(theirs.state_dict() if weights is None else weights)

    def run(module: nn.Module, dtype: torch.dtype) -> Tensor:
        return copy.deepcopy(module).to(dtype)(*(x.to(dtype) if x.is_floating_point() else x for x in inputs))

    agree(lambda dtype: run(theirs, dtype), lambda dtype: run(ours, dtype))


def test_linear_is_torchs() -> None:
    same_modules(nn.Linear(7, 5, bias=False), solution("linear").Linear(7, 5), normal(2, 3, 7))


def test_embedding_is_torchs() -> None:
    same_modules(nn.Embedding(13, 5), solution("embedding").Embedding(13, 5), integers(13, 2, 7))


def test_rmsnorm_is_torchs() -> None:
    same_modules(nn.RMSNorm(7, eps=1e-5), solution("rmsnorm").RMSNorm(7), normal(2, 3, 7))


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_layernorm_is_torchs(mean: float) -> None:
    x = normal(2, 3, 7)
    theirs, ours = (randomised(each, 7) for each in (nn.LayerNorm(7), solution("layernorm").LayerNorm(7)))
    agree(*(lambda dtype, m=m: copy.deepcopy(m).to(dtype)((x + mean).to(dtype)) for m in (theirs, ours)))


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu"])
def test_activations_are_torchs(name: str) -> None:
    theirs, ours = getattr(F, name), getattr(solution("activations"), name)
    x = torch.cat([normal(5, 40).flatten() * 5, torch.tensor([-1e4, 1e4, 0.0])])
    agree(lambda dtype: theirs(x.to(dtype)), lambda dtype: ours(x.to(dtype)))


@pytest.mark.parametrize("dim", [0, -2, 2])
def test_softmax_is_torchs(dim: int) -> None:
    x = normal(3, 5, 7) * 3
    agree(lambda dtype: x.to(dtype).softmax(dim), lambda dtype: solution("softmax").softmax(x.to(dtype), dim))


def test_sdpa_is_torchs() -> None:
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 7, 4, seed=2), normal(2, 3, 7, 6, seed=3)
    mask = integers(2, 5, 7).bool() | torch.eye(5, 7, dtype=torch.bool)
    ours = solution("sdpa").scaled_dot_product_attention
    agree(
        lambda dtype: F.scaled_dot_product_attention(q.to(dtype), k.to(dtype), v.to(dtype), mask),
        lambda dtype: ours(q.to(dtype), k.to(dtype), v.to(dtype), mask),
    )


def test_mha_is_torchs() -> None:
    theirs = randomised(nn.MultiheadAttention(12, 3, bias=False, batch_first=True), 7)
    ours = solution("mha").MultiHeadAttention(12, 3, dtype=torch.float64)
    ours.load_state_dict(from_torch_attention(theirs.state_dict()))
    x, context, hidden = normal(2, 5, 12), normal(2, 7, 12, seed=2), integers(2, 5, 7).bool()
    hidden[:, 0] = False
    agree(
        lambda dtype: copy.deepcopy(theirs).to(dtype)(*map(_to(dtype), (x, context, context)), attn_mask=hidden)[0],
        lambda dtype: copy.deepcopy(ours).to(dtype)(*map(_to(dtype), (x, context)), mask=~hidden),
    )


def test_gelu_ffn_is_torchs() -> None:
    theirs = nn.Sequential(nn.Linear(6, 11), nn.GELU(), nn.Linear(11, 6))
    weights = {f"{name}.{kind}": theirs[at] for at, name in ((0, "fc1"), (2, "fc2")) for kind in ("weight", "bias")}
    theirs = randomised(theirs, 7)
    weights = {key: getattr(layer, key.rpartition(".")[2]).data for key, layer in weights.items()}
    ours = solution("gelu_ffn").FeedForward(6, 11)
    ours.to(torch.float64).load_state_dict(weights)
    x = normal(2, 5, 6)
    agree(*(lambda dtype, m=m: copy.deepcopy(m).to(dtype)(x.to(dtype)) for m in (theirs, ours)))


PADDING = torch.tensor([[True, True, True, False, False], [True, True, True, True, True]])


def test_encoder_layer_is_torchs() -> None:
    theirs = nn.TransformerEncoderLayer(12, 3, 7, 0.0, F.gelu, layer_norm_eps=1e-12, batch_first=True)
    theirs = randomised(theirs, 7)
    ours = solution("encoder_layer").EncoderLayer(12, 3, 7, dtype=torch.float64)
    ours.load_state_dict(from_torch_layer(theirs))
    x = normal(2, 5, 12)
    agree(
        lambda dtype: copy.deepcopy(theirs).to(dtype)(x.to(dtype), src_key_padding_mask=~PADDING)[PADDING],
        lambda dtype: copy.deepcopy(ours).to(dtype)(x.to(dtype), padding=PADDING)[PADDING],
    )


def test_decoder_layer_is_torchs() -> None:
    theirs = nn.TransformerDecoderLayer(12, 3, 7, 0.0, F.gelu, layer_norm_eps=1e-12, batch_first=True)
    theirs = randomised(theirs, 7)
    ours = solution("decoder_layer").DecoderLayer(12, 3, 7, dtype=torch.float64)
    ours.load_state_dict(from_torch_layer(theirs))
    x, memory, future = normal(2, 4, 12), normal(2, 5, 12, seed=2), torch.ones(4, 4, dtype=torch.bool).triu(1)
    agree(
        lambda dtype: copy.deepcopy(theirs).to(dtype)(
            x.to(dtype), memory.to(dtype), tgt_mask=future, memory_key_padding_mask=~PADDING
        ),
        lambda dtype: copy.deepcopy(ours).to(dtype)(x.to(dtype), memory.to(dtype), memory_padding=PADDING),
    )


class Translator(nn.Module):
    """An encoder-decoder around `nn.Transformer`, with the last norms of its stacks taken out."""

    def __init__(self, src_vocab: int, tgt_vocab: int, d_model: int, layers: int, heads: int, d_ff: int) -> None:
        super().__init__()
        self.stacks = nn.Transformer(
            d_model, heads, layers, layers, d_ff, 0.0, F.gelu, layer_norm_eps=1e-12, batch_first=True
        )
        self.stacks.encoder.norm = self.stacks.decoder.norm = None
        self.src, self.tgt = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        self.head = nn.Linear(d_model, tgt_vocab, bias=False)

    def forward(self, src: Tensor, tgt: Tensor, padding: Tensor) -> Tensor:
        future = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        out = self.stacks(
            self.place(self.src(src)), self.place(self.tgt(tgt)), tgt_mask=future,
            src_key_padding_mask=~padding, memory_key_padding_mask=~padding,
        )  # fmt: skip
        return self.head(out)

    @staticmethod
    def place(x: Tensor) -> Tensor:
        size = x.shape[-1]
        table = torch.zeros(x.shape[1], size, dtype=torch.float64)
        for position in range(x.shape[1]):
            for pair in range(size // 2):
                angle = position / 10000 ** (2 * pair / size)
                table[position, 2 * pair], table[position, 2 * pair + 1] = math.sin(angle), math.cos(angle)
        return x * math.sqrt(size) + table.to(x.dtype)

    def our_weights(self) -> dict[str, Tensor]:
        """The weights under the names of `Seq2SeqTransformer`."""
        ours = {"src_embedding.weight": self.src.weight.data, "tgt_embedding.weight": self.tgt.weight.data}
        ours["lm_head.weight"] = self.head.weight.data
        for side in ("encoder", "decoder"):
            for number, layer in enumerate(getattr(self.stacks, side).layers):
                named = from_torch_layer(layer)
                ours |= {f"{side}_layers.{number}.{name}": value for name, value in named.items()}
        return ours


def test_seq2seq_is_torchs_transformer() -> None:
    theirs = randomised(Translator(13, 17, 12, 2, 3, 7), 7)
    ours = solution("seq2seq").Seq2SeqTransformer(13, 17, 12, 2, 3, 7, 32, dtype=torch.float64)
    ours.load_state_dict(theirs.our_weights())
    src, tgt = integers(13, 2, 5), integers(17, 2, 4, seed=2)

    def mine(dtype: torch.dtype) -> Tensor:
        cast = copy.deepcopy(ours).to(dtype)
        cast.reset_parameters()  # its table is float32, whatever it is built in
        return cast(src, tgt, PADDING)

    agree(lambda dtype: copy.deepcopy(theirs).to(dtype)(src, tgt, PADDING), mine)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantize_is_torchs_own_per_channel() -> None:
    quantize, x, zeros = solution("quantize"), normal(5, 48).float(), torch.zeros(5, dtype=torch.long)
    codes, scales = quantize.quantize(x)
    theirs = torch.quantize_per_channel(x, scales[:, 0], zeros, 0, torch.qint8)
    assert torch.equal(codes, theirs.int_repr())
    assert torch.allclose(quantize.dequantize(codes, scales), theirs.dequantize(), rtol=1e-6)
    symmetric = torch.ao.quantization.PerChannelMinMaxObserver(0, torch.qint8, torch.per_channel_symmetric, False, -127)
    symmetric(x)
    assert torch.allclose(scales[:, 0], symmetric.calculate_qparams()[0], rtol=1e-2)  # theirs has 255 / 2 steps


@pytest.mark.parametrize("kv_heads", [6, 2])
def test_paged_attention_reads_what_torchs_own_pages_hold(kv_heads: int) -> None:
    paged, lengths = PagedAttention(16, 4, 3, device="cpu"), torch.tensor([9, 4, 14])
    pools, tokens = torch.full((2, 1, kv_heads, 64, 8), torch.nan).double(), []
    for row, length in enumerate(lengths.tolist()):
        k, v = normal(2, 1, kv_heads, length, 8, seed=row)
        tokens.append((k, v))
        here, positions = torch.tensor([row]), torch.arange(length)[None]
        paged.reserve(here, torch.tensor([length]))
        paged.assign(here, positions, k, v, *pools)
        slots = solution("paged_attention").slot_indices(paged.page_table[here], positions, 4)
        assert torch.equal(pools[0][0][:, slots[0]], k[0])
    q, (k_pages, v_pages) = normal(3, 6, 8), (pool[0].unflatten(1, (16, 4)).permute(1, 2, 0, 3) for pool in pools)

    def theirs(dtype: torch.dtype) -> Tensor:
        rows = [(each[None, :, None], k, v) for each, (k, v) in zip(q, tokens, strict=True)]
        found = [F.scaled_dot_product_attention(*(t.to(dtype) for t in row), enable_gqa=True) for row in rows]
        return torch.cat(found)[:, :, 0]

    def ours(dtype: torch.dtype) -> Tensor:
        given = (each.to(dtype) for each in (q, k_pages, v_pages))
        return solution("paged_attention").paged_attention(*given, paged.page_table, lengths)

    agree(theirs, ours)


def _to(dtype: torch.dtype) -> object:
    return lambda x: x.to(dtype)
