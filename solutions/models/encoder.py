# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
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
# This is BERT without its heads: it turns a sentence into one vector for each token, and each vector has seen the whole
# sentence. Positions are learned, one vector for each place. The layers are those of the kata **encoder_layer**.
#
# **Write** `TransformerEncoder(vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None,
# dtype=None)`. `forward(token_ids, padding=None)` takes integers of shape `(batch, seq)`, int32 or int64, and returns
# hidden states of shape `(batch, seq, d_model)`.
#
# **Parameters**, and no others, stored `(out_features, in_features)`. Here `{i}` counts layers from 0.
#
# | name | shape |
# |---|---|
# | `token_embedding.weight` | `(vocab_size, d_model)` |
# | `position_embedding.weight` | `(max_len, d_model)` |
# | `embedding_norm.weight`, `embedding_norm.bias` | `(d_model,)` |
# | `layers.{i}.self_attn.{q_proj, k_proj, v_proj, o_proj}.weight` | `(d_model, d_model)` |
# | `layers.{i}.self_attn.{q_proj, k_proj, v_proj, o_proj}.bias` | `(d_model,)` |
# | `layers.{i}.attn_norm.{weight, bias}`, `layers.{i}.ffn_norm.{weight, bias}` | `(d_model,)` |
# | `layers.{i}.ffn.fc1.weight`, `layers.{i}.ffn.fc1.bias` | `(d_ff, d_model)`, `(d_ff,)` |
# | `layers.{i}.ffn.fc2.weight`, `layers.{i}.ffn.fc2.bias` | `(d_model, d_ff)`, `(d_model,)` |
#
# - **Norms** are LayerNorms over the last dimension, with $\varepsilon = 10^{-12}$; weights start as ones, biases as
#   zeros.
# - **A layer** is $h = \mathrm{norm}_a(x + \mathrm{attn}(x))$ and then $\mathrm{norm}_f(h + \mathrm{ffn}(h))$:
#   post-norm. Attention has heads as in **mha**, scores divided by $\sqrt{\text{head\_dim}}$, and biases on all four
#   projections. The feed-forward layer is $W_2\,\mathrm{gelu}(W_1 x + b_1) + b_2$ with the exact gelu.
# - **Bidirectional**: every token attends to all real tokens.
# - **`padding`** is boolean, of shape `(batch, seq)`, **True = a real token**. No token attends to padding. Padded
#   tokens have a position and are computed like all others, but they never influence a real token. If a row is nothing
#   but padding, the weighted means in it are exact zeros. All gradients stay finite.
# - **Dropout** acts in training mode only. Each entry is set to 0 with probability `dropout`, and the others are
#   divided by `1 - dropout`. It acts on the branches of the feed-forward layers: after gelu, after `fc2`, or both.
#   Whether it acts elsewhere is up to you; the normalised embeddings and the branches of the attention, before they are
#   added, are usual. In evaluation mode nothing is dropped or scaled.
# - **Dtype.** The result has the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. In
#   float16 and bfloat16, softmax and norms are computed in float32. Scores and weights may each be rounded once more.
# - **Errors** are `ValueError`s that hold the offending values: `d_model` not a multiple of `num_heads` (at
#   construction or at the call), more than `max_len` tokens in a row.
# - **No loops** but the one over layers.
# - **Not graded:** ids outside the vocabulary, empty batches, padding of another dtype, a `dropout` outside 0 to 1, and
#   how matrices are initialised.
#
# The stub holds only the model. Write its parts yourself, or import your own from other katas. No operation of
# PyTorch is forbidden, and the computation stays in it.
#
# **Example.** Let every `o_proj` and `fc2` be zero, weights and biases, `d_model = 2`, and `num_layers = 1`. Token 0
# has the embedding $(1, 2)$ and position 0 the vector $(0, 3)$. Their sum $(1, 5)$ has mean 3 and deviation 2, so the
# first norm gives $(-1, 1)$, and the silent layer normalises that to the same.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# token, position = (1.0, 2.0), (0.0, 3.0)
# x = [t + p for t, p in zip(token, position)]
# mean = sum(x) / 2
# deviation = (sum((v - mean) ** 2 for v in x) / 2) ** 0.5
# print("sum", x, "mean", mean, "deviation", deviation, "normalised", [(v - mean) / deviation for v in x])

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


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        if num_heads < 1 or d_model % num_heads != 0:
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
        context: Float[Tensor, "batch k_len d_model"],
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None = None,
    ) -> Float[Tensor, "batch q_len d_model"]:
        acc = torch.promote_types(x.dtype, torch.float32)
        q = self.split_heads(self.q_proj(x)).to(acc)
        k = self.split_heads(self.k_proj(context)).to(acc)
        v = self.split_heads(self.v_proj(context)).to(acc)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(acc).min)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        heads = (weights @ v).to(x.dtype)
        return self.o_proj(heads.transpose(-3, -2).flatten(-2))

    def split_heads(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch heads seq head_dim"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float, *, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.fc2(self.dropout(F.gelu(self.fc1(x))))


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


### END SOLUTION


# %%
class TransformerEncoder(nn.Module):
    """BERT without its heads: learned positions, post-norm layers, every token sees every real token.

    Scores, softmax and norms are computed in float32 at least. Raises ValueError for heads that do not divide, and for
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
# **The embeddings are normalised** before the first layer, because a token vector and a position vector have been
# learned apart and nothing says how long their sum is. Post-norm layers normalise their own output, so none is needed
# at the end.
#
# **The mask is made once.** Padding does not change from layer to layer.
#
# **Padded tokens are computed and thrown away.** They cost time but change nothing: no real token attends to them.
#
# **What it costs.** $O(L\, (n d^2 + n^2 d + n\, d\, d_{\mathrm{ff}}))$ time for $n$ tokens and $L$ layers. BERT base
# has 109 million parameters: 436 million bytes in float32. The scores of each layer take $4 H n^2$ bytes for $H$ heads.
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
# ### Where would you choose such a model over a decoder?
#
# - Where the whole text is there already and no text is wanted: search, tagging, ranking, filtering.
# - One pass gives all tokens with both contexts. A model of 100 million weights is enough for many of these tasks.
# - Where the answer is text, or the task changes from request to request, a decoder.
#
# Source: Warner et al. 2024, arXiv:2412.13663.
#
# ### How is a sentence read off?
#
# - From a first token that stands for the whole, or by the mean over real tokens.
# - Untuned, both are poor vectors for search. Training on pairs makes them good.
# - The mean must leave out padding. Forgetting that makes the vector depend on the batch.
#
# Source: Reimers, Gurevych 2019, arXiv:1908.10084.
#
# ### Where are the weights, and what do they cost?
#
# - BERT base: 109 million, of which the table of 30,522 rows has 23 million, and each of 12 layers 7 million.
# - A layer is $4 d^2 + 2\, d\, d_{\mathrm{ff}}$ and small change: one third attention, two thirds feed-forward.
# - In float32 436 MB. Training with Adam takes 16 bytes for each weight, 1.7 GB, and the activations.
#
# Source: Devlin et al. 2018, section 3, arXiv:1810.04805.
#
# ### Why only 512 positions, and what would you do for longer texts?
#
# - They are learned one by one: position 513 has no vector.
# - Cut the text into overlapping windows and join the results, which is what question answering did.
# - For a new model: RoPE, windows in most layers, and fused attention without padding.
#
# Source: Warner et al. 2024, section 2.1, arXiv:2412.13663.
#
# ### What changes with a KV cache?
#
# - There is none to have: a new token changes every state, since earlier tokens attend to it.
# - What can be stored is the result: vectors of documents, computed once and searched later.
# - A cross-encoder that reads query and document together must run for each pair. That is why search retrieves by
#   vectors first and ranks few.
#
# Source: Reimers, Gurevych 2019, section 1, arXiv:1908.10084.
#
# ### What would a profiler show in serving?
#
# - Requests of different lengths in one batch: a share of the work is padding. Batches by length or flat batches
#   without padding remove it.
# - Short texts at batch 1 are limited by launches: hundreds of small kernels. A compiled or captured graph helps most.
# - At large batches the products run near the peak, unlike in decoding, because every pass has many tokens.
#
# Source: Krell et al. 2021, arXiv:2107.02027.
#
# ### How would you test it?
#
# - A published checkpoint: hidden states equal to the reference to $10^{-4}$ or so in float32.
# - Padding on the right: real tokens as without it. The first token changed: the last one moves, and the other way
#   round.
# - Two layers with different weights, to catch a shared block. Each parameter gets a gradient.
# - Rows as many as positions, to catch positions added along the batch.
#
# Source: Devlin et al. 2018, arXiv:1810.04805.
