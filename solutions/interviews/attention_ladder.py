# ---
# jupyter:
#   dojo:
#     title: "Ladder: attention, from one product to a bounded cache"
#     level: 3
#     minutes: 60
#     builds_on: [sdpa, mha, gqa, window_attention]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, arXiv:1706.03762"
#       - "Ainslie et al. 2023: GQA, arXiv:2305.13245"
#       - "Jiang et al. 2023: Mistral 7B, section 2, arXiv:2310.06825"
# ---

# %% [markdown]
# # Ladder: attention, from one product to a bounded cache
#
# An hour with one file. It starts with attention itself, and every stage asks for a little more of it, until the layer
# decodes with a bounded cache. What earlier stages asked for stays true. Write attention out: fused calls such as
# `F.scaled_dot_product_attention` are not allowed.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 10 min
#
# "Write scaled dot-product attention. Any number of leading axes; the mask is optional and broadcasts against the
# scores."
#
# ```python
# def attention(q, k, v, mask=None):
#     """Attention of `q (..., q_len, d)` to `k` and `v (..., k_len, d)`, which gives `(..., q_len, d)`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Mask.** Boolean, True = may attend. A masked key has no influence, however large or small the scores are.
# - **Masked rows.** A query that may attend to nothing gets exact zeros, and all gradients stay finite.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs.
# - **Scale.** One over the root of `d`.

# %% [markdown] tags=["hint"]
# Scores are `q @ k.transpose(-2, -1)`, scaled. Which axis do the weights sum to 1 over? What does softmax make of a row
# that is `-inf` throughout?

# %% [markdown] tags=["hint"]
# Fill with `torch.finfo(scores.dtype).min`, take `F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)`, and fill
# the weights with 0 where the mask is False. For float64 `torch.promote_types` names the dtype.

# %% [markdown] tags=["stage"]
# ## Stage 2 · 5 min
#
# "Now a decoder is trained on batches that are padded on the right. Make its mask from the lengths."
#
# ```python
# def decoder_mask(lengths, seq):
#     """The boolean mask `(batch, 1, seq, seq)` of texts of these `lengths (batch,)`, padded to `seq`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Causal.** A real token sees itself and every token before it.
# - **Padding keys.** Nobody sees one.
# - **Padding queries.** They may see whatever else: their results are thrown away, but must be finite with your
#   `attention`.
# - **Device.** That of `lengths`.
# - **Cost.** No loop over the batch or the tokens.

# %% [markdown] tags=["hint"]
# Two comparisons of positions and one `&`. Write the four axes beside each.

# %% [markdown] tags=["stage"]
# ## Stage 3 · 10 min
#
# "Now a layer: self-attention with several heads, `x (batch, seq, d_model)` to the same shape. The mask broadcasts
# against `(batch, num_heads, seq, seq)`. Four projections `q_proj`, `k_proj`, `v_proj` and `o_proj`, without biases."
#
# ```python
# class Attention(nn.Module):
#     """Self-attention of `x (batch, seq, d_model)` in parallel heads."""
#
#     def __init__(self, d_model, num_heads):
#         super().__init__()
#         ...
#
#     def forward(self, x, mask=None):
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Split.** Head `h` owns the `h`-th block of neighboring rows of the projections, and of the merged result.
# - **Errors.** `d_model` no multiple of `num_heads`: a ValueError, at construction or at the call.

# %% [markdown] tags=["hint"]
# `x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)`. To merge undo **both** steps, in the opposite order.

# %% [markdown] tags=["stage"]
# ## Stage 4 · 10 min
#
# "The cache will be what limits us. Let several query heads share one key head."
#
# ```python
# class Attention(nn.Module):
#     def __init__(self, d_model, num_heads, num_kv_heads=None):
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Groups.** Neighboring query heads share a key head. `k_proj` and `v_proj` have `num_kv_heads * head_dim` rows.
# - **Copies.** Keys and values are not repeated in memory, not by a broadcast `matmul` either.
# - **Default.** As before, with the same state dict.

# %% [markdown] tags=["hint"]
# All queries that meet one key head could be the rows of one product. Where can the axis of the group go?

# %% [markdown] tags=["hint"]
# `q.unflatten(1, (-1, group)).flatten(2, 3)` is `(batch, kv_heads, group * seq, head_dim)`. A mask needs the same, and
# the result goes back by `unflatten(2, (group, seq)).flatten(1, 2)`.

# %% [markdown] tags=["stage"]
# ## Stage 5 · 15 min
#
# "Now decode. A call takes the next tokens, and a dict that starts empty and is yours to fill."
#
# ```python
# class Attention(nn.Module):
#     def forward(self, x, mask=None, cache=None):
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Chunks.** Any number of new tokens a call, in any dtype. With a cache attention is causal: however a text is cut,
#   it gives what one call with a causal mask gives.
# - **Cached mask.** One given besides has columns for all tokens so far, old and new. A new token sees what both allow.
# - **Growth.** Amortized: a token does not copy all that is cached, nor project it again.
# - **Several layers.** Each has a dict of its own, and serves several texts by turns. Gradients are not asked for.

# %% [markdown] tags=["hint"]
# With `seq` queries and `length` keys the last query sees all of them: the diagonal ends in the lower right corner. And
# one query alone?

# %% [markdown] tags=["hint"]
# A buffer twice as long as needed and the number of tokens in it: new ones are written after the old, and what
# attention reads is a view. When it is full, the next is twice as long.

# %% [markdown] tags=["stage"]
# ## Stage 6 · 10 min
#
# "Texts get long. Bound the memory: a token sees a window of the last tokens only."
#
# ```python
# class Attention(nn.Module):
#     def __init__(self, d_model, num_heads, num_kv_heads=None, window=None):
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Window.** A token sees the last `window` tokens, itself included, and none after it: without a cache too. A mask
#   narrows that further; its columns are still all tokens so far.
# - **Bound.** However long the text, a cache takes the memory of `2 * window` tokens and the last chunk at most.
# - **Equality.** With a cache as without, also where a chunk is longer than the window.

# %% [markdown] tags=["hint"]
# The first token of a chunk still sees `window - 1` old ones. What the *next* call can see is all that must stay.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


# %%
def attention(
    q: Float[Tensor, "*batch q_len dim"],
    k: Float[Tensor, "*batch k_len dim"],
    v: Float[Tensor, "*batch k_len dim"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> Float[Tensor, "*batch q_len dim"]:
    """Softmax attention, in float32 at least. A query that may attend to nothing gets zeros."""
    ### BEGIN SOLUTION
    acc = torch.promote_types(q.dtype, torch.float32)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v
    ### END SOLUTION


# %%
def decoder_mask(lengths: Int[Tensor, "batch"], seq: int) -> Bool[Tensor, "batch 1 seq seq"]:
    """Who may attend to whom in texts of these lengths, padded on the right to seq."""
    ### BEGIN SOLUTION
    position = torch.arange(seq, device=lengths.device)
    causal = position <= position[:, None]
    real = position < lengths[:, None]
    return causal & real[:, None, None, :]
    ### END SOLUTION


# %%
### BEGIN SOLUTION
def split_heads(x: Float[Tensor, "*batch seq dim"], num_heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def recent(q_len: int, k_len: int, window: int | None, device: torch.device) -> Bool[Tensor, "q_len k_len"]:
    """What each of the last q_len tokens sees of k_len: those up to itself, in the window."""
    key_position = torch.arange(k_len, device=device)
    query_position = torch.arange(k_len - q_len, k_len, device=device)
    causal = key_position <= query_position[:, None]
    return causal if window is None else causal & (key_position > query_position[:, None] - window)


def extend(
    cache: dict, name: str, new: Float[Tensor, "batch heads new dim"], window: int | None
) -> Float[Tensor, "batch heads length dim"]:
    """Append keys or values to a cache; those that any of the new tokens sees, oldest first.

    A full buffer is replaced by one of twice what later tokens can see, so that a copy is paid for by as many appends.
    """
    new = new.detach()
    buffer, length = cache.get(name, (new[:, :, :0], 0))
    end = length + new.shape[2]
    first = 0 if window is None else max(0, length - window + 1)
    if end > buffer.shape[2]:
        seen = torch.cat([buffer[:, :, first:length], new], dim=2)
        kept = seen if window is None else seen[:, :, max(0, seen.shape[2] - window + 1) :]
        end = kept.shape[2]
        buffer = new.new_empty(*new.shape[:2], 2 * end, new.shape[3])
        buffer[:, :, :end] = kept
    else:
        buffer[:, :, length:end] = new
        seen = buffer[:, :, first:end]
    cache[name] = buffer, end
    return seen


### END SOLUTION


# %%
class Attention(nn.Module):
    """Self-attention whose key heads may be shared, with a cache and a window.

    Raises ValueError if num_heads does not divide d_model, or num_kv_heads does not divide num_heads.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int | None = None, window: int | None = None):
        ### BEGIN SOLUTION
        super().__init__()
        if num_kv_heads is None:
            num_kv_heads = num_heads
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        kv_dim = num_kv_heads * (d_model // num_heads)
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False)
        self.o_proj = nn.Linear(d_model, d_model, bias=False)
        ### END SOLUTION

    def forward(
        self,
        x: Float[Tensor, "*batch seq d_model"],
        mask: Bool[Tensor, "*#batch #seq #length"] | None = None,
        cache: dict | None = None,
    ) -> Float[Tensor, "*batch seq d_model"]:
        """Attention of x to itself, and to the tokens in the cache, which it joins."""
        ### BEGIN SOLUTION
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(x), self.num_kv_heads)
        v = split_heads(self.v_proj(x), self.num_kv_heads)
        if cache is not None:
            k = extend(cache, "k", k, self.window)
            v = extend(cache, "v", v, self.window)

        seq, k_len = x.shape[1], k.shape[2]
        if mask is not None:
            mask = mask[..., -k_len:]  # what has left the window has no key
        if seq > 1 and (cache is not None or self.window is not None):  # a single query sees every key
            seen = recent(seq, k_len, self.window, x.device)
            mask = seen if mask is None else mask & seen

        # The queries of a group stand one after the other, so that no key head is repeated.
        group = self.num_heads // self.num_kv_heads
        q = q.unflatten(1, (-1, group)).flatten(2, 3)  # (batch, kv_heads, group * seq, head_dim)
        if mask is not None:
            mask = mask.expand(*mask.shape[:-3], self.num_heads, seq, -1)
            mask = mask.unflatten(-3, (-1, group)).flatten(-3, -2)
        heads = attention(q, k, v, mask).unflatten(2, (group, seq)).flatten(1, 2)
        return self.o_proj(heads.transpose(-3, -2).flatten(-2))
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **What it costs.** Figures are for one layer of Llama 3 8B, width 4,096 with 32 query and 8 key heads of 128, at 8,192
# tokens in bfloat16, on an H100 with 989 TFLOPS and 3.35 TB/s: 1.1 TFLOPs of scores and means beside a cache of 34 MB.
#
# **1. Attention.** The lowest finite number instead of `-inf`, and a second fill after the softmax: a row without a key
# is then zeros, not nan. Scores and means take $4 n^2 d_{\mathrm{model}}$ FLOPs, 1.1 TFLOPs or 1.1 ms; the scores would
# take 4.3 GB in HBM, which is why kernels are fused. *Mistakes:* softmax over the queries, half precision sums.
#
# **2. The mask.** With padding on the right causality alone hides it from every real token. The padding half of the
# mask guards only rows that are thrown away, and matters for encoders and for padding on the left. Written out it is
# 67 MB a text, and a kernel is better given the lengths. *Mistake:* `lengths` compared along the wrong axis.
#
# **3. Heads.** After the transpose they are one more batch axis. *Mistake:* a `reshape` that merges without the
# transpose back: shapes fit, tokens are mixed.
#
# **4. Groups.** Projections fall from 1.1 to 0.69 TFLOPs; scores and means stay. The cache falls to a quarter. Folding
# the group into the query axis leaves keys where they are; a repeat, or a broadcast `matmul`, which expands and copies
# inside, writes and reads four times the cache and gives the saving back. *Mistake:* `repeat` for `repeat_interleave`.
#
# **5. The cache.** 4,096 bytes a token, 34 MB at 8,192: 10 µs to read for each new token. Grown by `cat` token by token
# the layer would write 137 GB on the way there; doubled buffers copy each token two to three times in all. A server
# that knows `max_len` allocates once, or in pages. *Mistakes:* the diagonal from the upper left corner, no mask for a
# chunk, state in the module.
#
# **6. The window.** A buffer of twice the window is compacted when it is full, once every `window` tokens, and what
# attention reads is one view. A ring of `window` slots takes half of that, but two writes where a chunk wraps around,
# and the order of its slots must be known to the mask. *Mistake:* trimming to the window *before* the chunk's first
# token has seen its last `window - 1`.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many TFLOPs do a layer's scores and weighted means take: `tokens` tokens, `heads` heads of 128, no mask?
#
# - Two products, each with two FLOPs for each pair of tokens and each of the `heads * 128` features.
# - At 8,192 tokens and 32 heads 1.1 TFLOPs, as much as four square projections. A causal kernel skips half.
# - How many key heads there are does not enter.
#
# Answer: `4 * tokens**2 * heads * 128 / 1e12` TFLOPs, within 5 %. Settings: `tokens` 4096, 8192, 32768; `heads` 16, 32,
# 64.
#
# Source: Dao et al. 2022, section 2, arXiv:2205.14135.
#
# ### How many MB does a layer's cache take: `batch` texts, a window of `window`, `kv_heads` of 128 in bfloat16?
#
# - A key and a value of two bytes a number for each token that can still be seen, however long the text.
# - Mistral 7B, a window of 4,096 and 8 key heads: 17 MB a layer and text, 0.54 GB in 32 layers. Without the window it
#   is 4.3 GB at 32,768 tokens.
#
# Answer: `4 * 128 * kv_heads * window * batch / 1e6` MB, within 5 %. Settings: `batch` 1, 8, 32; `window` 1024, 4096;
# `kv_heads` 1, 8.
#
# Source: Jiang et al. 2023, section 2, arXiv:2310.06825.
#
# ### Why do fewer key heads make decoding faster, and prefill hardly?
#
# - A decoding step is memory-bound: it reads the whole cache to do about one FLOP a byte and query head of a group.
#   With a group of four a quarter is read.
# - Prefill is compute-bound: a key that is read serves thousands of queries. Scores and means keep their FLOPs, and
#   only two of the four projections shrink.
# - More texts fit beside the weights, so batches grow, and throughput with them.
#
# Source: Ainslie et al. 2023, arXiv:2305.13245.
#
# ### The window works in training, and long texts turn to noise when decoding. When are sinks needed?
#
# - Where the model was trained with full attention: heads with nothing to look at park their weight on the first
#   tokens. Once these leave the cache, that weight goes to tokens that mean something.
# - The remedy is to keep the first few keys, about four, or to train a learned sink logit for each head.
# - A model that was trained with the window has learned to do without. Between layers information still travels
#   `window - 1` tokens a layer.
#
# Source: Xiao et al. 2023, section 3, arXiv:2309.17453.

# %% [markdown] tags=["solution", "signals"]
# ### Stage 1
#
# Strong: asks what a masked row gives and which dtypes come; keeps softmax in float32 unasked; tries an example.
#
# Weak: forgets the scale or the axis of softmax; writes `-inf` and never asks about a row without a key.
#
# ### Stage 2
#
# Strong: says that causality already hides padding on the right from real tokens; gets the axes right in one go.
#
# Weak: loops over the batch; calls `.item()` or `max()` on lengths; makes padding queries nan.
#
# ### Stage 3
#
# Strong: reuses `attention` as it is; projects first and splits afterwards; says why the merge copies.
#
# Weak: reshapes instead of transposing; a loop over heads; scales by the width of the model.
#
# ### Stage 4
#
# Strong: sees that the saving is memory traffic, and that a repeat spends it again; folds the group into the queries.
#
# Weak: `repeat` in the wrong order and no test that would show it; changes the parameters of the default.
#
# ### Stage 5
#
# Strong: asks whether a call may bring several tokens; tests chunks against one call; speaks of amortized growth.
#
# Weak: a mask from the upper left corner; state in the module; `torch.cat` for every token without a word on its cost.
#
# ### Stage 6
#
# Strong: draws which keys the first token of a chunk sees before trimming; names the bound, and when sinks are needed.
#
# Weak: off by one; trims before attending; compares only single tokens with the full call.
