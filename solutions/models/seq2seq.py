# ---
# jupyter:
#   dojo:
#     title: Encoder-decoder of 2017
#     level: 5
#     minutes: 50
#     builds_on: [encoder_layer, decoder_layer, absolute_positions]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, arXiv:1706.03762"
# ---

# %% [markdown]
# # Encoder-decoder
#
# $$m = \mathrm{encoder}\big(\sqrt{d}\, E_{\mathrm{src}}[\mathrm{src}] + S\big), \qquad
# \mathrm{logits} = W_{\mathrm{head}}\; \mathrm{decoder}\big(\sqrt{d}\, E_{\mathrm{tgt}}[\mathrm{tgt}] + S,\; m\big)$$
#
# $$S_{p, 2i} = \sin(p / 10000^{2i/d}), \qquad S_{p, 2i+1} = \cos(p / 10000^{2i/d})$$
#
# The transformer as it was invented, for translation.
#
# **Write** `Seq2SeqTransformer(src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *,
# device=None, dtype=None)`. `forward(src_ids, tgt_ids, src_padding=None)` takes int32 or int64 `(batch, src_len)` and
# `(batch, tgt_len)` and boolean padding of the source, True = a real token, and returns logits
# `(batch, tgt_len, tgt_vocab)`.
#
# ```
# src_embedding.weight (src_vocab, d_model)     encoder_layers.{i}: self_attn, ffn, attn_norm, ffn_norm
# tgt_embedding.weight (tgt_vocab, d_model)     decoder_layers.{i}: self_attn, cross_attn, ffn, and a norm for each
# lm_head.weight (tgt_vocab, d_model)           not tied, no bias
# ```
#
# Layers are those of **encoder_layer** and **decoder_layer** with $\varepsilon = 10^{-12}$; no norm ends a stack. The
# stub holds only the model: write its parts too, or import your own. No operation of PyTorch is forbidden.
#
# **Example.** `d_model = 4`. A token with the embedding $(1, 1, 1, 1)$ at position 0 enters its stack as
# $\sqrt 4 \cdot (1, 1, 1, 1) + (0, 1, 0, 1) = (2, 3, 2, 3)$. If `o_proj` and `fc2` are zero everywhere, every layer
# only normalizes: $(-1, 1, -1, 1)$. With `lm_head.weight` = `[[0, 1, 0, 1]]` its logit is 2.

# %% [markdown] tags=["contract"]
# - **Causal.** No target token sees a later one.
# - **Padding.** Nothing attends to padding of the source, neither in the encoder nor from the decoder.
# - **Masked rows.** Where a row of the source is nothing but padding, the weighted means over it are exact zeros.
#   Gradients stay finite.
# - **Positions.** Exact to float32 at any place up to `max_len`; the table is not in the state dict.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by `1 -
#   dropout`. It acts on the feed-forward branches: after gelu, after `fc2`, or both; elsewhere it is up to you.
# - **Norms.** They start as ones and zeros.
# - **Half precision.** Softmax and norms in float32. Scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call; more than `max_len` tokens in a
#   row of the source or of the target.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# d_model, embedding, position = 4, (1, 1, 1, 1), (0, 1, 0, 1)
# x = [math.sqrt(d_model) * e + p for e, p in zip(embedding, position)]
# mean = sum(x) / d_model
# deviation = (sum((v - mean) ** 2 for v in x) / d_model) ** 0.5
# normal = [(v - mean) / deviation for v in x]
# print("enters as", x, "is normalized to", normal, "logit", sum(w * v for w, v in zip((0, 1, 0, 1), normal)))

# %% [markdown] tags=["hint"]
# Write the model from the outside in: `encode`, `decode` and `forward`, then the layers, then their parts. Choose
# attribute names from the table of parameters.

# %% [markdown] tags=["hint"]
# One function embeds both sides: look up, multiply by the root of `d_model`, add the first rows of the table.

# %% [markdown] tags=["hint"]
# The padding of the source is used twice: in every encoder layer, and in the cross-attention of every decoder layer.
# Keep the table as a buffer with `persistent=False`: it follows the model to its device, and no state dict holds it.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

# %%
### BEGIN SOLUTION
EPS = 1e-12


def split_heads(x: Float[Tensor, "batch seq d_model"], num_heads: int) -> Float[Tensor, "batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)

    def forward(
        self,
        x: Float[Tensor, "batch q_len d_model"],
        source: Float[Tensor, "batch k_len d_model"],
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None,
    ) -> Float[Tensor, "batch q_len d_model"]:
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(source), self.num_heads)
        v = split_heads(self.v_proj(source), self.num_heads)
        acc = torch.promote_types(q.dtype, torch.float32)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        heads = weights @ v
        merged = heads.transpose(-3, -2).flatten(-2)
        return self.o_proj(merged)


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float, *, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        hidden = F.gelu(self.fc1(x))
        hidden = self.dropout(hidden)
        return self.fc2(hidden)


class EncoderLayer(nn.Module):
    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float, *, device=None, dtype=None):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        self.attn_norm = nn.LayerNorm(d_model, EPS, device=device, dtype=dtype)
        self.ffn = FeedForward(d_model, d_ff, dropout, device=device, dtype=dtype)
        self.ffn_norm = nn.LayerNorm(d_model, EPS, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch seq d_model"], mask: Tensor | None) -> Float[Tensor, "batch seq d_model"]:
        x = self.attn_norm(x + self.dropout(self.self_attn(x, x, mask)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return x


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float, *, device=None, dtype=None):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        self.self_attn_norm = nn.LayerNorm(d_model, EPS, device=device, dtype=dtype)
        self.cross_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        self.cross_attn_norm = nn.LayerNorm(d_model, EPS, device=device, dtype=dtype)
        self.ffn = FeedForward(d_model, d_ff, dropout, device=device, dtype=dtype)
        self.ffn_norm = nn.LayerNorm(d_model, EPS, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        memory: Float[Tensor, "batch mem_len d_model"],
        mask: Bool[Tensor, "batch #heads #q_len mem_len"] | None,
    ) -> Float[Tensor, "batch seq d_model"]:
        seq = x.shape[1]
        causal = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril()
        x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, causal)))
        x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return x


def sinusoids(max_len: int, d_model: int) -> Float[Tensor, "max_len d_model"]:
    """Sines in even and cosines in odd columns, in float64."""
    position = torch.arange(max_len, dtype=torch.float64, device="cpu")
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / d_model)
    angles = torch.outer(position, frequency)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return pairs.flatten(-2)


### END SOLUTION


# %%
class Seq2SeqTransformer(nn.Module):
    """The encoder-decoder of 2017: sinusoidal positions, post-norm layers, logits for the next target token.

    Softmax and norms are computed in float32 at least. Raises ValueError for heads that do not divide, and for more
    than max_len tokens. Vaswani et al. 2017, arXiv:1706.03762.
    """

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        max_len: int,
        dropout: float = 0.0,
        *,
        device=None,
        dtype=None,
    ):
        ### BEGIN SOLUTION
        super().__init__()
        self.max_len = max_len
        self.register_buffer("table", torch.empty(max_len, d_model, device=device), persistent=False)
        self.src_embedding = nn.Embedding(src_vocab, d_model, device=device, dtype=dtype)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        sizes = (d_model, num_heads, d_ff, dropout)
        self.encoder_layers = nn.ModuleList(EncoderLayer(*sizes, device=device, dtype=dtype) for _ in range(num_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(*sizes, device=device, dtype=dtype) for _ in range(num_layers))
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the table, which no state dict holds."""
        self.table.copy_(sinusoids(*self.table.shape))
        ### END SOLUTION

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
        src_padding: Bool[Tensor, "batch src_len"] | None = None,
    ) -> Float[Tensor, "batch tgt_len tgt_vocab"]:
        """Logits for the token after each target position. The padding is True where a source token is real."""
        ### BEGIN SOLUTION
        mask = None if src_padding is None else src_padding[:, None, None, :]
        memory = self.embed(self.src_embedding, src_ids)
        for layer in self.encoder_layers:
            memory = layer(memory, mask)
        x = self.embed(self.tgt_embedding, tgt_ids)
        for layer in self.decoder_layers:
            x = layer(x, memory, mask)
        return self.lm_head(x)
        ### END SOLUTION

    ### BEGIN SOLUTION
    def embed(self, embedding: nn.Embedding, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq d_model"]:
        seq = ids.shape[1]
        if seq > self.max_len:
            raise ValueError(f"{seq} tokens in a row, but the model was built for max_len {self.max_len}")
        tokens = embedding(ids)
        acc = torch.promote_types(tokens.dtype, torch.float32)
        placed = tokens.to(acc) * math.sqrt(tokens.shape[-1]) + self.table[:seq].to(acc)
        return self.dropout(placed.to(tokens.dtype))

    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why multiply by $\sqrt d$.** The embeddings were tied to the output matrix, whose entries are small, of size
# $1/\sqrt d$. Sines are of size 1. Without the factor the positions would drown the words.
#
# **The table is a buffer that no state dict holds**, and `reset_parameters` fills it again after `to_empty`. Angles of
# thousands of radians are computed in float64, once.
#
# **What it costs.** Two FLOPs for each weight of a stack and token of it, and the head's $2 n d V$. The base model of
# 2017 has 44 million weights in its layers, 19 in the encoder and 25 in the decoder, and 19 million more in each table
# of 37,000 rows. The logits of 64 texts of 128 tokens take 1.2 GB in float32: more than all else, and what the loss
# should not copy.
#
# ## The other formulation
#
# `nn.Transformer(d_model, num_heads, num_layers, num_layers, d_ff, activation="gelu", batch_first=True)` holds both
# stacks, adds a norm at the end of each, and leaves embeddings, positions and head to you. Its padding masks are True
# where a token is **not** real, and the padding of the source has to be given twice, also as `memory_key_padding_mask`.
#
# ## The usual mistakes
#
# - The padding of the source forgotten in the cross-attention.
# - The factor $\sqrt d$ on one side only, or on the sum with the positions.
# - Sines in the first half of the columns and cosines in the second: other code does that, this contract does not.
# - The target not causal.
# - One stack's positions continued in the other: both count from 0.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How is it trained, and what differs in use?
#
# - The target is given shifted by one: logits at $t$ are scored by token $t + 1$, all positions in one pass.
# - In use it reads its own output. It has never seen its own mistakes, so errors can grow.
# - A start token opens the target. Forgetting the shift lets the model copy its input, and the loss falls to 0.
#
# Source: Bengio et al. 2015, arXiv:1506.03099.
#
# ### How long is an embedded token beside its position, with rows of deviation 1/√d and no factor, at width `d`?
#
# - Sines and cosines in pairs: the position has length $\sqrt{d/2}$, the token vector length 1.
# - Multiplied by $\sqrt d$ its entries have deviation 1, and positions are no longer than words.
# - The factor dates from tying: a table shared with the output matrix must have small entries.
#
# Answer: `1 / sqrt(d / 2)`, within 5 %. Settings: `d` 128, 512, 1024.
#
# Source: Vaswani et al. 2017, section 3.4, arXiv:1706.03762.
#
# ### How many decoder steps fit into one encoder pass over `src` tokens, at `millions` million weights each?
#
# - A pass over many tokens is compute-bound: $2 N n$ FLOPs at 989 TFLOPS. A step of one sequence is memory-bound: $2 N$
#   bytes of weights at 3.35 TB/s.
# - So a deep encoder with a shallow decoder is faster at equal quality.
# - Two caches a decoder layer: its own tokens, which grow, and the memory's keys and values, made once for all beams.
#
# Answer: `(2 * millions * src / 989e6) / (2 * millions / 3.35e6)` steps, within 10 %. Settings: `src` 512, 2048, 8192;
# `millions` 220, 770.
#
# Source: Kasai et al. 2020, arXiv:2006.10369.
#
# ### How would you test it?
#
# - Change target token $t$: logits before $t$ stay. Change a source token: all logits move. Change a padded source
#   token: none.
# - Different vocabularies and lengths on the two sides, so that nothing can be swapped.
# - Learn to copy, then to reverse: a small model reaches nearly 0 in both within minutes, and in neither without
#   positions.
# - Step by step with caches against the whole target at once.
#
# Source: Vaswani et al. 2017, section 3, arXiv:1706.03762.
