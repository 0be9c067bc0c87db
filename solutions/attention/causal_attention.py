# ---
# jupyter:
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
# The attention of a language model. Tokens see themselves and what came before. Queries and keys are rotated by their
# positions, so that scores depend on distances; values are not.
#
# **Write**
# `CausalSelfAttention(d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None)`
# with `forward(x, positions=None)`, from `(batch, seq, d_model)` to the same shape. `positions` are integers below
# `max_seq_len`, by default `0 ... seq - 1`.
#
# Parameters, heads and groups are those of **gqa**: `q_proj`, `k_proj`, `v_proj`, `o_proj` without biases. None for
# `num_kv_heads` means `num_heads`. In each head of queries and keys the pair of entries `(2i, 2i + 1)` at position $p$
# is rotated by $p \cdot \theta^{-2i/d}$, as in **rope**, with $d$ = `head_dim`.
#
# No operation is forbidden.
#
# **Example.** `d_model = 2`, one head, all four weights the identity, $x = ((1, 0), (1, 0))$. Token 0 sees only itself
# and gives $(1, 0)$. Token 1 is rotated by 1 radian and scores $\cos 1 / \sqrt 2 = 0.382$ with token 0 and
# $1 / \sqrt 2 = 0.707$ with itself. But all values are $(1, 0)$, so it gives $(1, 0)$ as well.
# For $x = ((1, 0), (0, 1))$ the rotated query of token 1 is $(-\sin 1, \cos 1)$. Its scores are $-0.595$ and $0.707$,
# its weights $0.214$ and $0.786$, and the result is $(0.214, 0.786)$.

# %% [markdown] tags=["contract"]
# - **Causality.** Token `i` attends to tokens `0 ... i` of the sequence, whatever their positions and however large or
#   small the scores are.
# - **Positions.** int32 or int64, of shape `(seq,)`, or `(batch, seq)` where each entry has its own. They say only how
#   far to rotate.
# - **Half precision.** Softmax in float32. Queries, keys, scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, `num_heads` no multiple of `num_kv_heads`, at construction or at
#   the call.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# query = (-math.sin(1), math.cos(1))  # token 1 is (0, 1), rotated by 1 radian
# keys = ((1.0, 0.0), query)  # token 0 stands at position 0 and is not rotated
# scores = [sum(q * k for q, k in zip(query, key)) / math.sqrt(2) for key in keys]
# exponentials = [math.exp(score) for score in scores]
# print("scores", [round(s, 3) for s in scores], "weights", [round(e / sum(exponentials), 3) for e in exponentials])

# %% [markdown] tags=["hint"]
# The order is project, split heads, **rotate**, attend, merge heads, project. Rotate before the split and every head
# gets other frequencies.

# %% [markdown] tags=["hint"]
# Make tables of cosines and sines at construction, buffers with `persistent=False`, and look their rows up by position.
# Rows of `(batch, seq, pairs)` need an axis of size 1 for the heads; rows of `(seq, pairs)` broadcast as they are.

# %% [markdown] tags=["hint"]
# `F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)` does the scale, the mask, the softmax and
# the groups.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def angle_table(d_k: int, max_seq_len: int, theta: float) -> Float[Tensor, "max_seq_len pairs"]:
    """The angle of each position and pair, in float32 whatever the dtype of the model."""
    position = torch.arange(max_seq_len, dtype=torch.float32)
    frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float32) / d_k)
    return torch.outer(position, frequency)


def split_heads(x: Float[Tensor, "*batch seq dim"], num_heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def rotate(x: Float[Tensor, "*batch seq dim"], cos: Tensor, sin: Tensor) -> Float[Tensor, "*batch seq dim"]:
    """RoPE on neighboring pairs, in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    even, odd = wide[..., 0::2], wide[..., 1::2]
    rotated = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return rotated.flatten(-2).to(x.dtype)


### END SOLUTION


# %%
class CausalSelfAttention(nn.Module):
    """Each token attends to itself and to what came before; queries and keys are rotated by position.

    Softmax is computed in float32. Raises ValueError for heads that do not divide. Su et al. 2021, arXiv:2104.09864;
    Ainslie et al. 2023, arXiv:2305.13245.
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
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        head_dim = d_model // num_heads
        kv_dim = num_kv_heads * head_dim
        self.sizes = head_dim, max_seq_len, theta
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        table = torch.empty(max_seq_len, head_dim // 2, device=device, dtype=torch.float32)
        self.register_buffer("cos", table, persistent=False)
        self.register_buffer("sin", torch.empty_like(table), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the tables, which no state dict holds."""
        angles = angle_table(*self.sizes)
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], positions: Int[Tensor, "*#batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Attention of x to itself. One row of positions serves the whole batch, or each entry has its own."""
        ### BEGIN SOLUTION
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        cos, sin = self.cos[positions], self.sin[positions]
        if positions.ndim == 2:
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # (batch, 1, seq, pairs)
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(x), self.num_kv_heads)
        v = split_heads(self.v_proj(x), self.num_kv_heads)
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        merged = heads.transpose(-3, -2).flatten(-2)
        return self.o_proj(merged)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Two facts about order, kept apart.** The mask says who may be seen: it goes by the place in the sequence. The
# rotation says how far apart two tokens are: it goes by the positions. They differ when a batch is padded on the left,
# when several documents are packed into one row, or when a cache holds the beginning.
#
# **Rotate after the split.** The angles belong to the entries of one head: pair `i` of every head has the same speed.
#
# **Tables as buffers.** They move with the module, `persistent=False` keeps them out of checkpoints, and
# `reset_parameters` fills them again where a model is built on `meta` and sharded before it is loaded. Angles are
# computed once, in float32 even in a model that is built in bfloat16, which would keep 3 digits: one near position
# 10,000 is off by up to 0.001.
#
# **What it costs.** A layer of Llama 3 8B, width 4,096 with 32 query and 8 key heads, takes 0.69 TFLOPs for the
# projections of 8,192 tokens and 1.10 for scores and means, of which a causal kernel skips half: 1.25 ms at an H100's
# 989 TFLOPS. The kernel is compute-bound and stores no scores, which would be 4.3 GB in bfloat16. The rotation is
# memory-bound: 168 MB to read and write queries and keys once, 50 µs if fused, several times that in eager PyTorch. The
# tables take 512 bytes a position for heads of 128.
#
# ## The other formulation
#
# Written out: `scores = q @ k.mT / math.sqrt(head_dim)`, then
# `scores.masked_fill(torch.ones(seq, seq).triu(1).bool(), -inf)`, softmax, `@ v`. No row is empty: each token sees
# itself, so `-inf` is safe. Llama's own code rotates by complex numbers; Hugging Face rotates the halves
# `(i, i + d/2)`, with the rows of `q_proj` and `k_proj` permuted to fit.
#
# ## The usual mistakes
#
# - Rotating the values, or only the queries, or before the head split.
# - `diagonal=0` in `triu`, which hides a token from itself: the first row is then nan.
# - Positions `(batch, seq)` indexed into tables that then line up their batch axis with the heads.
# - Comparing positions to build the mask: left-padded rows with repeated positions then see the future.
# - `is_causal=True` with fewer queries than keys: PyTorch's triangle starts at the top left.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why does causality make training efficient?
#
# - One pass gives a loss at every position, for all prefixes at once.
# - The states of earlier tokens never depend on later ones, so nothing has to be computed again for a longer prefix.
# - That is also why a KV cache is exact. In an encoder every new token would change all states.
#
# Source: Radford et al. 2018, Improving language understanding by generative pre-training, section 3.1,
# https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf.
#
# ### How many ms do scores and means of `n` tokens take in a causal kernel, 32 layers of width 4,096 at 989 TFLOPS?
#
# - $4 n^2 d$ FLOPs a layer without a mask. A kernel that skips the masked blocks does half of them.
# - Key heads do not enter: each query head meets every key.
# - The TTFT grows with the square: in Llama 3 8B the projections are overtaken at 10,240 tokens.
#
# Answer: `2 * n**2 * 4096 * 32 / 989e12 * 1e3` ms, within 10 %. Settings: `n` 2048, 8192, 32768, 131072.
#
# Source: Dao 2023, arXiv:2307.08691.
#
# ### How many MB do the tables take if each of `layers` layers has its own, for `positions` positions and heads of 128?
#
# - A cosine and a sine for each position and pair: 2 · 64 · 4 bytes in float32.
# - At 131,072 positions that is 67 MB a layer. So models keep one table and hand its rows to all layers, or compute the
#   rows from 64 frequencies in each forward pass, as Hugging Face does.
# - In bfloat16 it would be half, and cosines of 3 digits.
#
# Answer: `512 * positions * layers / 1e6` MB, within 5 %. Settings: `layers` 32, 80; `positions` 8192, 131072.
#
# Source: Su et al. 2021, section 3.4, arXiv:2104.09864.
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
