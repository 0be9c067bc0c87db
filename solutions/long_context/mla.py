# ---
# jupyter:
#   dojo:
#     title: Multi-head latent attention
#     level: 5
#     minutes: 45
#     builds_on: [kv_cache, rope, rmsnorm]
#     sources:
#       - "DeepSeek-AI 2024: DeepSeek-V2, arXiv:2405.04434, section 2.1"
#       - "Shazeer 2019: Fast transformer decoding, one write-head is all you need, arXiv:1911.02150"
# ---

# %% [markdown]
# # Multi-head latent attention
#
# $$s_{ij} = \frac{q^{\mathrm{nope}}_i \cdot k^{\mathrm{nope}}_j + q^{\mathrm{rope}}_i \cdot k^{\mathrm{rope}}_j}
# {\sqrt{d_{\mathrm{nope}} + d_{\mathrm{rope}}}}$$
#
# DeepSeek-V2 caches a latent for each token, from which all heads' keys and values are made, and one rotated key.
# **Write** `MultiHeadLatentAttention(d_model, num_heads, kv_rank, nope_dim, rope_dim, v_dim, max_seq_len,
# theta=10000.0, eps=1e-6, *, device=None, dtype=None)`. No biases:
#
# | weight | rows | columns |
# |---|---|---|
# | `q_proj` | heads × [nope, rope] | `d_model` |
# | `kv_down` | [`kv_rank`, rope] | `d_model` |
# | `kv_norm`, of an RMSNorm | `kv_rank` | |
# | `kv_up` | heads × [key, value] | `kv_rank` |
# | `o_proj` | `d_model` | heads × value |
#
# The normed part of `kv_down` is the latent; the rest is one rope key for all heads. RoPE turns pairs `(2i, 2i + 1)`.
#
# - `forward(x)`: causal, from `(batch, seq, d_model)` to the same.
# - `decode(x, latents, rope_keys)`: `x` follows $t$ cached tokens, `(batch, t, kv_rank)` and `(batch, t, rope_dim)`;
#   gives `(out, latents, rope_keys)`, the new ones appended.
#
# Not allowed: `F.scaled_dot_product_attention`.
#
# **Example.** 128 heads of 128 + 64, rank 512: a token has 576 numbers in the cache, not 128 · (128 + 128) = 32,768.

# %% [markdown] tags=["contract"]
# - **Cache.** Latents are cached after the norm, rope keys after the rotation. $t$ may be 0.
# - **Any cut.** However a sequence is cut into calls of `decode`, of one token or more, it gives what `forward` gives.
# - **Absorbed.** `decode` makes no keys and no values of cached tokens. The key rows of `kv_up` multiply the query,
#   its value rows the weighted mean of the latents.
# - **Half precision.** Norm, angles and softmax in float32. Products may be rounded to the dtype of `x`.
# - **Gradients.** Those of `forward` are right; of `decode` none are asked for.
# - **Errors.** An odd `rope_dim`, at construction; positions from `max_seq_len` on, in `forward` and `decode`.

# %% [markdown] tags=["hint"]
# Write `forward` first, with a key `[nope, rope]` for each head. Which parts of it does a later token need again, and
# which are made from them?

# %% [markdown] tags=["hint"]
# $q \cdot (W_k\, c) = (W_k^\top q) \cdot c$, and $\sum_j a_j\, W_v\, c_j = W_v \sum_j a_j c_j$. With queries of rank
# `kv_rank` all heads read the same latents, as in multi-query attention.

# %% [markdown] tags=["hint"]
# `kv_up.weight.unflatten(0, (heads, -1)).split([nope, v], dim=1)` gives `(heads, nope, rank)` and `(heads, v, rank)`.
# `q_nope @ keys_up`, then heads and queries in one axis, `flatten(1, 2)`, against `latents.mT`: nothing is repeated.
# The mask is `tril(length - seq)`.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def rotate(x: Float[Tensor, "*batch seq dim"], cos: Tensor, sin: Tensor) -> Float[Tensor, "*batch seq dim"]:
    """RoPE on neighboring pairs, in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    even, odd = wide[..., 0::2], wide[..., 1::2]
    rotated = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return rotated.flatten(-2).to(x.dtype)


### END SOLUTION


# %%
class MultiHeadLatentAttention(nn.Module):
    """Causal self-attention whose keys and values are made from a latent of low rank, beside one rotated key.

    Softmax is computed in float32 at least. Raises ValueError for an odd rope_dim, and for a position from max_seq_len
    on. DeepSeek-AI 2024, arXiv:2405.04434.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        kv_rank: int,
        nope_dim: int,
        rope_dim: int,
        v_dim: int,
        max_seq_len: int,
        theta: float = 10000.0,
        eps: float = 1e-6,
        *,
        device=None,
        dtype=None,
    ):
        ### BEGIN SOLUTION
        if rope_dim % 2 != 0:
            raise ValueError(f"rope_dim {rope_dim} is odd: it has no pairs")
        super().__init__()
        self.num_heads, self.kv_rank = num_heads, kv_rank
        self.nope_dim, self.rope_dim, self.v_dim = nope_dim, rope_dim, v_dim
        self.max_seq_len, self.theta = max_seq_len, theta
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, num_heads * (nope_dim + rope_dim), **kind)
        self.kv_down = nn.Linear(d_model, kv_rank + rope_dim, **kind)
        self.kv_norm = nn.RMSNorm(kv_rank, eps=eps, device=device, dtype=dtype)
        self.kv_up = nn.Linear(kv_rank, num_heads * (nope_dim + v_dim), **kind)
        self.o_proj = nn.Linear(num_heads * v_dim, d_model, **kind)
        table = torch.empty(max_seq_len, rope_dim // 2, device=device, dtype=torch.float32)
        self.register_buffer("cos", table, persistent=False)
        self.register_buffer("sin", torch.empty_like(table), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the tables, which no state dict holds."""
        position = torch.arange(self.max_seq_len, dtype=torch.float64, device="cpu")
        exponent = -torch.arange(0, self.rope_dim, 2, dtype=torch.float64, device="cpu") / self.rope_dim
        angles = torch.outer(position, self.theta**exponent)
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())

    def project(self, x: Float[Tensor, "batch seq d_model"], start: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Both parts of the queries, latents and rope keys of tokens whose first one is at `start`."""
        end = start + x.shape[1]
        if end > self.max_seq_len:
            raise ValueError(f"{start} tokens and {x.shape[1]} more are beyond max_seq_len {self.max_seq_len}")
        cos, sin = self.cos[start:end], self.sin[start:end]
        q = self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (batch, heads, seq, nope + rope)
        q_nope, q_rope = q.split([self.nope_dim, self.rope_dim], dim=-1)
        latents, rope_keys = self.kv_down(x).split([self.kv_rank, self.rope_dim], dim=-1)
        return q_nope, rotate(q_rope, cos, sin), self.kv_norm(latents), rotate(rope_keys, cos, sin)

    def weigh(self, scores: Float[Tensor, "batch heads seq length"]) -> Float[Tensor, "batch heads seq length"]:
        """Causal softmax of scores that are not scaled yet; the last query sees all keys."""
        seq, length = scores.shape[-2:]
        scores = scores / math.sqrt(self.nope_dim + self.rope_dim)
        mask = torch.ones(seq, length, dtype=torch.bool, device=scores.device).tril(length - seq)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return F.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        """Causal self-attention of x, with keys and values of each head."""
        ### BEGIN SOLUTION
        q_nope, q_rope, latents, rope_keys = self.project(x, 0)
        kv = self.kv_up(latents).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k_nope, v = kv.split([self.nope_dim, self.v_dim], dim=-1)
        shared = (q_rope.flatten(1, 2) @ rope_keys.mT).unflatten(1, (self.num_heads, -1))
        weights = self.weigh(q_nope @ k_nope.mT + shared)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(-2))
        ### END SOLUTION

    def decode(
        self,
        x: Float[Tensor, "batch seq d_model"],
        latents: Float[Tensor, "batch cached kv_rank"],
        rope_keys: Float[Tensor, "batch cached rope_dim"],
    ) -> tuple[
        Float[Tensor, "batch seq d_model"],
        Float[Tensor, "batch length kv_rank"],
        Float[Tensor, "batch length rope_dim"],
    ]:
        """Attention of x to the cached tokens and to itself; the caches with its tokens appended."""
        ### BEGIN SOLUTION
        q_nope, q_rope, *new = self.project(x, latents.shape[1])
        latents, rope_keys = torch.cat([latents, new[0]], dim=1), torch.cat([rope_keys, new[1]], dim=1)
        up = self.kv_up.weight.unflatten(0, (self.num_heads, -1))
        key_up, value_up = up.split([self.nope_dim, self.v_dim], dim=1)  # (heads, nope, rank), (heads, v, rank)

        # All heads read the same latents: they share an axis with the queries, so that nothing is repeated.
        q_latent = (q_nope @ key_up).flatten(1, 2)  # (batch, heads * seq, rank)
        scores = q_latent @ latents.mT + q_rope.flatten(1, 2) @ rope_keys.mT
        weights = self.weigh(scores.unflatten(1, (self.num_heads, -1)))
        mean = (weights.flatten(1, 2) @ latents).unflatten(1, (self.num_heads, -1))
        out = self.o_proj((mean @ value_up.mT).transpose(1, 2).flatten(-2))
        return out, latents, rope_keys
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **A low rank instead of fewer heads.** Grouped-query attention shrinks the cache by sharing heads. Here each head
# keeps keys and values of its own, made from one latent: 576 numbers a token, as 2.25 key heads of 128 would take.
#
# **Absorbed.** $k_h = W_h\, c$, so $q \cdot k_h = (W_h^\top q) \cdot c$: what would be done to every cached token is
# done to the query once. Decoding is then multi-query attention with one key head of 576 and values of 512, from
# the same cache. It takes more FLOPs and far fewer bytes.
#
# **Why a key of its own for RoPE.** A rotation between $W_h$ and the query depends on the distance of the two tokens:
# $q^\top R_{j-i} W_h\, c_j$ cannot be absorbed. So position has a second, small part, rotated before it is cached.
#
# **Not absorbed in `forward`.** Prefill is compute-bound. Of a head and a pair of tokens scores and mean cost
# $2 (192 + 128)$ FLOPs with keys, and $2 (576 + 512)$ absorbed.
#
# **What it costs.** Decoding reads $t\,(\text{rank} + \text{rope})$ numbers, whatever the number of heads. With 128
# heads each number read serves 128 queries, about 240 FLOPs a byte in bfloat16: near the ridge of an H100's roofline,
# 295, where multi-head attention is at 1.
#
# ## The other formulation
#
# `torch.cat([latents, rope_keys], -1)` kept as one cache and `torch.cat([q_latent, q_rope], -1)` as one query: one
# product for the scores, as FlashMLA has it. Einsum says the same: `"bhnd,hdr->bhnr"`, then `"bhnr,btr->bhnt"`.
#
# Both sides of the absorption can be multiplied out beforehand, `q_proj` with the key rows: it saves a small product,
# and a weight of heads · rank · d_model has to be read.
#
# ## The usual mistakes
#
# - The scale by `nope_dim` alone: with 128 and 64, scores are 22 % too large.
# - The norm over all of `kv_down`'s output, or the latent cached before it.
# - `latents[:, None]` as a factor of `matmul`: it broadcasts by copying the cache for every head.
# - Rope keys rotated again at every step, or positions from 0 in every call.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many kB has a token in the cache, `layers` layers of rank `rank` and rope keys of 64, in bfloat16?
#
# - A latent and one rope key for each layer, two bytes a number. The heads do not enter.
# - DeepSeek-V3, 61 layers of rank 512: 70 kB. With 128 heads of keys and values it would be 4.0 MB.
#
# Answer: `2 * layers * (rank + 64) / 1e3` kB, within 3 %. Settings: `layers` 27, 60, 61; `rank` 256, 512.
#
# Source: DeepSeek-AI 2024, section 2.1.4, arXiv:2405.04434.
#
# ### How many times the FLOPs has absorbed attention, keys of `nope` + 64, values of `nope`, rank `rank`?
#
# - With keys and values a cached token costs a head $2 (\text{nope} + \text{rope} + v)$, absorbed
#   $2 (\text{rank} + \text{rope} + \text{rank})$: 3.4 times at 128 and 512.
# - It reads 57 times fewer bytes with 128 heads. Memory-bound, it is what counts.
#
# Answer: `(2 * rank + 64) / (2 * nope + 64)` times, within 5 %. Settings: `nope` 64, 128; `rank` 256, 512.
#
# Source: DeepSeek-AI 2024, appendix C, arXiv:2405.04434.
#
# ### Can the cache be split over the GPUs of tensor parallelism?
#
# - Not by heads: all of them read the same latents, so each GPU holds the whole cache, as in multi-query attention.
# - So attention is served data-parallel, each GPU with its own sequences, and experts expert-parallel.
#
# Source: DeepSeek-AI 2024, section 3.4, arXiv:2412.19437.
#
# ### Why is the latent normed, and what must be cached?
#
# - A bottleneck of low rank: its scale would drift, and multiply keys and values of every head.
# - The normed latent is cached: the norm is done once a token, and what `kv_up` is absorbed into is linear in it.
#
# Source: DeepSeek-AI 2024, section 2.1, arXiv:2405.04434.
