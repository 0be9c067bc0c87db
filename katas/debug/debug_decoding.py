# %% [markdown]
# # Decoding with a cache and four bugs, and the test for it
#
# $$\mathrm{out}_t = \sum_{s \le t} w_{ts}\, v_s, \qquad w_{t} = \mathrm{softmax}_{s \le t}
# \frac{(R_t q_t)^\top (R_s k_s)}{\sqrt{\text{dim}}}$$
#
# $$\mathrm{token} = \min\, i \ \text{ with } \sum_{j \le i} p_j > u, \qquad p = \text{top-p of }
# \mathrm{softmax}(\mathrm{logits} / \text{temperature})$$
#
# The program below runs and writes text. It has **four bugs**, each in a line or two. Find them by running it, then
# hand in one file with both:
#
# 1. **The fix**: the program, mended where it stands.
# 2. **The test**: `test(program)`. It gets an implementation of `program.Cache`, `program.attend`, `program.Model` and
#    `program.generate`, returns None if that is right, and raises an `AssertionError` if not.
#
# `attend(x, cache)` is the first formula: `x`, `(batch, seq, 3 * dim)`, holds queries, keys and values of tokens that
# join those in the cache. `Model` is right as it is. `generate` continues rows of ids by `n` tokens, drawn by the
# second formula with the numbers `uniform`, `(batch, n)`.
#
# **Example.** Logits give the ids 2, 3 and 4 the probabilities 0.5, 0.3 and 0.2. With `top_p=0.6` the sums before them
# are 0, 0.5 and 0.8: the first two stay, with 0.625 and 0.375. The uniform number 0.6 draws id 2, and 0.7 draws id 3.
#
# **Builds on** rope, sampling, debug_lm. **Sources:** Shazeer 2019: Fast Transformer Decoding,
# [arXiv:1911.02150](https://arxiv.org/abs/1911.02150); Su et al. 2021: RoFormer,
# [arXiv:2104.09864](https://arxiv.org/abs/2104.09864); Holtzman et al. 2019: The Curious Case of Neural Text
# Degeneration, [arXiv:1904.09751](https://arxiv.org/abs/1904.09751).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Cache, Attention, Prompts, Draws, Ends, Fix, Right programs, Wrong programs</summary>
#
# - **Cache.** `append` gives keys and values of all tokens so far. `length` counts them.
# - **Attention.** $R_t$ rotates the entries `2i` and `2i + 1` by $t \cdot 10000^{-2i/\text{dim}}$, with `t` counted
#   from the first token in the cache. However tokens are cut into calls, the results are the same.
# - **Prompts.** The id 0 is padding, at the end of rows: a text goes on after its last token. Each row is continued
#   as alone.
# - **Draws.** Padding is never drawn. Top-p goes from the most probable token down, keeps each while the sum of those
#   before it is below `top_p`, and renormalizes.
# - **Ends.** The id 1 is the last token of its row; padding follows.
# - **Fix.** At most three changed lines a bug.
# - **Right programs.** The test accepts each, within 5 s, under every seed. It may not rest on initial values, private
#   names, what a cache holds, calls of the model (any function), dtypes inside, differences below 1e-4, draws that hang
#   on a probability under 1e-3, `.grad`, or time.
# - **Wrong programs.** The test rejects what was handed out, each bug alone, and 80% of further mistakes. It never
#   reads code.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# probs, top_p = {2: 0.5, 3: 0.3, 4: 0.2}, 0.6
# kept, before = {}, 0.0
# for token, p in probs.items():
#     if before < top_p:
#         kept[token] = p
#     before += p
# print({token: round(p / sum(kept.values()), 3) for token, p in kept.items()})

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

PAD, END = 0, 1


# %%
class Cache:
    """The keys and values of the tokens so far."""

    def __init__(self, max_len: int):
        self.max_len = max_len
        self.length = 0

    def append(
        self, k: Float[Tensor, "batch new dim"], v: Float[Tensor, "batch new dim"]
    ) -> tuple[Float[Tensor, "batch length dim"], Float[Tensor, "batch length dim"]]:
        """Take in those of further tokens, and give those of all."""
        start, end = self.length, self.length + k.shape[1]
        if start == 0:
            self.keys = k.new_zeros(k.shape[0], self.max_len, k.shape[2])
            self.values = v.new_zeros(v.shape[0], self.max_len, v.shape[2])
        self.keys[:, start:end] = k
        self.values[:, start:end] = v
        self.length = end - 1
        return self.keys[:, :end], self.values[:, :end]


# %%
def attend(x: Float[Tensor, "batch seq three_dim"], cache: Cache) -> Float[Tensor, "batch seq dim"]:
    """Causal attention to the tokens in the cache and to those of x, which join them."""
    seq, dim = x.shape[1], x.shape[2] // 3
    q, k, v = x.split(dim, dim=-1)
    positions = torch.arange(seq, device=x.device)
    frequencies = 10000.0 ** (-torch.arange(0, dim, 2, device=x.device) / dim)
    angles = positions[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()

    def rotated(t: Tensor) -> Tensor:
        even, odd = t[..., 0::2], t[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    keys, values = cache.append(rotated(k), v)
    scores = rotated(q) @ keys.mT / dim**0.5
    later = torch.ones(seq, keys.shape[1], dtype=torch.bool, device=x.device).triu(1 + keys.shape[1] - seq)
    return torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1) @ values


# %%
class Model(nn.Module):
    """A language model of one layer."""

    def __init__(self, vocab_size: int, dim: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim)
        self.qkv_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.lm_head = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, ids: Int[Tensor, "batch seq"], cache: Cache | None = None) -> Float[Tensor, "batch seq vocab"]:
        x = self.embedding(ids)
        x = x + attend(self.qkv_proj(x), Cache(ids.shape[1]) if cache is None else cache)
        return self.lm_head(x)


# %%
@torch.no_grad()
def generate(
    model,
    prompt: Int[Tensor, "batch seq"],
    n: int,
    uniform: Float[Tensor, "batch n"],
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> Int[Tensor, "batch n"]:
    """Up to n further tokens for each row of the prompt, drawn with the uniform numbers."""
    result = prompt.new_full((len(prompt), n), PAD)
    for row in range(len(prompt)):
        fed = prompt[row : row + 1]
        cache = Cache(fed.shape[1] + n)
        for step in range(n):
            logits = model(fed, cache)[0, -1].clone()
            logits[PAD] = -torch.inf
            probs, order = torch.softmax(logits / temperature, dim=-1).sort(descending=True)
            probs = probs.masked_fill(probs.cumsum(-1) > top_p, 0.0)
            probs = torch.zeros_like(probs).scatter(-1, order, probs / probs.sum())
            token = (probs.cumsum(-1) <= uniform[row, step]).sum()
            result[row, step] = token
            if token == END:
                break
            fed = token.view(1, 1)
    return result


# %%
def test(program) -> None:
    """Accept a program that keeps the contract; AssertionError for any other."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# # The program above, writing: is a text that was cut another way the same text?
# model = Model(12, 8)
# ids = torch.randint(2, 12, (1, 6))
# cache = Cache(6)
# steps = torch.cat([model(ids[:, t : t + 1], cache) for t in range(6)], dim=1)
# print("largest difference of logits:", (steps - model(ids)).abs().max().item())
# print(generate(model, ids, 8, torch.rand(1, 8), temperature=0.8, top_p=0.9))

# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("debug_decoding")
