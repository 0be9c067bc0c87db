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
#     title: Transformer language model
#     level: 4
#     minutes: 40
#     builds_on: [rope, rmsnorm, gqa, swiglu, causal_attention, block]
#     sources:
#       - "Touvron et al. 2023: LLaMA, arXiv:2302.13971"
#       - "Su et al. 2021: RoFormer, arXiv:2104.09864"
# ---

# %% [markdown]
# # Transformer language model
#
# $$x^{(0)} = E[\mathrm{ids}], \qquad
# h = x^{(l)} + \mathrm{attn}_l\big(\mathrm{norm}(x^{(l)})\big), \qquad
# x^{(l+1)} = h + \mathrm{ffn}_l\big(\mathrm{norm}(h)\big)$$
#
# $$\mathrm{logits} = W_{\mathrm{head}}\; \mathrm{norm}\big(x^{(L)}\big)$$
#
# This is the whole model, as in Llama: embedding, a stack of pre-norm blocks, a last norm, and a projection to the
# vocabulary. The logits at a position predict the next token, so they may depend on this and earlier tokens only.
#
# **Write** `TransformerLM(vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None,
# theta=10000.0, eps=1e-5, *, device=None, dtype=None)`. `forward(token_ids)` takes integers of shape `(batch, seq)`,
# int32 or int64, and returns logits of shape `(batch, seq, vocab_size)`.
#
# **Parameters**, and no others, stored `(out_features, in_features)`, without biases.
# Here `head_dim = d_model / num_heads`, `kv_dim = num_kv_heads * head_dim`, and `{i}` counts layers from 0.
#
# | name | shape |
# |---|---|
# | `token_embedding.weight` | `(vocab_size, d_model)` |
# | `layers.{i}.attn_norm.weight`, `layers.{i}.ffn_norm.weight` | `(d_model,)` |
# | `layers.{i}.attn.q_proj.weight`, `layers.{i}.attn.o_proj.weight` | `(d_model, d_model)` |
# | `layers.{i}.attn.k_proj.weight`, `layers.{i}.attn.v_proj.weight` | `(kv_dim, d_model)` |
# | `layers.{i}.ffn.w1.weight`, `layers.{i}.ffn.w3.weight` | `(d_ff, d_model)` |
# | `layers.{i}.ffn.w2.weight` | `(d_model, d_ff)` |
# | `final_norm.weight` | `(d_model,)` |
# | `lm_head.weight`, not tied to the embedding | `(vocab_size, d_model)` |
#
# - **Norm**: $x / \sqrt{\mathrm{mean}(x^2) + \varepsilon} \odot w$ over the last dimension, with $\varepsilon$ = `eps`;
#   the weights start as ones.
# - **Attention** is causal: position `t` attends to positions `0 ... t`. Scores are divided by
#   $\sqrt{\text{head\_dim}}$.
#   Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of a query, key or value weight.
#   Query head `h` reads key/value head `h // (num_heads // num_kv_heads)`.
#   When `num_kv_heads` is None it is `num_heads`.
# - **RoPE** turns queries and keys of each head, not values. At position $p$ the pair of entries `(2i, 2i + 1)` turns
#   by $\varphi = p \cdot \theta^{-2i/\text{head\_dim}}$:
#   $(a, b) \to (a \cos\varphi - b \sin\varphi,\; a \sin\varphi + b \cos\varphi)$.
#   Positions are `0 ... seq - 1`.
# - **Tables** of cosines and sines are made once, at construction. They never show in `state_dict()`. They work on the
#   device that the model was moved to, and lose no precision when the model is cast to bfloat16 or float16.
# - **Feed-forward**: $W_2(\mathrm{silu}(W_1 x) \odot W_3 x)$.
# - **Dtype.** The logits have the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. With
#   float16 or bfloat16, norms and softmax are computed in float32. Rotated queries and keys, scores, weights and the
#   gated product may each be rounded. Positions stay exact where half precision cannot represent them: from 257 on in
#   bfloat16, from 2,049 on in float16.
# - **Errors** are `ValueError`s that hold the offending values: `d_model` not a multiple of `num_heads`, `num_heads`
#   not a multiple of `num_kv_heads`, an odd `head_dim` (at construction or at the call), and more than `max_seq_len`
#   tokens in a row.
# - **No loops** but the one over layers.
# - **Not graded:** ids outside the vocabulary, empty batches, and how matrices are initialised.
#
# The stub holds only the model. Write its parts yourself, under any class names, or import your own from other katas.
# Everything in PyTorch is allowed, fused attention included. Tables that are made once, at construction, may be
# computed with anything; the computation on inputs stays in PyTorch.
#
# **Example.** Take `d_model = 2`, a vocabulary of 3, and one head.
# Let every `o_proj` and `w2` be zero, so that the layers change nothing.
# Token 0 has the embedding $(3, 4)$. Its root mean square is $\sqrt{12.5} = 3.536$, so the last norm gives
# $(0.849, 1.131)$. With `lm_head.weight` = `[[1, 0], [0, 1], [1, 1]]` its logits are `[0.849, 1.131, 1.980]`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)  # an embedding, and layers that change nothing
# root = math.sqrt(sum(v * v for v in x) / len(x))
# normal = [v / root for v in x]
# head = ((1, 0), (0, 1), (1, 1))
# print("logits", [round(sum(w * v for w, v in zip(row, normal)), 3) for row in head])

# %% [markdown] tags=["hint"]
# Write the model from the outside in: first `TransformerLM.forward` in five lines, then the block, then its parts.
# Choose attribute names from the table of parameters: the dots in a name are the modules in modules.

# %% [markdown] tags=["hint"]
# The order in the attention: project, split heads, **rotate**, attend, merge heads, project.
# Look the cosines and sines up once for each forward pass, and hand them down to the layers.

# %% [markdown] tags=["hint"]
# `F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)` does the scale, the mask, the softmax and
# the groups. Keep the tables as plain attributes, because a cast of the model rounds buffers, and move them to
# the device of `x` when you use them. Compute the angles in float64.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def rotate(
    x: Float[Tensor, "*batch seq dim"], cos: Float[Tensor, "seq pairs"], sin: Float[Tensor, "seq pairs"]
) -> Float[Tensor, "*batch seq dim"]:
    """RoPE on neighbouring pairs, in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    cos, sin = cos.to(wide.dtype), sin.to(wide.dtype)
    first, second = slice(0, x.shape[-1], 2), slice(1, x.shape[-1], 2)
    out = torch.empty_like(wide)
    out[..., first] = wide[..., first] * cos - wide[..., second] * sin
    out[..., second] = wide[..., first] * sin + wide[..., second] * cos
    return out.to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float, *, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)
        return (wide * torch.rsqrt(mean_square + self.eps) * self.weight).to(x.dtype)


class CausalAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, *, device=None, dtype=None):
        super().__init__()
        self.head_dim = d_model // num_heads
        kv_dim = num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch seq d_model"], cos: Tensor, sin: Tensor) -> Tensor:
        q = self.split_heads(self.q_proj(x))
        k = self.split_heads(self.k_proj(x))
        v = self.split_heads(self.v_proj(x))
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(heads.transpose(-3, -2).flatten(-2))

    def split_heads(self, x: Float[Tensor, "*batch seq dim"]) -> Float[Tensor, "*batch heads seq head_dim"]:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(-3, -2)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int, *, device=None, dtype=None):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, d_ff: int, eps: float, *, device=None, dtype=None
    ):
        super().__init__()
        self.attn_norm = RMSNorm(d_model, eps, device=device, dtype=dtype)
        self.attn = CausalAttention(d_model, num_heads, num_kv_heads, device=device, dtype=dtype)
        self.ffn_norm = RMSNorm(d_model, eps, device=device, dtype=dtype)
        self.ffn = SwiGLU(d_model, d_ff, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch seq d_model"], cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.attn_norm(x), cos, sin)
        x = x + self.ffn(self.ffn_norm(x))
        return x


### END SOLUTION


# %%
class TransformerLM(nn.Module):
    """A Llama: pre-norm blocks of causal grouped-query attention with RoPE, and SwiGLU. The head is not tied.

    Norms, rotation and softmax are computed in float32 at least. Raises ValueError for heads that do not divide, an odd
    head dimension, and more than max_seq_len tokens. Touvron et al. 2023, arXiv:2302.13971.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        max_seq_len: int,
        num_kv_heads: int | None = None,
        theta: float = 10000.0,
        eps: float = 1e-5,
        *,
        device=None,
        dtype=None,
    ):
        ### BEGIN SOLUTION
        if num_kv_heads is None:
            num_kv_heads = num_heads
        if num_heads < 1 or d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_kv_heads < 1 or num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        head_dim = d_model // num_heads
        if head_dim % 2 != 0:
            raise ValueError(f"head_dim {head_dim} = d_model {d_model} / num_heads {num_heads} is odd")
        super().__init__()
        self.max_seq_len = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, device=device, dtype=dtype)
        self.layers = nn.ModuleList(
            Block(d_model, num_heads, num_kv_heads, d_ff, eps, device=device, dtype=dtype) for _ in range(num_layers)
        )
        self.final_norm = RMSNorm(d_model, eps, device=device, dtype=dtype)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, device=device, dtype=dtype)

        position = torch.arange(max_seq_len, dtype=torch.float64)
        frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.outer(position, frequency)
        # Plain attributes, not buffers: `model.to(torch.bfloat16)` would round a buffer.
        self.cos = angles.cos().to(device)
        self.sin = angles.sin().to(device)
        ### END SOLUTION

    def forward(self, token_ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq vocab"]:
        """Logits for the token after each position, from this and the earlier tokens."""
        ### BEGIN SOLUTION
        seq = token_ids.shape[-1]
        if seq > self.max_seq_len:
            raise ValueError(f"{seq} tokens in a row, but the model was built for max_seq_len {self.max_seq_len}")
        x = self.token_embedding(token_ids)
        self.cos, self.sin = self.cos.to(x.device), self.sin.to(x.device)
        positions = torch.arange(seq, device=x.device)
        cos, sin = self.cos[positions], self.sin[positions]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.final_norm(x))
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Every part is a kata of its own. What is new is how they fit together.
#
# - **One pair of tables** for all layers. The rows for this sequence are looked up once and handed down.
# - **RoPE stands after the head split**, because angles depend on the place within a head, not within `d_model`.
# - **The last norm** is needed because a pre-norm stack never normalises its sum.
# - **Fused attention** computes the same as written-out attention, and never stores the `seq × seq` scores.
#   With `is_causal=True` every query sees at least itself, so no row is dead.
#
# **What it costs.** $O(L\, (n d^2 + n^2 d + n\, d\, d_{\mathrm{ff}}) + n\, d\, V)$ time for $n$ tokens and $L$ layers.
# Each parameter takes 2 bytes in bfloat16. The logits take $4 n V$ bytes in float32: 4.2 GB for 8,192 tokens and a
# vocabulary of 128,000.
#
# ## The other formulation: a Llama checkpoint
#
# Llama in the layout of Hugging Face pairs entries `(i, i + head_dim/2)`. Its scores are the same as
# ours if the rows of `q_proj` and `k_proj` are permuted within each head, from halves to neighbours:
#
# `w.view(heads, 2, head_dim // 2, d_model).transpose(1, 2).reshape(heads * head_dim, d_model)`
#
# Queries and keys are permuted alike, so their products do not change. The values and the output stay as they are.
#
# ## The usual mistakes
#
# - The last norm forgotten. The logits are far too large, and the model still trains, badly.
# - Rotating before the head split: head 0 gets all the fast angles, the last head all the slow ones.
# - Rotating the values.
# - A softmax at the end. `F.cross_entropy` wants logits.
# - Layers in a Python list: no parameters, and nothing moves to the GPU. Use `nn.ModuleList`.
# - The same block object in every layer, `[Block(...)] * num_layers`: they share all weights.
# - `num_kv_heads or num_heads`, which hides a 0.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What loss do you expect before training?
#
# - About $\ln V$: 10.8 for 50,257 tokens. With small logits every token is equally likely.
# - Much more: the logits start too large. Less: the model sees its target.
# - After a few hundred steps it has learned frequencies. If it stays there, attention is not learning.
#
# Source: Karpathy 2019, A recipe for training neural networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### How many parameters has it?
#
# - $L\,(4 d^2 + 3\, d\, d_{\mathrm{ff}} + 2d) + 2 V d + d$ with as many key as query heads.
# - Llama 2 7B, with $L = 32$, $d = 4096$, $d_{\mathrm{ff}} = 11008$ and $V = 32000$: 6,738,415,616. Two thirds of a
#   layer are feed-forward.
# - With grouped heads the key and value matrices are `kv_dim × d_model`.
#
# Source: Touvron et al. 2023, section 2, arXiv:2307.09288.
#
# ### How do you test that it is causal?
#
# - Change the last token: all earlier logits stay the same. Better, change each token in turn.
# - By gradients: the derivative of the logits at $t$ by the embedding at $t + 1$ is exactly 0.
# - Train on fresh random tokens: the loss cannot fall below $\ln V$. If it does, the target leaks.
# - In half precision compare with a tolerance: another length may choose another kernel.
#
# Source: Karpathy 2019, A recipe for training neural networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### What changes with a KV cache, and how large is it?
#
# - The model takes new tokens, their positions and the cache, and returns logits and the longer cache.
# - $2\, L\, G\, \text{head\_dim}$ numbers for each token: 0.5 MB in bfloat16 for Llama 2 7B, a quarter of that with 8
#   key heads.
# - For sampling only the last position needs logits. At prefill that saves the largest tensor.
# - Test: prefill, then token by token, equals one full pass.
#
# Source: Kwon et al. 2023, arXiv:2309.06180.
#
# ### Prefill and decoding: what limits each?
#
# - Prefill does $2N$ operations for each token of the prompt with one reading of the weights: arithmetic.
# - Decoding reads all weights for one token of each sequence: bandwidth. 7 billion weights in bfloat16 at 3.35 TB/s
#   take 4 ms.
# - More sequences share the reading of the weights, but each brings a cache of its own to read.
# - Speculation checks several drafted tokens in one pass, since they cost nearly no more time than one.
#
# Source: Leviathan, Kalman, Matias 2022, arXiv:2211.17192; Pope et al. 2022, section 2, arXiv:2211.05102.
#
# ### Where does the memory go in training?
#
# - Weights, gradients, a float32 copy and two moments of Adam: 16 bytes for each parameter in mixed precision.
# - Activations, which grow with batch and length. Recomputing blocks trades them for a third more time.
# - Logits: 8,192 tokens and a vocabulary of 128,256 are 4.2 GB in float32, and their gradient as many again.
# - The loss can be taken chunk by chunk, so that the logits never exist at once.
#
# Source: Rajbhandari et al. 2019, section 3, arXiv:1910.02054; Wijmans et al. 2024, arXiv:2411.09009.
#
# ### What breaks in half precision?
#
# - Logits in bfloat16: near 20 they are 0.125 apart. Cross-entropy over a large vocabulary needs float32.
# - Weights updated in bfloat16 lose small steps: at 1 everything below 0.002 is rounded away.
# - Tables of the rotation that are buffers are cast with the model.
# - float16 needs a scaled loss, because small gradients underflow. bfloat16 does not.
#
# Source: Micikevicius et al. 2017, section 3, arXiv:1710.03740.
#
# ### The loss is a little too high. How do you find the bug?
#
# - Compare with a reference, layer by layer, on the same weights: the first difference names the part.
# - Usual suspects that still train: positions off by one, heads paired wrongly, no final norm, a target shifted twice,
#   dropout left on.
# - Overfit one batch: it must reach nearly 0. Then look at gradient norms by layer.
# - Train with one change at a time against a small baseline with the same seed and data.
#
# Source: Karpathy 2019, A recipe for training neural networks, https://karpathy.github.io/2019/04/25/recipe/.
