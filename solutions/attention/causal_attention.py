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
#     title: Causal self-attention with RoPE
#     level: 3
#     minutes: 25
#     builds_on: [rope, causal_mask, gqa]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, arXiv:1706.03762"
#       - "Su et al. 2021: RoFormer, arXiv:2104.09864, section 3.4"
#       - "Ainslie et al. 2023: GQA, arXiv:2305.13245"
# ---

# %% [markdown]
# # Causal self-attention with RoPE
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{R(Q_h)\, R(K_g)^\top}{\sqrt{d}} + M\right) V_g, \qquad
# M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}$$
#
# This is the attention of a language model. Tokens see themselves and what came before them, never what comes after.
# Queries and keys are rotated by their positions, so that scores depend on distances. Values are not rotated.
#
# **Write**
# `CausalSelfAttention(d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None)`
# with `forward(x, positions=None)`, from `(batch, seq, d_model)` to the same shape.
#
# - **Parameters**, and no others, without biases: `q_proj.weight` and `o_proj.weight`, each `(d_model, d_model)`;
#   `k_proj.weight` and `v_proj.weight`, each `(num_kv_heads * head_dim, d_model)`.
#   Here `head_dim = d_model / num_heads`, and `num_kv_heads` is `num_heads` when it is None.
# - **Heads** as in **gqa**: head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of a projection,
#   and query head `h` reads key/value head `h // (num_heads // num_kv_heads)`. Scores are divided by
#   $\sqrt{\text{head\_dim}}$.
# - **RoPE** as in **rope**, on each head of the queries and keys: at position $p$ the pair of entries `(2i, 2i + 1)`
#   turns by $\varphi = p \cdot \theta^{-2i/\text{head\_dim}}$:
#   $(a, b) \to (a \cos\varphi - b \sin\varphi,\; a \sin\varphi + b \cos\varphi)$.
# - **`positions`** are integers, int32 or int64, of shape `(seq,)` or `(batch, seq)`. By default they are
#   `0 ... seq - 1`. They only say how far to rotate. **Who attends to whom** depends on the order in the sequence
#   alone: token `i` attends to tokens `0 ... i`, whatever their positions.
# - **Tables** of cosines and sines are made once, at construction, with anything, NumPy included; the computation on
#   inputs stays in PyTorch. They never show in `state_dict()`. They work on the device that the module was moved to,
#   and lose no precision when it is cast to bfloat16 or float16.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax and rotation are computed in
#   float32, at far positions too. Queries, keys, scores and weights may each be rounded to the dtype of the inputs, as
#   Llama does. float64 in, float64 out; float32 accuracy is enough.
# - **Errors** are `ValueError`s that hold the offending values. When the module is built or called: `d_model` not a
#   multiple of `num_heads`, `num_heads` not a multiple of `num_kv_heads`, an odd `head_dim`. At the call: a position
#   outside `[0, max_seq_len)`. The default positions of a sequence that is too long are outside too.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads, batch or positions.
# - **Not graded**: inputs of another dtype than the parameters, and heads below 1.
#
# No operation is forbidden.
#
# **Example.** `d_model = 2`, one head, all four weights the identity, $x = ((1, 0), (1, 0))$. Token 0 sees only itself
# and gives $(1, 0)$. Token 1 is turned by 1 radian and scores $\cos 1 / \sqrt 2 = 0.382$ with token 0 and
# $1 / \sqrt 2 = 0.707$ with itself. But all values are $(1, 0)$, so it gives $(1, 0)$ as well.
# For $x = ((1, 0), (0, 1))$ the query of token 1, turned, is $(-\sin 1, \cos 1)$. Its scores are $-0.595$ and $0.707$,
# its weights $0.214$ and $0.786$, and the result is $(0.214, 0.786)$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# query = (-math.sin(1), math.cos(1))  # token 1 is (0, 1), turned by 1 radian
# keys = ((1.0, 0.0), query)  # token 0 stands at position 0 and is not turned
# scores = [sum(q * k for q, k in zip(query, key)) / math.sqrt(2) for key in keys]
# exponentials = [math.exp(score) for score in scores]
# print("scores", [round(s, 3) for s in scores], "weights", [round(e / sum(exponentials), 3) for e in exponentials])

# %% [markdown] tags=["hint"]
# The order is project, split heads, **rotate**, attend, merge heads, project. Rotate before the split and every head
# gets other frequencies.

# %% [markdown] tags=["hint"]
# Look the rows of the tables up by position. Rows of `(batch, seq, pairs)` need an axis of size 1 for the heads; rows
# of `(seq, pairs)` broadcast as they are.

# %% [markdown] tags=["hint"]
# `F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)` does the scale, the mask, the softmax and
# the groups. Keep the tables as plain attributes, because a cast of the module rounds buffers, and move them to the
# device of `x` when you use them. Compute the angles in float64. Check the positions before you index with them.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def rotate(x: Float[Tensor, "*batch seq dim"], cos: Tensor, sin: Tensor) -> Float[Tensor, "*batch seq dim"]:
    """RoPE on neighbouring pairs, in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    cos, sin = cos.to(wide.dtype), sin.to(wide.dtype)
    first, second = slice(0, x.shape[-1], 2), slice(1, x.shape[-1], 2)
    out = torch.empty_like(wide)
    out[..., first] = wide[..., first] * cos - wide[..., second] * sin
    out[..., second] = wide[..., first] * sin + wide[..., second] * cos
    return out.to(x.dtype)


### END SOLUTION


# %%
class CausalSelfAttention(nn.Module):
    """Each token attends to itself and to what came before; queries and keys are rotated by position.

    Rotation and softmax are computed in float32 at least. Raises ValueError for heads that do not divide, an odd head
    dimension, and a position outside [0, max_seq_len). Su et al. 2021, arXiv:2104.09864; Ainslie et al. 2023,
    arXiv:2305.13245.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        max_seq_len: int,
        theta: float = 10000.0,
        num_kv_heads: int | None = None,
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
        self.head_dim = head_dim
        self.max_seq_len = max_seq_len
        kv_dim = num_kv_heads * head_dim
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

        position = torch.arange(max_seq_len, dtype=torch.float64)
        frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.outer(position, frequency)
        # Plain attributes, not buffers: `module.to(torch.bfloat16)` would round a buffer.
        self.cos, self.sin = angles.cos().to(device), angles.sin().to(device)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], positions: Int[Tensor, "*#batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Attention of x to itself. One row of positions serves the whole batch, or each entry has its own."""
        ### BEGIN SOLUTION
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        outside = positions[(positions < 0) | (positions >= self.max_seq_len)]
        if outside.numel() > 0:
            raise ValueError(f"position {outside[0].item()} is outside [0, {self.max_seq_len}), those in the tables")
        self.cos, self.sin = self.cos.to(x.device), self.sin.to(x.device)
        cos, sin = self.cos[positions.long()], self.sin[positions.long()]
        if positions.ndim == 2:
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # (batch, 1, seq, pairs)
        q = self.split_heads(self.q_proj(x))
        k = self.split_heads(self.k_proj(x))
        v = self.split_heads(self.v_proj(x))
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(heads.transpose(-3, -2).flatten(-2))
        ### END SOLUTION

    ### BEGIN SOLUTION
    def split_heads(self, x: Float[Tensor, "*batch seq dim"]) -> Float[Tensor, "*batch heads seq head_dim"]:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(-3, -2)

    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Two facts about order, kept apart.** The mask says who may be seen: it goes by the place in the sequence. The
# rotation says how far apart two tokens are: it goes by the positions. They differ when a batch is padded on the left,
# when several documents are packed into one row, or when a cache holds the beginning.
#
# **Rotate after the split.** The angles belong to the entries of one head: pair `i` of every head turns at the same
# speed.
#
# **Positions are checked, not trusted.** A negative index reads the end of the table without a word.
#
# **Tables in float64, as plain attributes.** At position 10,000 a float32 angle is off by up to 5e-4. A cast of the
# model to bfloat16 rounds every floating buffer, but leaves plain attributes alone. The price is a line that moves
# them.
#
# **What it costs.** $O(n d^2 + n^2 d)$ time for $n$ tokens; a fused kernel skips the masked half of the second term. It
# stores no scores, so memory is $O(n d)$: $4 n d$ bytes in float32 for each of queries, output and result. Scores
# written out would take $4 H n^2$ bytes. The tables take $8\,\text{head\_dim}$ bytes for each position.
#
# ## The other formulation
#
# Written out: `scores = q @ k.mT / math.sqrt(head_dim)`,
# `scores.masked_fill(~torch.ones(seq, seq).tril().bool(), -inf)`, softmax, `@ v`. No row is dead, since each token
# sees itself, so `-inf` is safe here. With groups, view the queries as `(batch, kv_heads, group, seq, head_dim)` and
# give keys and values an axis of size 1.
#
# ## The usual mistakes
#
# - Rotating the values, or only the queries.
# - Rotating before the head split.
# - `diagonal=0` in `triu`, which hides a token from itself: the first row is then nan.
# - Positions `(batch, seq)` indexed into tables that then line up their batch axis with the heads.
# - Comparing positions to build the mask: left-padded rows with repeated positions then see the future.
# - Scaling by $\sqrt{d_{\mathrm{model}}}$.

# %% tags=["active-ipynb", "solution"]
# # Who hears whom: how much each output moves with each input, by the Jacobian. Above the diagonal nothing does
# import matplotlib.pyplot as plt
#
# torch.manual_seed(0)
# module, x = CausalSelfAttention(16, 4, max_seq_len=12, num_kv_heads=2), 2 * torch.randn(12, 16)
# jacobian = torch.autograd.functional.jacobian(lambda x: module(x[None])[0], x)  # (query, d_model, key, d_model)
# influence = jacobian.square().sum(dim=(1, 3)).sqrt()
# figure, axis = plt.subplots(figsize=(5, 4.2), layout="constrained")
# figure.colorbar(axis.imshow(influence), label="size of the derivative")
# axis.set(xlabel="token that is moved", ylabel="token that is watched")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why does causality make training efficient?
#
# - One pass gives a loss at every position, for all prefixes at once.
# - The states of earlier tokens never depend on later ones, so nothing has to be computed again for a longer prefix.
# - That is also why a cache is exact. In an encoder every new token would change all states.
#
# Source: Radford et al. 2018, Improving language understanding by generative pre-training, section 3.1,
# https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf.
#
# ### What changes with a KV cache?
#
# - Rotated keys and plain values are appended. The new query has the position that the cache has as its length.
# - One query needs no mask. A chunk of a prompt behind a cache needs one aligned at the bottom right.
# - The test: token by token with a cache gives the logits of a single pass, to rounding.
# - Preallocate it or keep it in pages. Concatenating copies the whole cache at each step.
#
# Source: Kwon et al. 2023, arXiv:2309.06180.
#
# ### Does a causal model need positions at all?
#
# - It can do without. The mask breaks the symmetry, and a token can infer how many it sees.
# - Models without any positions train to nearly the same loss, and probes find positions in their states.
# - The first layer alone cannot tell the order of what a token sees. Only depth can.
#
# Source: Haviv et al. 2022, arXiv:2203.16634.
#
# ### How are packed documents kept apart, and how rows that are padded on the left?
#
# - Packing: a block for each document in the mask. Restarting positions is not needed for RoPE, as only distances
#   count.
# - Left padding: mask the padded keys, and count positions from the first real token.
# - A mask built by comparing positions is wrong in both cases. Build it from places in the sequence.
# - The loss must skip the border: the last token of a document does not predict the first of the next.
#
# Source: Krell et al. 2021, arXiv:2107.02027.
#
# ### What does a sliding window change, and what breaks when old keys are dropped?
#
# - Cost and cache are bounded by the window: $O(n w d)$ time and $w$ keys for each layer.
# - A model trained with full attention fails once its first tokens leave the cache. Much weight rests on them although
#   they say little.
# - Keeping a few of the first keys mends that. Positions are then counted within the cache.
#
# Source: Xiao et al. 2023, arXiv:2309.17453.
#
# ### What breaks in half precision?
#
# - Positions: bfloat16 holds integers exactly up to 256 only. 4,096 positions become 769 different numbers.
# - Tables as buffers are rounded by `model.to(torch.bfloat16)`. Plain attributes are not.
# - Angles in float32 are off by up to $5 \cdot 10^{-4}$ near position 10,000.
# - Rotation and softmax in float32, one rounding after each.
#
# Source: Kalamkar et al. 2019, arXiv:1905.12322.
#
# ### What would a profiler show for prefill and for decoding?
#
# - Prefill: large products near the peak of the arithmetic, and attention that grows with the square of the prompt.
# - Decoding: the same layers as thin products that wait for weights and cache. Kernel launches show as gaps at small
#   batches.
# - For 7 billion parameters in bfloat16 a step takes at least 4 ms at 3.35 TB/s, and 2,000 tokens of prefill about 55
#   ms at half of 989 TFLOPS.
# - Served together, a long prefill delays the steps of others. So it is cut into chunks.
#
# Source: Agrawal et al. 2024, arXiv:2403.02310.
#
# ### How would you test it?
#
# - Change a later token: earlier outputs stay the same. By gradients: the Jacobian is 0 above the diagonal.
# - Shift all positions by a constant: nothing changes. Change the gap between two tokens: something must.
# - Whole sequence against token by token, and against a written-out version with a loop over heads.
# - Different positions in each row of a batch, with as many rows as heads, to catch a broadcast along the wrong axis.
#
# Source: Su et al. 2021, arXiv:2104.09864.
