# ---
# jupyter:
#   dojo:
#     title: Transformer encoder, as in BERT
#     level: 4
#     minutes: 40
#     builds_on: [encoder_layer, absolute_positions, embedding]
#     sources:
#       - "Devlin et al. 2018: BERT, arXiv:1810.04805"
#       - "Vaswani et al. 2017: Attention is all you need, arXiv:1706.03762"
# ---

# %% [markdown]
# # Transformer encoder
#
# $$x^{(0)} = \mathrm{norm}\big(E[\mathrm{ids}] + P[0 \dots n-1]\big), \qquad
# x^{(l+1)} = \mathrm{layer}_l\big(x^{(l)}\big)$$
#
# BERT without its heads: a vector for each token that has seen the whole sentence. Positions are learned.
#
# **Write** `TransformerEncoder(vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None,
# dtype=None)`. `forward(token_ids, padding=None)` takes int32 or int64 `(batch, seq)` and boolean padding of the same
# shape, True = a real token, and returns hidden states `(batch, seq, d_model)`.
#
# ```
# token_embedding.weight (vocab_size, d_model)     position_embedding.weight (max_len, d_model)
# embedding_norm.{weight, bias} (d_model,)         layers.{i}: self_attn, ffn, attn_norm, ffn_norm
# ```
#
# A layer is that of **encoder_layer**; all norms are LayerNorms with $\varepsilon = 10^{-12}$. The stub holds only the
# model: write its parts too, or import your own. No operation of PyTorch is forbidden.
#
# **Example.** Let every `o_proj` and `fc2` be zero, weights and biases, `d_model = 2`, and `num_layers = 1`. Token 0
# has the embedding $(1, 2)$ and position 0 the vector $(0, 3)$. Their sum $(1, 5)$ has mean 3 and deviation 2, so the
# first norm gives $(-1, 1)$, and the silent layer normalizes that to the same.

# %% [markdown] tags=["contract"]
# - **Padding.** No token attends to padding in any layer, however low the scores are. Padded tokens have a position and
#   are computed like all others.
# - **Masked rows.** In a row of nothing but padding the weighted means are exact zeros. Gradients stay finite.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by `1 -
#   dropout`. It acts on the feed-forward branches: after gelu, after `fc2`, or both; elsewhere it is up to you.
# - **Norms.** They start as ones and zeros.
# - **Half precision.** Softmax and norms in float32. Scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call; more than `max_len` tokens in a
#   row.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# token, position = (1.0, 2.0), (0.0, 3.0)
# x = [t + p for t, p in zip(token, position)]
# mean = sum(x) / 2
# deviation = (sum((v - mean) ** 2 for v in x) / 2) ** 0.5
# print("sum", x, "mean", mean, "deviation", deviation, "normalized", [(v - mean) / deviation for v in x])

# %% [markdown] tags=["hint"]
# Write the model from the outside in: first `forward` in four lines, then the layer, then its parts. Choose attribute
# names from the table of parameters: the dots in a name are the modules in modules.

# %% [markdown] tags=["hint"]
# `self.position_embedding.weight[:seq]` has shape `(seq, d_model)` and broadcasts over the batch.

# %% [markdown] tags=["hint"]
# Turn the padding into a mask once, `padding[:, None, None, :]`, and hand it to every layer. For rows of padding alone:
# fill blocked scores with the lowest finite number, take the softmax, and set blocked weights to 0 afterwards.

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
        self, x: Float[Tensor, "batch seq d_model"], mask: Bool[Tensor, "batch 1 1 seq"] | None
    ) -> Float[Tensor, "batch seq d_model"]:
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(x), self.num_heads)
        v = split_heads(self.v_proj(x), self.num_heads)
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
        x = self.attn_norm(x + self.dropout(self.self_attn(x, mask)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return x


### END SOLUTION


# %%
class TransformerEncoder(nn.Module):
    """BERT without its heads: learned positions, post-norm layers, every token sees every real token.

    Softmax and norms are computed in float32 at least. Raises ValueError for heads that do not divide, and for
    more than max_len tokens. Devlin et al. 2018, arXiv:1810.04805.
    """

    def __init__(
        self,
        vocab_size: int,
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
        self.token_embedding = nn.Embedding(vocab_size, d_model, device=device, dtype=dtype)
        self.position_embedding = nn.Embedding(max_len, d_model, device=device, dtype=dtype)
        self.embedding_norm = nn.LayerNorm(d_model, EPS, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, device=device, dtype=dtype) for _ in range(num_layers)
        )
        ### END SOLUTION

    def forward(
        self, token_ids: Int[Tensor, "batch seq"], padding: Bool[Tensor, "batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """One vector for each token. Padding is True where a token is real."""
        ### BEGIN SOLUTION
        seq = token_ids.shape[1]
        if seq > self.max_len:
            raise ValueError(f"{seq} tokens in a row, but the model was built for max_len {self.max_len}")
        mask = None if padding is None else padding[:, None, None, :]
        x = self.token_embedding(token_ids) + self.position_embedding.weight[:seq]
        x = self.dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, mask)
        return x
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **The embeddings are normalized** before the first layer, because a token vector and a position vector have been
# learned apart and nothing says how long their sum is. Post-norm layers normalize their own output, so none is needed
# at the end.
#
# **The mask is made once.** Padding does not change from layer to layer.
#
# **Padded tokens are computed and thrown away.** They cost time but change nothing: no real token attends to them.
#
# **What it costs.** Two FLOPs for each weight of the layers and token, and $4 L n^2 d$ for scores and means: 97 GFLOPs
# for 512 tokens of BERT base, with 85 of its 109 million weights in the layers. In bfloat16 218 MB of weights, and no
# cache: a serving batch is compute-bound, unlike decoding. Short texts at batch 1 are launch-bound, hundreds of small
# kernels.
#
# ## The other formulation: a BERT checkpoint
#
# `bert.embeddings.token_type_embeddings.weight[0]`, the vector of the first segment, is the same for all tokens of a
# single sentence. Add it to every row of the positions, and the rest maps name by name: `attention.self.query` is
# `q_proj`, `attention.output.dense` is `o_proj`, `intermediate.dense` is `fc1`, `output.dense` is `fc2`.
#
# ## The usual mistakes
#
# - The norm on the embeddings forgotten.
# - Positions looked up by token id, or broadcast over the wrong axis when `seq = batch`.
# - The padding given to the first layer only.
# - The mask inverted: `attention_mask` of a tokenizer is 1 for real tokens, `key_padding_mask` of PyTorch is True for
#   the others.
# - Layers in a Python list, or the same layer in every place, `[layer] * num_layers`.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How is it trained, and why is that less efficient than next-token prediction?
#
# - 15 percent of the tokens are chosen, mostly hidden, and guessed from both sides.
# - Only these give a loss, so a pass teaches about a seventh of what a causal one does.
# - Of the chosen, some stay or are replaced at random, so that the model cannot ignore tokens that are not hidden.
#
# Source: Devlin et al. 2018, section 3.1, arXiv:1810.04805.
#
# ### How many million weights do `layers` such layers of width `d` have, with `d_ff` = 4 · d and without embeddings?
#
# - A layer has $4 d^2 + 2\, d\, d_{\mathrm{ff}} = 12 d^2$ and small change: one third attention, two thirds
#   feed-forward.
# - BERT base: 12 layers of 7.1 million, and 23 million in the table of 30,522 rows: 109 million in all.
# - Training with Adam takes 16 bytes for each weight, and the activations.
#
# Answer: `12 * layers * d**2 / 1e6` million, within 5 %. Settings: `layers` 12, 24; `d` 768, 1024.
#
# Source: Devlin et al. 2018, section 3, arXiv:1810.04805.
#
# ### A cross-encoder of 85 million weights ranks `documents` documents of `tokens` tokens: how many TFLOPs?
#
# - Query and document go through together, so nothing is stored: $2 N$ FLOPs a token for each pair, scores aside.
# - Vectors of documents are computed once and searched later. So search retrieves by vectors first and ranks few.
# - There is no KV cache to have: a new token changes every state, since earlier tokens attend to it.
#
# Answer: `2 * 85e6 * documents * tokens / 1e12` TFLOPs, within 10 %. Settings: `documents` 100, 1000, 10000; `tokens`
# 128, 512.
#
# Source: Reimers, Gurevych 2019, section 1, arXiv:1908.10084.
#
# ### Why only 512 positions, and what would you do for longer texts?
#
# - They are learned one by one: position 513 has no vector.
# - Cut the text into overlapping windows and join the results, which is what question answering did.
# - For a new model: RoPE, windows in most layers, and fused attention without padding.
#
# Source: Warner et al. 2024, section 2.1, arXiv:2412.13663.
