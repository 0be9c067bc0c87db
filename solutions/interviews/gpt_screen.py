# ---
# jupyter:
#   dojo:
#     title: "Screen: a GPT is mended, cached, served, and made a classifier"
#     level: 4
#     minutes: 60
#     builds_on: [debug_lm, kv_cache, generate]
#     opens_with: debug_lm
#     sources:
#       - "Radford et al. 2019: Language Models are Unsupervised Multitask Learners (GPT-2)"
#       - "Pope et al. 2022: Efficiently Scaling Transformer Inference, arXiv:2211.05102"
#       - "Muennighoff 2022: SGPT: GPT Sentence Embeddings for Semantic Search, arXiv:2202.08904"
# ---

# %% [markdown]
# # A GPT on the screen: mend it, cache it, serve it, make it a classifier
#
# You are given one file, a small GPT that runs and trains: `attend`, `Block`, `MiniGPT`, `loss` and `train`. In an hour
# it is mended, given a KV cache, made to answer a batch of prompts, and turned into a classifier. It stays one file,
# and what was right in an earlier stage has to stay right.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 20 min
#
# "This small GPT trains, and something is off. Find and mend what is wrong."
#
# `attend(q, k, v, num_heads)` is causal attention, from three tensors `(batch, seq, d_model)` to one. `MiniGPT` makes
# logits `(batch, seq, vocab_size)` of ids `(batch, seq)`. `loss(model, ids)` is a number, and `train` gives the losses
# before each of its steps. All names and signatures stay.

# %% [markdown] tags=["contract"]
# - **Count.** There are about four bugs, each in a line or two. What a block is made of is as it should be: four
#   projections, a feed-forward layer with GELU, two LayerNorms; each branch is added to its input.
# - **Kinds.** They may be anywhere between the ids and the optimizer. Attention is causal, scaled by
#   $\sqrt{\text{head\_dim}}$, and head `h` owns the entries `h * head_dim ... (h + 1) * head_dim - 1`.
# - **Positions.** They start at 0, and a row may have `max_len` tokens.
# - **Padding.** The id 0 is padding, stands at the end of rows, and is no target.
# - **Loss.** The mean cross-entropy of the next token, over all targets that are no padding. `model` is any function.
# - **Training.** Losses are floats, taken before each step without dropout. Each step has dropout and follows its own
#   gradient alone; `train` ends in training mode.

# %% [markdown] tags=["hint"]
# Do not read yet, run. Give each name an input whose answer you know: torch's own attention for `attend`, a row of
# `max_len` tokens and one token repeated for `MiniGPT`, a table of logits as the `model` of `loss`, and `lr=0` for
# `train`: then all losses are equal, and `.grad` is that of one step.

# %% [markdown] tags=["stage"]
# ## Stage 2 · 15 min
#
# "Decoding recomputes everything. Add a KV cache: one token a call, same logits."
#
# `new_cache` makes an object of your own. `forward(ids, cache)` takes the next `seq` tokens of each row, gives their
# logits `(batch, seq, vocab_size)`, and updates the cache in place.
#
# ```python
# class MiniGPT(nn.Module):
#     def new_cache(self, batch):
#         """An empty cache for `batch` rows of at most `max_len` tokens."""
#         ...
#
#     def forward(self, ids, cache=None):
#         """Logits for the token after each position; with a cache `ids` go on after the tokens in it."""
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Chunks.** A call takes any number of new tokens: a prompt, then one at a time, or several.
# - **Next positions.** They continue after what is cached.
# - **Mask.** New tokens see all of the cache and, causally, themselves.
# - **Room.** With more than `max_len` tokens in all, a `ValueError` with their number and `max_len`; the cache stays as
#   it was and can still be used.
# - **Cost.** Keys and values of old tokens are not computed again: a call on one token projects one token.
# - **Without cache.** All is as before, training too. Two caches of one model do not know of each other.

# %% [markdown] tags=["hint"]
# What does attention need of a token that is past? Its key and its value in each layer. Allocate both for `max_len`
# tokens, write the new ones after the old, and attend to what is filled.

# %% [markdown] tags=["hint"]
# Three things depend on how many tokens are cached: where new keys go, the rows of the position table, and the mask.
# Key `j` is visible to the query at position `i` if `j <= i`, both counted from the start of the row. A triangle that
# starts at the upper left is wrong as soon as there are more keys than queries.

# %% [markdown] tags=["stage"]
# ## Stage 3 · 15 min
#
# "Serve a batch of prompts of different lengths, greedily, until each says stop."
#
# It returns the new ids of each prompt, without the prompt. There is at least one prompt and one new token, no prompt
# is empty or has the id 0, and the longest with `max_new_tokens` after it fits into `max_len`.
#
# ```python
# def generate(model, prompts, max_new_tokens, stop_id):
#     """The new ids of each prompt, a list of lists of ids: each the most probable one, up to its `stop_id`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Padding side.** Yours, as is what you add to `forward` and to the cache.
# - **Equality.** Each prompt gets the ids that it gets alone, and `prompts` stay as they are.
# - **Stop.** The `stop_id` is kept, nothing comes after it, and when all rows have ended the model is not called again.
#   In a prompt it ends nothing.
# - **Finished rows.** They cost the others no wrong tokens, and need not leave the batch.
# - **Cache use.** Each token goes through the model once.
# - **Mode.** The model runs in evaluation mode and without a graph; afterwards it is in the mode that it was in.

# %% [markdown] tags=["hint"]
# Padding must neither be seen nor count as a position. With padding at the end the prompts need no mask at all, for
# causal attention never looks ahead. What has to be hidden, or overwritten, when the first new token comes?

# %% [markdown] tags=["stage"]
# ## Stage 4 · 10 min
#
# "Product wants sentiment. Turn it into a classifier."
#
# `ids` are `(batch, seq)` with padding at the end of rows, the result is `(batch, num_classes)`.
#
# ```python
# class Classifier(nn.Module):
#     def __init__(self, gpt, num_classes):
#         ...
#
#     def forward(self, ids):
#         """One score for each class, of ids with padding at the end."""
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Pooling.** The mean over real tokens of what the GPT's final norm gives, then the new layer.
# - **Padded rows.** The id 0 reaches no result: more of it changes nothing.
# - **Causal mask.** It stays.
# - **Weights.** The GPT's are shared and not copied, and train along; new is one linear layer with bias. The GPT still
#   gives its logits.

# %% [markdown] tags=["hint"]
# Cut `MiniGPT.forward` in two: what comes before the head is a method of its own, which both use.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

PAD = 0


# %%
def attend(
    q: Float[Tensor, "batch seq d_model"],
    k: Float[Tensor, "batch length d_model"],
    v: Float[Tensor, "batch length d_model"],
    num_heads: int,
    positions: Int[Tensor, "batch seq"] | None = None,
) -> Float[Tensor, "batch seq d_model"]:
    """Causal attention of several heads; keys lie at their positions, and queries too where none are given."""
    batch, seq, d_model = q.shape
    head_dim = d_model // num_heads
    q = q.view(batch, seq, num_heads, head_dim).transpose(1, 2)
    k = k.view(batch, -1, num_heads, head_dim).transpose(1, 2)
    v = v.view(batch, -1, num_heads, head_dim).transpose(1, 2)
    scores = q @ k.mT / head_dim**0.5
    if positions is None:
        later = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
    else:
        later = torch.arange(k.shape[2], device=q.device) > positions[:, None, :, None]
    weights = torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1)
    heads = weights @ v
    return heads.transpose(1, 2).reshape(batch, seq, d_model)


# %%
class Cache:
    """Keys and values of the tokens so far in each layer. Those of a row lie at their positions."""

    def __init__(self, weight: Tensor, num_layers: int, batch: int, max_len: int):
        shape = (num_layers, batch, max_len, weight.shape[1])
        self.keys, self.values = weight.new_zeros(shape), weight.new_zeros(shape)  # finite where nobody looks
        self.lengths = torch.zeros(batch, dtype=torch.int64, device=weight.device)
        self.width = 0  # of the longest row: known without waiting for the device

    def advance(self, new: Int[Tensor, "seq"]) -> Int[Tensor, "batch seq"]:
        """The positions of new tokens, which are numbered from 0; ValueError where `max_len` is too small for them."""
        width, max_len = self.width + len(new), self.keys.shape[2]
        if width > max_len:
            raise ValueError(f"{width} tokens do not fit into max_len {max_len}")
        self.positions = self.lengths[:, None] + new
        self.lengths, self.width = self.lengths + len(new), width
        return self.positions

    def put(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, with those of the new tokens among them."""
        rows = torch.arange(len(k), device=k.device)[:, None]
        self.keys[layer][rows, self.positions] = k
        self.values[layer][rows, self.positions] = v
        return self.keys[layer, :, : self.width], self.values[layer, :, : self.width]


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

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], cache: Cache | None = None, layer: int | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        h = self.attn_norm(x)
        q, k, v, positions = self.q_proj(h), self.k_proj(h), self.v_proj(h), None
        if cache is not None:
            (k, v), positions = cache.put(layer, k, v), cache.positions
        heads = attend(q, k, v, self.num_heads, positions)
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

    def new_cache(self, batch: int) -> Cache:
        """An empty cache for `batch` rows of at most `max_len` tokens."""
        return Cache(self.token_embedding.weight, len(self.blocks), batch, self.position_embedding.num_embeddings)

    def features(self, ids: Int[Tensor, "batch seq"], cache: Cache | None = None) -> Float[Tensor, "batch seq d_model"]:
        """What the final norm gives."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        if cache is not None:
            positions = cache.advance(positions)
        x = self.token_embedding(ids) + self.position_embedding(positions)
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)
        return self.final_norm(x)

    def forward(self, ids: Int[Tensor, "batch seq"], cache: Cache | None = None) -> Float[Tensor, "batch seq vocab"]:
        return self.lm_head(self.features(ids, cache))


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
        optimizer.zero_grad()
        step_loss.backward()
        optimizer.step()
    return losses


# %%
@torch.no_grad()
def generate(model: MiniGPT, prompts: list[list[int]], max_new_tokens: int, stop_id: int) -> list[list[int]]:
    """The new ids of each prompt: each the most probable one, up to its `stop_id`."""
    device, training = model.lm_head.weight.device, model.training
    ids = nn.utils.rnn.pad_sequence([torch.tensor(prompt) for prompt in prompts], True, PAD).to(device)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    model.train(False)
    try:
        cache = model.new_cache(len(prompts))
        logits = model(ids, cache)  # padding stands at the end, where no token of a prompt sees it
        new = logits[torch.arange(len(prompts), device=device), lengths - 1].argmax(dim=-1)
        cache.lengths = lengths  # new tokens are written over the padding
        tokens, ended = [new], new == stop_id
        while len(tokens) < max_new_tokens and not ended.all():
            new = model(new[:, None], cache)[:, -1].argmax(dim=-1)
            tokens.append(new)
            ended = ended | (new == stop_id)
    finally:
        model.train(training)
    rows = torch.stack(tokens, dim=1).tolist()
    return [row[: row.index(stop_id) + 1] if stop_id in row else row for row in rows]


# %%
class Classifier(nn.Module):
    """Scores of classes, from the mean of a GPT's states."""

    def __init__(self, gpt: MiniGPT, num_classes: int):
        super().__init__()
        self.gpt = gpt
        self.head = nn.Linear(gpt.lm_head.in_features, num_classes)

    def forward(self, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch num_classes"]:
        real = (ids != PAD)[..., None]
        features = self.gpt.features(ids)
        return self.head((features * real).sum(dim=1) / real.sum(dim=1))


# %% [markdown] tags=["solution"]
# ## Stage by stage
#
# **Mend.** Nothing is read before it is run: each name gets an input whose answer is known. `attend` against torch's
# own finds scale, mask and heads; a row of `max_len` tokens and one token repeated find the positions; a table of
# logits as the model finds the loss, three steps of `lr=0` the training. `debug_lm` tells each bug.
#
# **Cache.** A key is stored at its position, so one comparison, key position ≤ query position, is the whole mask. The
# buffer is allocated once; a `torch.cat` in every step copies all that is cached, $O(n^2)$ in all.
#
# **What it costs.** A cached step takes $24 d^2 + 4 n d$ FLOPs a layer instead of $n$ times as many: 0.5 GFLOPs a layer
# and not 2,200 at width 4,096 and 4,096 tokens, and $4 d$ bytes of cache a token in bfloat16, 67 MB a layer there.
#
# **Serve.** Padding stands at the end, where causal attention never sees it. Then each row goes on at its own length:
# its new keys are written over the padding before anybody looks there. With padding at the left, as in transformers,
# the last place serves all rows, but positions are shifted and a mask must hide the left in every call. Llama's first
# `generate` needs neither: it starts at the shortest prompt and takes one token a call, at the price of a sequential
# prefill.
#
# **Classify.** `MiniGPT.forward` is cut before its head. Padding is left out of sum and count; since it stands at the
# end, no real token sees it.
#
# ## The usual mistakes
#
# - `triu(1)` of `(seq, length)` for a chunk after others: it must be shifted by what is cached.
# - Buffers from `torch.empty`: a weight of 0 times NaN is NaN.
# - `logits[:, -1]` of a batch that is padded at the end, and positions that count the padding.
# - `finished` without its own past: a row that has ended comes alive again.
# - `model.train()` after serving a model that was in evaluation mode.
# - `gpt.lm_head = nn.Linear(...)`: the language model is gone.
# - `mean(dim=1)` over padding: scores change with the batch.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many GiB does the cache of one sequence take at `layers` layers, 32 heads of 128, bfloat16, `tokens` tokens?
#
# - A key and a value for each layer and head, two bytes a number.
# - With 32 layers 512 KiB a token, and 4 GiB at 8,192 tokens: a quarter of the 7 billion parameters of such a model.
# - What shrinks it: fewer key heads, a window, eight bits; pages waste less of it.
#
# Answer: `2 * layers * 32 * 128 * 2 * tokens / 2**30` GiB, within 5 %. Settings: `layers` 32, 40, 80; `tokens` 2048,
# 8192, 32768.
#
# Source: Kwon et al. 2023, section 3, arXiv:2309.06180.
#
# ### What percentage of a padded prefill is padding: `rows` prompts, one of `long` tokens, the others of `short`?
#
# - The batch is as wide as its longest prompt; each other row wastes the difference.
# - Eight prompts, one of 4,096 tokens and seven of 512: 77 %. The same again is wasted while rows that have ended wait
#   for the longest answer.
# - Sorting by length, packing rows after each other, and continuous batching, which fills the place of a row that has
#   ended at once, avoid it.
#
# Answer: `100 * (rows - 1) * (long - short) / (rows * long)` %, within 5 %. Settings: `rows` 4, 8, 32; `long` 2048,
# 4096; `short` 128, 512.
#
# Source: Yu et al. 2022, Orca: A Distributed Serving System, section 3,
# https://www.usenix.org/conference/osdi22/presentation/yu.
#
# ### Why is prefill compute-bound and decoding memory-bound?
#
# - A pass reads all weights, 2 bytes a parameter, and does 2 FLOPs a parameter and token: an arithmetic intensity of
#   one FLOP a byte for each token in the pass.
# - An H100 does 989 TFLOPS in bfloat16 and reads 3.35 TB/s: some 300 tokens keep it busy. A prompt has them; decoding
#   has one a row.
# - A larger batch shares the weights, but each row reads its own cache: long contexts stay memory-bound.
#
# Source: Pope et al. 2022, section 3, arXiv:2211.05102.
#
# ### What is wrong with the mean over a causal model's states, and what else could one pool?
#
# - State $t$ has seen tokens $0 \ldots t$ alone. Only the last ones know the sentence, yet the mean gives all the same
#   weight; and the first token is in every state, the last in one.
# - The last real token, as GPT-1 did with a token of its own; weights that grow with the position, as SGPT has them.
# - Or take the causal mask away and train on: the states then see both sides.
#
# Source: Muennighoff 2022, section 4, arXiv:2202.08904.

# %% [markdown] tags=["solution", "signals"]
# ### Stage 1
#
# Strong: runs before reading, goes from the inside out with inputs whose answers are known, tells for each bug what it
# would have done to a curve, and looks again after the fourth.
#
# Weak: reads from top to bottom and changes lines on suspicion, trusts a falling loss, stops at the first bug or
# rewrites the file.
#
# ### Stage 2
#
# Strong: says first what depends on the number of cached tokens, checks a chunk after others against one call, and
# allocates once.
#
# Weak: tries single tokens alone, so that the mask is never tested; forgets the positions; keeps the cache in the
# model.
#
# ### Stage 3
#
# Strong: chooses a side of padding and says what it costs, takes each prompt alone as the test, and restores the mode
# even after an error.
#
# Weak: pads and hopes; hides padding in the first call alone; ends with the first row, or decodes ended rows for ever.
#
# ### Stage 4
#
# Strong: cuts the forward in two, counts real tokens, and says that a mean favors early tokens of a causal model.
#
# Weak: replaces the head of the GPT, copies it, or averages over padding and calls it noise.
