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
# The program below runs, and it writes text. It has **four bugs**, each in a line or two. Find them by running it. Then
# hand in one file with both:
#
# 1. **The fix**: the program, mended where it stands. Keep its names and parameters.
# 2. **The test**: `test(program)`. It gets an implementation of the contract below, with the names `program.Cache`,
#    `program.attend`, `program.Model` and `program.generate`. It returns None if it is content and raises an
#    `AssertionError` if it is not.
#
# The contract of each name:
#
# - **`Cache(max_len)`** holds keys and values of up to `max_len` tokens. `append(k, v)` takes those of further tokens,
#   `(batch, new, dim)`, and gives the keys and the values of all so far, oldest first, each `(batch, length, dim)`.
#   `length` is the number of tokens that it holds.
# - **`attend(x, cache)`** is causal attention of one head. `x` is `(batch, seq, 3 * dim)`: queries, keys and values
#   side by side, `dim` entries each. The tokens of `x` stand behind those in the cache, which they join. Token `t` of
#   them all, counted from 0, attends to the tokens `0 ... t` by the first formula. $R_t$ turns the entries `2i` and
#   `2i + 1` of queries and keys by the angle $t \cdot 10000^{-2i/\text{dim}}$, and nothing turns values. The result is
#   `(batch, seq, dim)`. However a sequence is cut into calls, together they give what one call gives.
# - **`Model(vocab_size, dim)`** is right as you got it. `forward(ids, cache=None)` takes integers `(batch, seq)` and
#   gives logits `(batch, seq, vocab_size)`. Its only link between tokens is one call of `attend`. Without a cache the
#   tokens stand alone. It holds `3 * dim**2 + 2 * vocab_size * dim` numbers.
# - **`generate(model, prompt, n, uniform, temperature=1.0, top_p=1.0)`** continues each row of `prompt`, int64
#   `(batch, seq)`, by up to `n` tokens. The id 0 is padding and stands at the end of rows: the text goes on behind the
#   last token that is no padding. `uniform` is `(batch, n)`, a number of $[0, 1)$ for each token. The result is
#   `(batch, n)`, int64. A row gets the same alone and beside others. `model` is anything that makes logits of
#   `(ids, cache)`, a plain function that leaves the cache alone too.
# - **Each token** is drawn by the second formula, in the order of the ids. Padding is never drawn: its logit counts as
#   `-inf`. The logits are divided by `temperature` first. Then top-p goes from the most probable token down: a token
#   stays while the sum of those before it is below `top_p`, and what stays is renormalised.
# - **The id 1 ends a row**: it is the last token of the row, and padding fills the rest.
# - **The test accepts** every program that keeps this contract, however it is written. It may **not rest on** initial
#   values, names of attributes, parameters and helpers, what `attend` keeps in the cache, where the cache stores it, in
#   how many calls a text is fed to the model, how many rows a call has, the dtype inside, rounding (allow 1e-4),
#   gradients, or time.
# - **The test rejects** the program as you got it; each bug alone; and at least 80% of further mistakes of the same
#   kinds: caching, masking, positions, filters, draws, padding, feeding, rows and their ends. An exception that the
#   program raises rejects it too. It judges by behaviour: reading the program's code is forbidden. It takes at most 5
#   seconds of processor time for a program, and answers the same however random numbers fall.
# - **Each bug is mended in at most three lines**, and everything else stays as it is.
# - **Not graded:** more tokens than `max_len`, odd `dim`, empty rows, `n=0`, other settings than `temperature > 0` and
#   `0 < top_p <= 1`, half precision, and draws that hang on less than 1e-3 of probability.
#
# **Example.** Logits give the ids 2, 3 and 4 the probabilities 0.5, 0.3 and 0.2. With `top_p=0.6` the sums before them
# are 0, 0.5 and 0.8: the first two stay, with 0.625 and 0.375. The uniform number 0.6 draws id 2, and 0.7 draws id 3. A
# filter that drops the token which crosses 0.6 would leave id 2 alone.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# probs, top_p = {2: 0.5, 3: 0.3, 4: 0.2}, 0.6
# kept, before = {}, 0.0
# for token, p in probs.items():
#     if before < top_p:
#         kept[token] = p
#     before += p
# total = sum(kept.values())
# print({token: round(p / total, 3) for token, p in kept.items()})

# %% [markdown] tags=["hint"]
# Do not read yet, run. A cache must change nothing but the time: feed a text at once, and token by token, and compare.
# Then hold one call against a loop that you write from the formula. Then give `generate` a model whose probabilities
# you know.

# %% [markdown] tags=["hint"]
# A model may be a plain function: `lambda ids, cache: table[ids]` makes the next token depend on the last one alone.
# With a table of logarithms of easy probabilities you can work out each draw by hand. With a model that looks at all
# it was fed, as `Model` does, a row in a batch must get what it gets alone.

# %% [markdown] tags=["hint"]
# In the test draw the parameters yourself (`p.normal_()`), for initial values are free. Several rows of unequal length,
# several cuts (`4, 1, 1` and `2, 3`), uniform numbers on both sides of each border, a temperature that is not 1
# together with a `top_p` that is not 1, and a row that ends early.

# %% [markdown] tags=["hint"]
# One claim a line. `Cache`: pieces appended come back as `torch.cat`, and `length` counts tokens. `attend`: a loop over
# tokens with `torch.polar` for the turns, at once and in pieces. `generate` with a table: evenly spaced uniform numbers
# give each token its share, under each filter; a row that draws 1 is padded. `generate` with `Model`: what a loop draws
# that feeds the whole text to a fresh cache for each token, for rows of unequal length together.

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

    def turned(t: Tensor) -> Tensor:
        even, odd = t[..., 0::2], t[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    keys, values = cache.append(turned(k), v)
    scores = turned(q) @ keys.mT / dim**0.5
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
    rows = []
    for t in range(7):
        scores = (q[:, t : t + 1] * k[:, : t + 1].conj()).real.sum(-1) / 4**0.5
        rows.append((scores.softmax(-1)[..., None] * v[:, : t + 1]).sum(1))
    for cut in ((7,), (4, 1, 1, 1), (2, 3, 2), (1,) * 7):
        cache = program.Cache(9)
        parts = [program.attend(part, cache) for part in x.split(cut, dim=1)]
        assert torch.allclose(torch.cat(parts, 1), torch.stack(rows, 1), atol=1e-4), "attend is not causal attention"

    chances = torch.tensor([0.45, 0.0, 0.1, 0.15, 0.05, 0.25])  # of the ids; padding is never drawn
    prompt, count = torch.tensor([[3, 2]]).expand(64, 2), 64
    evenly = ((torch.arange(count) + 0.5) / count)[:, None]
    for temperature, top_p in ((1.0, 1.0), (0.5, 1.0), (1.0, 0.6), (2.0, 0.7)):
        p = chances.clone()
        p[0] = 0.0
        p = p ** (1 / temperature) / (p ** (1 / temperature)).sum()
        p = torch.tensor([each if p[p > each].sum() < top_p else 0.0 for each in p])
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
    assert torch.equal(got, wanted), "a row does not go on behind its last token, or does not end"

    model = program.Model(9, 6)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_()

    def endless(ids: Tensor, cache=None) -> Tensor:
        return model(ids, cache).index_fill(-1, torch.tensor(END), -torch.inf)

    prompt = torch.tensor([[3, 8, 2, 5, 7], [4, 6, 0, 0, 0], [2, 2, 8, 0, 0], [7, 0, 0, 0, 0]])
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
# torch.manual_seed(0)
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
#   first token was drawn behind it.
#
# None of them raises, and each text looks like text.
#
# ## Why the test is made this way
#
# A cache is a matter of speed, so the first question is whether cached and uncached logits agree. But that question
# cannot see what is wrong in both ways alike: keys turned twice give the same logits however the text is cut. So
# `attend` is also held against a loop from the formula. For `generate` chance is an argument: with a table as the
# model, evenly spaced uniform numbers must give each token its share to within one, and no statistics are needed.
#
# | kind of bug | cached against uncached | the experiment that tells |
# |---|---|---|
# | cache off by one, too long | differs from the second call on | append pieces, compare with `torch.cat` |
# | positions from 0, mask from the top left | differs from the second call on | `attend` against a loop, several cuts |
# | mask right for single tokens alone | agrees token by token | a cut with a piece of several tokens in the middle |
# | keys turned twice, values turned | agrees | `attend` against a loop |
# | crossing token, order of temperature and filter | nothing to see | a table, evenly spaced uniform numbers |
# | padding fed, or its logits taken | nothing to see | rows of unequal length |
# | cache shared between rows | the first row agrees | each row against the same row alone |
# | stops one late | nothing to see | a table that leads to the end |
# | prompt fed again | differs | the tokens of a loop that feeds the whole text anew |
#
# Three things make such a test robust. It compares logits with a tolerance, and ids only where the uniform number is
# known to lie between two borders. It asks what comes out of `generate`, and not how often the model was called: a
# prompt may be fed token by token. It looks at nothing that a cache holds inside but `length`.
#
# **What it costs.** With a cache a step takes $O(n\, d + d^2)$ operations for $n$ tokens so far, without one
# $O(n^2 d + n d^2)$. The cache takes $2 n d$ numbers a layer, $4 n d$ bytes in float16: 512 KB a token for 32 layers of
# 4,096. The test makes some 300 calls of a model with 6 dimensions, in less than a tenth of a second.
#
# ## The other formulation: the whole text each time
#
# `generate` without a cache is three lines shorter and quadratic in what it reads. It is the best oracle there is for
# one with a cache: same model, same uniform numbers, same ids. Keep it as a test, not as a program.
#
# ## The usual mistakes
#
# - A test with one prompt: a cache that is shared between prompts passes.
# - Prompts of one length: padding passes.
# - Comparing greedy text alone: most mistakes of a cache leave the largest logit where it was.
# - `temperature=1.0` or `top_p=1.0` throughout: their order passes.
# - Single tokens alone: a mask from the top left, or none at all, passes for one that is right there.
# - Ids compared where a uniform number falls on a border: right programs round otherwise, and the test fails now and
#   then.

# %% tags=["active-ipynb", "solution"]
# # What each bug does to cached logits, and to the shares of tokens
# import matplotlib.pyplot as plt
#
# from dojo.content import catalog, master, proofs
#
# kata = catalog.one("debug_decoding")
# text = master.read_text(kata.master)
# programs = {"right": text} | {bug.name: bug.plant(text) for bug in proofs.bugs(kata)}
#
#
# def made(name):
#     program = {}
#     exec(master.solution_code(programs[name]), program)
#     return program
#
#
# figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
# x = torch.randn(1, 24, 24, generator=torch.Generator().manual_seed(0))
# whole = made("right")["attend"](x, made("right")["Cache"](24))
# shown = ["right", "cache off by one", "positions counted from 0 in each call", "mask from the top left"]
# for name in [*shown, "keys turned twice"]:
#     program = made(name)
#     cache = program["Cache"](24)
#     out = torch.cat([program["attend"](part, cache) for part in x.split((8,) + (1,) * 16, dim=1)], dim=1)
#     error = (out - whole).abs().amax(-1)[0].clamp_min(1e-8)
#     left.plot(error, label=name, **({"color": "black"} if name == "right" else {}))
# left.axvline(7.5, color="grey", linewidth=0.5)
# left.set(title="error of attention: a prompt of 8, then single tokens", xlabel="token", yscale="log")
# left.legend(fontsize="small")
# chances = torch.tensor([0.0, 0.0, 0.6, 0.2, 0.1, 0.06, 0.04])
# evenly = ((torch.arange(1000) + 0.5) / 1000)[:, None]
# shown = ["right", "the token that crosses top-p dropped", "temperature after the filter", "no temperature"]
# for number, name in enumerate(shown):
#     generate_so = made(name)["generate"]
#     prompt = torch.full((1000, 1), 2)
#     ids = generate_so(lambda ids, _: chances.log().expand(*ids.shape, 7), prompt, 1, evenly, 3.0, 0.75)
#     shares = [(ids == each).double().mean() for each in range(2, 7)]
#     right.bar(torch.arange(2, 7) + 0.2 * number - 0.3, shares, 0.2, label=name)
# right.set(title="shares of ids: temperature 3, top_p 0.75", xlabel="id, from the most probable down")
# right.legend(fontsize="small")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Your cached logits differ from uncached ones by 1e-6. Is that a bug?
#
# - No: products of other shapes are summed in another order, and float32 rounds at 1e-7 of each term.
# - In bfloat16 the two differ by 1e-2 and the sampled text may fork: compare logits, not text.
# - A bug grows with the position or starts at a border; rounding does neither.
#
# Source: PyTorch, Numerical accuracy, https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html.
#
# ### Cached and uncached logits agree to the last digit. What may still be wrong?
#
# - Whatever both do alike: keys turned twice, values turned, another scale, another base of the angles.
# - Everything behind the logits: filters, the draw, ends of rows.
# - Several rows: a shared cache, padding.
#
# Source: Su et al. 2021, section 3.4, arXiv:2104.09864.
#
# ### Are keys cached before or after they are turned?
#
# - After: a key's position never changes, so it is turned once, and a step turns one key and one query.
# - Before, if positions may change: when old tokens are dropped from a window, or when blocks of text are moved.
# - Streaming with attention sinks caches them unturned, and gives positions inside the cache.
#
# Source: Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks, section 3.2, arXiv:2309.17453.
#
# ### Why is `is_causal=True` wrong for a query of one token?
#
# - In torch the mask of `scaled_dot_product_attention` is aligned to the top left: one query sees the first key alone.
# - With a cache it must be aligned to the bottom right: query i of s sees `length - s + i + 1` keys.
# - For a single token no mask is needed at all; for a piece of several it is.
#
# Source: PyTorch, torch.nn.functional.scaled_dot_product_attention,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html.
#
# ### Rows of unequal length in one batch: pad left or right?
#
# - On the left, all rows end at the same place: the last logits are those of real tokens, and new tokens line up.
# - Padding must then be masked as a key, and positions must start behind it.
# - On the right, each row has its own last token and its own next place in the cache.
# - Servers pad nothing: they keep each row's tokens in pages of their own.
#
# Source: Kwon et al. 2023, PagedAttention, section 4, arXiv:2309.06180.
#
# ### How do you test a sampler that draws from a generator of its own?
#
# - Take chance out: let it accept uniform numbers, or a seed, and test the map from those to tokens.
# - Where that cannot be had, compare counts of many draws by χ² at a p-value so small that right code never fails.
# - Test the filtered distribution itself, before the draw.
#
# Source: Devroye 1986, Non-Uniform Random Variate Generation, chapter 2, https://luc.devroye.org/rnbookindex.html.
#
# ### Which of these four bugs would a user of the model notice first?
#
# - Padding: texts of short prompts in a batch are bad, and the same prompt alone is good.
# - Positions from 0 and an overwritten cache: text falls apart after a few tokens, at any length of the prompt.
# - The crossing token: nothing looks wrong, the text is only a little too safe; with a low `top_p` it breaks.
#
# Source: Holtzman et al. 2019, section 3.1, arXiv:1904.09751.
#
# ### What changes when a draft model proposes tokens, and some are refused?
#
# - The cache must forget the refused ones: `length` goes back, and the next tokens overwrite them.
# - Several tokens are then fed at once behind a cache: the mask must be right for pieces, not only for single tokens.
# - The draw must leave the distribution of the large model unchanged, filters included.
#
# Source: Leviathan, Kalman, Matias 2022, Fast Inference from Transformers via Speculative Decoding, arXiv:2211.17192.
