# %% [markdown]
# # A GPT on the screen: mend it, cache it, serve it, make it a classifier
#
# You are given one file, a small GPT that runs and trains: `attend`, `Block`, `MiniGPT`, `loss` and `train`. In an hour
# it is mended, given a KV cache, made to answer a batch of prompts, and turned into a classifier. It stays one file,
# and what was right in an earlier stage has to stay right.
#
# **Builds on** debug_lm, kv_cache, generate. **Sources:** Radford et al. 2019: Language Models are Unsupervised
# Multitask Learners (GPT-2); Pope et al. 2022: Efficiently Scaling Transformer Inference,
# [arXiv:2211.05102](https://arxiv.org/abs/2211.05102); Muennighoff 2022: SGPT: GPT Sentence Embeddings for Semantic
# Search, [arXiv:2202.08904](https://arxiv.org/abs/2202.08904).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 20 min
#
# "This small GPT trains, and something is off. Find and mend what is wrong."
#
# `attend(q, k, v, num_heads)` is causal attention, from three tensors `(batch, seq, d_model)` to one. `MiniGPT` makes
# logits `(batch, seq, vocab_size)` of ids `(batch, seq)`. `loss(model, ids)` is a number, and `train` gives the losses
# before each of its steps. All names and signatures stay.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Count, Kinds, Positions, Padding, Loss, Training</summary>
#
# - **Count.** There are about four bugs, each in a line or two. What a block is made of is as it should be: four
#   projections, a feed-forward layer with GELU, two LayerNorms; each branch is added to its input.
# - **Kinds.** They may be anywhere between the ids and the optimizer. Attention is causal, scaled by
#   $\sqrt{\text{head\_dim}}$, and head `h` owns the entries `h * head_dim ... (h + 1) * head_dim - 1`.
# - **Positions.** They start at 0, and a row may have `max_len` tokens.
# - **Padding.** The id 0 is padding, stands at the end of rows, and is no target.
# - **Loss.** The mean cross-entropy of the next token, over all targets that are no padding. `model` is any function.
# - **Training.** Losses are floats, taken before each step without dropout. Each step has dropout and follows its own
#   gradient alone; `train` ends in training mode.
#
# </details>

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

PAD = 0


# %%
def attend(
    q: Float[Tensor, "batch seq d_model"],
    k: Float[Tensor, "batch seq d_model"],
    v: Float[Tensor, "batch seq d_model"],
    num_heads: int,
) -> Float[Tensor, "batch seq d_model"]:
    """Causal attention of several heads."""
    batch, seq, d_model = q.shape
    head_dim = d_model // num_heads
    q = q.view(batch, seq, num_heads, head_dim).transpose(1, 2)
    k = k.view(batch, seq, num_heads, head_dim).transpose(1, 2)
    v = v.view(batch, seq, num_heads, head_dim).transpose(1, 2)
    scores = q @ k.mT / d_model**0.5
    later = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
    weights = torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1)
    heads = weights @ v
    return heads.reshape(batch, seq, d_model)


# %%
class Block(nn.Module):
    """Attention and a feed-forward layer, each after a norm and added to its input."""

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads = num_heads
        self.attn_norm = nn.LayerNorm(d_model)
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.o_proj = nn.Linear(d_model, d_model, bias=False)
        self.ffn_norm = nn.LayerNorm(d_model)
        self.fc1 = nn.Linear(d_model, 4 * d_model, bias=False)
        self.fc2 = nn.Linear(4 * d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        h = self.attn_norm(x)
        heads = attend(self.q_proj(h), self.k_proj(h), self.v_proj(h), self.num_heads)
        x = x + self.dropout(self.o_proj(heads))
        h = self.ffn_norm(x)
        hidden = F.gelu(self.fc1(h))
        return x + self.dropout(self.fc2(hidden))


# %%
class MiniGPT(nn.Module):
    """Logits for the token after each position."""

    def __init__(
        self, vocab_size: int, d_model: int, num_layers: int, num_heads: int, max_len: int, dropout: float = 0.0
    ):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, dropout) for _ in range(num_layers))
        self.final_norm = nn.LayerNorm(d_model)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq vocab"]:
        positions = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        x = self.token_embedding(ids) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.final_norm(x))


# %%
def loss(model, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, ""]:
    """The mean cross-entropy of each next token that is no padding; model makes logits of ids."""
    logits = model(ids[:, :-1])
    targets = ids[:, 1:]
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


# %%
def train(model: nn.Module, ids: Int[Tensor, "batch seq"], steps: int, lr: float) -> list[float]:
    """Fit the model to ids; the losses before each step, without dropout."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        model.eval()
        with torch.no_grad():
            losses.append(loss(model, ids).item())
        model.train()
        step_loss = loss(model, ids)
        step_loss.backward()
        optimizer.step()
    return losses


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("gpt_screen")
