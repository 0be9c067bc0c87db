# ---
# jupyter:
#   dojo:
#     title: Decoding with a cache and four bugs, and its test
#     level: 4
#     minutes: 35
#     builds_on: [rope, sampling, debug_lm]
#     sources:
#       - "Shazeer 2019: Fast Transformer Decoding, arXiv:1911.02150"
#       - "Su et al. 2021: RoFormer, arXiv:2104.09864"
#       - "Holtzman et al. 2019: The Curious Case of Neural Text Degeneration, arXiv:1904.09751"
# ---

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

# %% [markdown] tags=["contract"]
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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# probs, top_p = {2: 0.5, 3: 0.3, 4: 0.2}, 0.6
# kept, before = {}, 0.0
# for token, p in probs.items():
#     if before < top_p:
#         kept[token] = p
#     before += p
# print({token: round(p / sum(kept.values()), 3) for token, p in kept.items()})

# %% [markdown] tags=["hint"]
# Do not read yet, run. A cache must change nothing but the time: feed a text at once, and token by token, and compare.
# Then hold one call against the formula, and give `generate` a model whose probabilities you know.

# %% [markdown] tags=["hint"]
# A model may be a plain function: `lambda ids, cache: table[ids]` makes the next token depend on the last one alone.
# With a table of logarithms of easy probabilities you can work out each draw by hand. With a model that looks at all
# it was fed, as `Model` does, a row in a batch must get what it gets alone.

# %% [markdown] tags=["hint"]
# One claim a line. `Cache`: pieces appended come back as `torch.cat`, and `length` counts tokens. `attend`: the formula
# with `torch.polar` for the rotations, at once and in pieces (`4, 1, 1` and `2, 3`). `generate` with a table: evenly
# spaced uniform numbers give each token its share, under each filter and both; a row that draws 1 is padded. `generate`
# with `Model` and parameters drawn by you: the text that is fed whole each time, for rows of unequal length together.

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
        ### BEGIN SOLUTION
        self.length = end
        ### HANDED OUT
        # self.length = end - 1
        ### END SOLUTION
        return self.keys[:, :end], self.values[:, :end]


# %%
def attend(x: Float[Tensor, "batch seq three_dim"], cache: Cache) -> Float[Tensor, "batch seq dim"]:
    """Causal attention to the tokens in the cache and to those of x, which join them."""
    seq, dim = x.shape[1], x.shape[2] // 3
    q, k, v = x.split(dim, dim=-1)
    ### BEGIN SOLUTION
    positions = cache.length + torch.arange(seq, device=x.device)
    ### HANDED OUT
    # positions = torch.arange(seq, device=x.device)
    ### END SOLUTION
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
        ### BEGIN SOLUTION
        fed = prompt[row : row + 1, : int((prompt[row] != PAD).sum())]
        ### HANDED OUT
        # fed = prompt[row : row + 1]
        ### END SOLUTION
        cache = Cache(fed.shape[1] + n)
        for step in range(n):
            logits = model(fed, cache)[0, -1].clone()
            logits[PAD] = -torch.inf
            probs, order = torch.softmax(logits / temperature, dim=-1).sort(descending=True)
            ### BEGIN SOLUTION
            probs = probs.masked_fill(probs.cumsum(-1) - probs >= top_p, 0.0)
            ### HANDED OUT
            # probs = probs.masked_fill(probs.cumsum(-1) > top_p, 0.0)
            ### END SOLUTION
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
    ### BEGIN SOLUTION
    k, v = torch.randn(2, 2, 7, 4)
    cache, held = program.Cache(9), 0
    for new in (3, 1, 1, 2):
        keys, values = cache.append(k[:, held : held + new], v[:, held : held + new])
        held += new
        assert cache.length == held, "length does not count the tokens"
        assert torch.allclose(keys, k[:, :held], atol=1e-4), "not all keys so far"
        assert torch.allclose(values, v[:, :held], atol=1e-4), "not all values so far"

    x = torch.randn(2, 7, 12)
    q, k, v = x.chunk(3, dim=-1)
    angles = torch.arange(7)[:, None] * 10000.0 ** (-torch.arange(0, 4, 2) / 4)
    turns = torch.polar(torch.ones(7, 2), angles)
    q, k = (torch.view_as_complex(t.reshape(2, 7, 2, 2)) * turns for t in (q, k))
    scores = torch.einsum("bti,bsi->bts", q, k.conj()).real / 4**0.5
    expected = (scores + torch.full((7, 7), -torch.inf).triu(1)).softmax(-1) @ v
    for cut in ((7,), (4, 1, 1, 1), (2, 3, 2), (1,) * 7):
        cache = program.Cache(9)
        parts = [program.attend(part, cache) for part in x.split(cut, dim=1)]
        assert torch.allclose(torch.cat(parts, 1), expected, atol=1e-4), "attend is not causal attention"

    chances = torch.tensor([0.45, 0.0, 0.1, 0.15, 0.05, 0.25])  # of the ids; padding is never drawn
    prompt, count = torch.tensor([[3, 2]]).expand(64, 2), 64
    evenly = ((torch.arange(count) + 0.5) / count)[:, None]
    for temperature, top_p in ((1.0, 1.0), (0.5, 1.0), (1.0, 0.6), (2.0, 0.7)):
        p = torch.cat([torch.zeros(1), chances[1:]]) ** (1 / temperature)
        p = torch.tensor([each if p[p > each].sum() < top_p * p.sum() else 0.0 for each in p])
        got = program.generate(
            lambda ids, _: chances.log().expand(*ids.shape, 6), prompt, 1, evenly, temperature, top_p
        )
        assert got.shape == (count, 1), "not an id for each row"
        shares = torch.stack([(got == each).sum() for each in range(6)])
        assert ((shares - count * p / p.sum()).abs() < 1.5).all(), "tokens do not get their shares"
        assert (got[1:] >= got[:-1]).all(), "tokens are not drawn in the order of their ids"

    table = torch.full((6, 6), -torch.inf)
    for now, then in ((0, 2), (2, 3), (3, 4), (4, 1), (1, 5), (5, 2)):
        table[now, then] = 0.0
    prompt = torch.tensor([[5, 2, 0], [3, 0, 0], [2, 3, 5]])
    got = program.generate(lambda ids, _: table[ids], prompt, 5, torch.full((3, 5), 0.5))
    wanted = torch.tensor([[3, 4, 1, 0, 0], [4, 1, 0, 0, 0], [2, 3, 4, 1, 0]])
    assert torch.equal(got, wanted), "a row does not go on after its last token, or does not end"

    def endless(ids: Tensor, cache=None) -> Tensor:
        return model(ids, cache).index_fill(-1, torch.tensor(END), -torch.inf)

    prompt = torch.tensor([[3, 8, 2, 5, 7], [4, 6, 0, 0, 0], [2, 2, 8, 0, 0], [7, 0, 0, 0, 0]])
    for _ in range(3):  # a model may be drawn that hardly looks at what is wrong
        model = program.Model(9, 6)
        with torch.no_grad():
            for p in model.parameters():
                p.normal_()
        uniform = torch.rand(4, 16)
        got = program.generate(endless, prompt, 16, uniform)
        for row, line in enumerate(prompt.tolist()):
            text = [token for token in line if token]
            for token, u in zip(got[row].tolist(), uniform[row], strict=True):
                logits = endless(torch.tensor([text]))[0, -1].detach()
                logits[0] = -torch.inf
                sums = torch.cat([torch.zeros(1), logits.softmax(-1).cumsum(-1)])
                assert token, "padding is drawn"
                assert sums[token] - 1e-4 <= u <= sums[token + 1] + 1e-4, "not the token of the whole text"
                text.append(token)
    ### END SOLUTION


# %% tags=["active-ipynb"]
# # The program above, writing: is a text that was cut another way the same text?
# model = Model(12, 8)
# ids = torch.randint(2, 12, (1, 6))
# cache = Cache(6)
# steps = torch.cat([model(ids[:, t : t + 1], cache) for t in range(6)], dim=1)
# print("largest difference of logits:", (steps - model(ids)).abs().max().item())
# print(generate(model, ids, 8, torch.rand(1, 8), temperature=0.8, top_p=0.9))

# %% [markdown] tags=["solution"]
# ## Where the four bugs were
#
# - **Cache off by one** in `Cache.append`: `length` is the place of the next token, not of the last one. With
#   `end - 1` each new token overwrites the one before, and shares its position.
# - **Positions counted from 0 in each call** in `attend`: right for the prompt, wrong from the first single token on,
#   which gets position 0.
# - **The token that crosses top-p dropped** in `generate`: a token is judged by the sum of those before it. Judged with
#   itself, the nucleus is too small, and empty where one token alone has more than `top_p`.
# - **Last logits of the padding** in `generate`: a padded row was fed whole. The padding went into the cache, and the
#   first token was drawn after it.
#
# ## Why the test is made this way
#
# The first question is whether cached and uncached logits agree. That cannot see what is wrong in both ways alike: keys
# rotated twice give the same logits however the text is cut. So `attend` is also held against the formula.
# For `generate` chance is an argument: with a table as the model, evenly spaced uniform numbers must give each token
# its share to within one.
#
# | kind of bug | cached against uncached | the experiment that tells |
# |---|---|---|
# | cache off by one | differs from the second call on | append pieces, compare with `torch.cat` |
# | positions from 0, mask from the top left | differs from the second call on | the formula, several cuts |
# | keys rotated twice, values rotated | agrees | `attend` against the formula |
# | crossing token, order of temperature and filter | nothing to see | a table, evenly spaced uniform numbers |
# | padding fed, or its logits taken | nothing to see | rows of unequal length |
#
# Such a test compares logits with a tolerance, and ids only where the uniform number is known to lie between two
# borders. The best oracle for `generate` is one without a cache, which feeds the whole text each time: same model, same
# uniform numbers, same ids. It is quadratic in what it reads: keep it as a test, not as a program.
#
# **What it costs.** With a cache a step takes $O(n\, d + d^2)$ operations for $n$ tokens so far, without one
# $O(n^2 d + n d^2)$. The KV cache takes $2 d$ numbers a token and layer: 524 kB a token in float16 for 32 layers of
# 4,096. Decoding reads all of it, and the weights, for every token: it is memory-bound.
#
# ## The usual mistakes
#
# - A test with one prompt, or prompts of one length: a cache shared between prompts passes, and so does padding.
# - Comparing greedy text alone: most mistakes of a cache leave the largest logit where it was.
# - `temperature=1.0` or `top_p=1.0` throughout: their order passes.
# - Single tokens alone: a mask that is right there, and wrong for pieces, passes.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many tokens does `generate` feed without a cache, for a prompt of `p` tokens and `n` new ones?
#
# - The whole text for each new token: p, p + 1, … p + n - 1. With a cache each token is fed once, p + n - 1 in all.
# - At 512 and 512 that is 393,000 against 1,023, and attention makes the difference larger still.
#
# Answer: `n * p + n * (n - 1) / 2` tokens, within 5 %. Settings: `p` 128, 512, 2048; `n` 64, 512.
#
# Source: Pope et al. 2022, section 2.1, arXiv:2211.05102.
#
# ### How many kB of KV cache does a token take in `layers` layers of width `d`, in float16 and without grouped heads?
#
# - A key and a value of d numbers a layer, two bytes each: 524 kB for 32 layers of 4,096.
# - At 4,096 tokens that is 2.1 GB a sequence, so the cache and not the weights limits the batch.
#
# Answer: `4 * layers * d / 1e3` kB, within 5 %. Settings: `layers` 12, 32, 80; `d` 768, 4096, 8192.
#
# Source: Kwon et al. 2023, section 3, arXiv:2309.06180.
#
# ### Your cached logits differ from uncached ones by 1e-6. Is that a bug?
#
# - No: products of other shapes are summed in another order, and float32 rounds at 1e-7 of each term.
# - In bfloat16 the two differ by 1e-2 and the sampled text may fork: compare logits, not text.
# - A bug grows with the position or starts at a border; rounding does neither.
#
# Source: PyTorch, Numerical accuracy, https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html.
#
# ### Rows of unequal length in one batch: pad left or right?
#
# - On the left, all rows end at the same place: the last logits are those of real tokens, and new tokens line up.
# - Padding must then be masked as a key, and positions must start after it.
# - Servers pad nothing: they keep each row's tokens in pages of their own.
#
# Source: Kwon et al. 2023, section 4, arXiv:2309.06180.
