# ---
# jupyter:
#   dojo:
#     title: A small GPT with four bugs, and its test
#     level: 3
#     minutes: 40
#     builds_on: [mha, block, lm]
#     sources:
#       - "Radford et al. 2019: Language Models are Unsupervised Multitask Learners (GPT-2)"
#       - "Karpathy 2019: A Recipe for Training Neural Networks, karpathy.github.io/2019/04/25/recipe"
#       - "Vaswani et al. 2017: Attention Is All You Need, arXiv:1706.03762"
# ---

# %% [markdown]
# # A small GPT with four bugs, and the test for it
#
# $$h = x + \mathrm{attn}\big(\mathrm{norm}_1(x)\big), \qquad
# y = h + W_2\,\mathrm{gelu}\big(W_1\,\mathrm{norm}_2(h)\big)$$
#
# $$\mathrm{loss} = -\frac{1}{|T|} \sum_{(b, t) \in T} \log p\big(\mathrm{ids}_{b, t+1} \mid
# \mathrm{ids}_{b, 0 \ldots t}\big), \qquad T \text{: all } (b, t) \text{ with } \mathrm{ids}_{b, t+1} \ge 1$$
#
# The program below runs, and it trains. It has **four bugs**, each in a line or two. Find them by running it. Then hand
# in one file with both:
#
# 1. **The fix**: the program, mended where it stands. Keep its names and parameters.
# 2. **The test**: `test(program)`. It gets an implementation of the contract below, with the names `program.attend`,
#    `program.Block`, `program.MiniGPT`, `program.loss` and `program.train`. It returns None if it is content and raises
#    an `AssertionError` if it is not.
#
# The contract of each name:
#
# - **`attend(q, k, v, num_heads)`** is causal attention of several heads: $\mathrm{softmax}(q k^\top /
#   \sqrt{\text{head\_dim}})\, v$ in each head, over the positions `0 ... t` for position `t`. All three are
#   `(batch, seq, d_model)`, and so is the result. Head `h` owns the entries `h * head_dim ... (h + 1) * head_dim - 1`,
#   with `head_dim = d_model / num_heads`.
# - **`Block(d_model, num_heads, dropout=0.0)`**: `forward(x)` takes and gives `(batch, seq, d_model)`, by the first
#   formula above. Attention is `attend` between projections of `d_model` to `d_model`: queries, keys, values, output.
#   The feed-forward layer is `4 * d_model` wide. The two norms are LayerNorms with weights and biases of their own; no
#   other part has a bias. So a block holds `12 * d_model**2 + 4 * d_model` numbers. Dropout stands behind each of the
#   two branches.
# - **`MiniGPT(vocab_size, d_model, num_layers, num_heads, max_len, dropout=0.0)`**: `forward(ids)` takes integers
#   `(batch, seq)`, with up to `max_len` tokens in a row, and gives logits `(batch, seq, vocab_size)`. It adds the
#   embedding of each token and a learned embedding of its position, one of `max_len`; then come the blocks, each with
#   parameters of its own, one more LayerNorm, and a projection to the vocabulary that is not tied to the embedding.
# - **`loss(model, ids)`** is the mean cross-entropy of the next token, by the second formula. The id 0 is padding and
#   stands at the end of rows; a target that is padding does not count. `model` is anything that makes logits of ids, a
#   plain function too.
# - **`train(model, ids, steps, lr)`** makes `steps` steps on `ids`, with an optimiser of its choice, of learning rate
#   `lr`. `model` is a module such as `MiniGPT`. Each step follows the gradient of its own loss, to which no gradient of
#   an earlier step was added, with the dropout of training. The result is a list of floats: the loss before each step,
#   without dropout. Afterwards the model is in training mode. With `lr=0` it keeps its weights. For a `MiniGPT` of 16
#   dimensions or more and a sentence of 16 tokens or less, some loss of the first 40 with `lr=0.01` is below the first.
# - **The test accepts** every program that keeps this contract, however it is written. It may **not rest on** initial
#   values, the order of random draws, names of attributes, parameters and helpers, whether projections are fused or
#   separate or stored transposed, the dtype inside, rounding (allow 1e-4), gradients that were there before the first
#   step, how much faster the loss falls, or time.
# - **The test rejects** the program as you got it; each bug alone; and at least 80% of further mistakes of the same
#   kinds: masks, scale, heads, projections, positions, shifts of the labels, residuals, shared parts, padding, and the
#   steps of training. An exception that the program raises rejects it too. It judges by behaviour: reading the
#   program's code is forbidden. It takes at most 5 seconds of processor time for a program, with torch imported and in
#   one thread, and answers the same however random numbers fall.
# - **Each bug is mended in at most three lines**, and everything else stays as it is.
# - **Not graded:** initial values, wrong arguments, empty batches, rows of padding alone, half precision.
#
# **Example.** `attend` with one head of one entry: `q = (0, 0)`, `k = (1, 2)` and `v = (3, 5)`. All scores are 0, so
# position 0 gives 3 and position 1 gives the mean of 3 and 5: the result is `(3, 4)`. A mask that comes after the
# softmax would give `(1.5, 4)`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# q, k, v = (0.0, 0.0), (1.0, 2.0), (3.0, 5.0)
# for t in range(2):
#     exps = [math.exp(q[t] * each) for each in k]
#     seen = exps[: t + 1]
#     right = sum(e * each for e, each in zip(seen, v)) / sum(seen)
#     masked_late = sum(e * each for e, each in zip(seen, v)) / sum(exps)
#     print("position", t, "gives", right, "and with the mask after the softmax", masked_late)

# %% [markdown] tags=["hint"]
# Do not read yet, run. Train on one sentence and look at the curve: where does it start (a right one near $\ln V$),
# does it fall, how far? Then ask small questions. Do early logits change when you change the last token? Does the
# order of the tokens matter? What happens with `max_len` tokens?

# %% [markdown] tags=["hint"]
# Take the names one by one, from the inside out, and give each an input whose answer you know without the program: a
# loop over positions for `attend`, a block whose parameters are all 0, a table of logits as the `model` of `loss`, and
# `lr=0` for `train`.

# %% [markdown] tags=["hint"]
# In the test draw all parameters yourself (`for p in model.parameters(): p.normal_()`), for initial values are free: a
# table of positions may well start at 0. Count numbers, not tensors: fused projections hold as many. Use sizes that
# differ: a head as wide as the vocabulary hides a wrong projection.

# %% [markdown] tags=["hint"]
# One claim a line. `attend` equals a loop. `Block`: parameters of 0 give `x` back; the number of its numbers; every
# parameter gets a gradient. `MiniGPT`: the shape of the logits with `max_len` tokens; a later token changes no earlier
# logits and an earlier one changes later ones; two tokens that swap places change the logits behind them. `loss` of a
# table equals a loop over the targets that are not 0. `train`: with `lr=0` all losses are that of the model in
# evaluation mode, `.grad` is that of one step or none, dropout is on while gradients are taken, and afterwards; with
# `lr=0.01` the loss falls.

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
    ### BEGIN SOLUTION
    scores = q @ k.mT / head_dim**0.5
    ### HANDED OUT
    # scores = q @ k.mT / d_model**0.5
    ### END SOLUTION
    later = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
    weights = torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1)
    heads = weights @ v
    ### BEGIN SOLUTION
    return heads.transpose(1, 2).reshape(batch, seq, d_model)
    ### HANDED OUT
    # return heads.reshape(batch, seq, d_model)
    ### END SOLUTION


# %%
class Block(nn.Module):
    """Attention and a feed-forward layer, each behind a norm and added to its input."""

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
        ### BEGIN SOLUTION
        positions = torch.arange(ids.shape[1], device=ids.device)
        ### HANDED OUT
        # positions = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        ### END SOLUTION
        x = self.token_embedding(ids) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.final_norm(x))


# %%
def loss(model, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, ""]:
    """The mean cross-entropy of each next token that is no padding."""
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
        ### BEGIN SOLUTION
        optimizer.zero_grad()
        ### HANDED OUT
        ### END SOLUTION
        step_loss.backward()
        optimizer.step()
    return losses


# %%
def test(program) -> None:
    """Accept a program that keeps the contract; AssertionError for any other."""
    ### BEGIN SOLUTION
    q, k, v = torch.randn(3, 2, 6, 12)
    whole = program.attend(q, k, v, 3)
    assert whole.shape == (2, 6, 12), "attend gives a vector for each position"
    for t in range(6):
        for head in (slice(0, 4), slice(4, 8), slice(8, 12)):
            scores = torch.stack([(q[:, t, head] * k[:, s, head]).sum(-1) for s in range(t + 1)], dim=-1) / 4**0.5
            expected = torch.einsum("bs,bsd->bd", scores.softmax(-1), v[:, : t + 1, head])
            assert torch.allclose(whole[:, t, head], expected, atol=1e-4), "attend is not causal attention"

    block, x = program.Block(12, 3), torch.randn(2, 6, 12)
    assert sum(p.numel() for p in block.parameters()) == 12 * 12**2 + 4 * 12, "a block has other parameters"
    (block(x) * torch.randn_like(x)).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in block.parameters()), "a part of the block is not used"
    with torch.no_grad():
        for p in block.parameters():
            p.zero_()
        assert torch.allclose(block(x), x, atol=1e-4), "branches are not added to their input"

    model = program.MiniGPT(23, 12, 2, 3, 9)
    wanted = 2 * 23 * 12 + 9 * 12 + 2 * (12 * 12**2 + 4 * 12) + 2 * 12
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == wanted, "the model has other parameters"
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    ids = torch.randint(1, 23, (2, 9))
    logits = model(ids)
    assert logits.shape == (2, 9, 23), "logits are not one for each token of the vocabulary"
    assert torch.allclose(model(ids[:, :5]), logits[:, :5], atol=1e-4), "later tokens change earlier logits"
    first = torch.cat([ids[:, :1] % 22 + 1, ids[:, 1:]], dim=1)
    assert not torch.isclose(model(first), logits, atol=1e-4).all(-1).any(), "the first token is not seen everywhere"
    model = program.MiniGPT(23, 12, 1, 3, 9)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    places = torch.arange(9)
    swapped = [
        places.clone().index_copy(0, torch.tensor([i, j]), torch.tensor([j, i])) for i in range(8) for j in range(i)
    ]
    seen = model((10 + torch.stack([places, *swapped])) % 23)[:, -1]
    assert ((seen[1:] - seen[0]).abs().amax(-1) > 1e-4).all(), "two positions are not told apart"

    table = torch.randn(23, 23)
    ids = torch.tensor([[3, 5, 1, 22, 4], [6, 2, 9, 0, 0]])
    pairs = [(3, 5), (5, 1), (1, 22), (22, 4), (6, 2), (2, 9)]
    expected = -sum(table[a].log_softmax(-1)[b] for a, b in pairs) / len(pairs)
    assert torch.allclose(program.loss(lambda ids: table[ids], ids), expected, atol=1e-4), "another loss"

    model = program.MiniGPT(23, 16, 2, 4, 9, dropout=0.5)
    seen = []
    model.register_forward_pre_hook(lambda module, _: seen.append((torch.is_grad_enabled(), module.training)))
    before = [p.detach().clone() for p in model.parameters()]
    losses = program.train(model, ids, 3, 0.0)
    assert model.training, "the model is not in training mode afterwards"
    assert seen.count((True, True)) >= 3, "a step is made without dropout"
    assert all(map(torch.equal, model.parameters(), before)), "a learning rate of 0 changes weights"
    model.train(False)
    assert torch.allclose(torch.tensor(losses), program.loss(model, ids).expand(3), atol=1e-4), "not the losses"

    model = program.MiniGPT(23, 16, 1, 4, 9)
    program.train(model, ids, 3, 0.0)
    left = [p.grad for p in model.parameters()]
    once = torch.autograd.grad(program.loss(model, ids), list(model.parameters()))
    for got, wanted in zip(left, once, strict=True):
        assert got is None or not got.any() or torch.allclose(got, wanted, atol=1e-4), "gradients of steps add up"
    at_first = program.loss(model, ids[:1]).item()
    losses = program.train(model, ids[:1], 40, 0.01)
    assert len(losses) == 40, "not one loss for each step"
    assert abs(losses[0] - at_first) < 1e-4, "the first loss is not that before the first step"
    assert losses[-1] < losses[0], "the loss does not fall"
    ### END SOLUTION


# %% tags=["active-ipynb"]
# # The program above, trained on one sentence: what does the curve say?
# letters = "to be or not to be, that is the question"
# ids = torch.tensor([[1 + sorted(set(letters)).index(letter) for letter in letters]])
# torch.manual_seed(0)
# losses = train(MiniGPT(len(set(letters)) + 1, 32, 2, 4, 64), ids, 60, 0.01)
# print("ln V is", round(torch.tensor(len(set(letters)) + 1.0).log().item(), 2))
# print("loss before steps 0, 10, 20, …:", [round(each, 3) for each in losses[::10]])

# %% [markdown] tags=["solution"]
# ## Where the four bugs were
#
# - **Scale by d_model** in `attend`: a score is a sum over `head_dim` products. No curve shows it, for the projections
#   learn to make up for it. Only scores of known size do.
# - **Heads merged without transpose** in `attend`: `(heads, seq, head_dim)` read as `(seq, d_model)` mixes positions,
#   later ones too. One sentence is learnt as before; noise is learnt too fast.
# - **Positions counted from 1** in `MiniGPT`: nothing shows until a row has `max_len` tokens.
# - **`zero_grad` missing** in `train`: the loss falls, then rises, for each step follows the sum of all gradients.
#
# ## Why the test is made this way
#
# A curve on one sentence says little: with a table of positions the model learns the sentence by heart, and needs no
# attention for it. Some hundred rows of noise a right model learns slowly, and one that sees its targets fast: train on
# both.
# What training makes up for shows in neither. So the test goes from the inside out, and gives each
# name an input whose answer is known without the program.
#
# | kind of bug | what the curve says | the experiment that tells |
# |---|---|---|
# | mask after softmax, none, late | falls on noise | change a token, look at earlier logits |
# | scale | nothing | `attend` against a loop, heads narrower than `d_model` |
# | heads merged or split wrongly | falls on noise | `attend` against a loop, three heads |
# | output projection of another shape | nothing, or an index error | sizes of logits; count the numbers |
# | positions zero, shared, from 1 | stays high, but for those from 1 | swap two tokens; fill a row to `max_len` |
# | labels not shifted, shifted twice | the first falls on noise | a table of logits as the model |
# | residual missing | slow in deep models | all parameters 0: a block gives its input |
# | norm shared | nothing | count numbers; every parameter gets a gradient |
# | `zero_grad` missing | falls, then rises | three steps of `lr=0`: `.grad` is that of one |
# | `backward` missing | flat to the last digit | the loss falls |
# | left in eval | nothing | what mode the model is in when gradients are taken |
# | loss over padding | nothing on a sentence | a table of logits, rows of unequal length |
#
# Three things make such a test robust. It draws parameters itself, since initial values are free. It counts numbers and
# not tensors, since projections may be fused. It compares with a tolerance, since sums may be taken in another order.
#
# **What it costs.** The test runs in a tenth of a second: 100 forward passes of a model of $12 L d^2$ numbers, each
# $O(L (n d^2 + n^2 d) + n d V)$ for $n$ tokens. A table of logits takes $4 V^2$ bytes, 2 KB here. The loop over
# positions is $O(n^2)$ calls of torch, which is why it has 6 positions and not 600.
#
# ## The other formulation: two programs side by side
#
# With a reference at hand one copies the weights over and compares outputs and gradients. That finds everything at
# once, and says nothing about which claim is broken; it also fails for every right program with other parameters. A
# list of claims needs no second program, and its messages name the fault.
#
# ## The usual mistakes
#
# - A test that looks at shapes alone: none of the four bugs changes one.
# - Sizes that agree by chance: one head hides the merge, a vocabulary of `d_model` hides the projection, a row shorter
#   than `max_len` hides the positions.
# - A test that trains and asks for a small loss: a leak through the mask passes it too.
# - Rows without padding, or a batch of one.
# - `torch.equal` where a fused kernel sums in another order.
# - `model.q_proj` in a test: the next rewrite fuses it, and the test goes.

# %% tags=["active-ipynb", "solution"]
# # The curve as a clue: the right program, and each kind of bug
# import matplotlib.pyplot as plt
#
# from dojo.content import catalog, master, proofs
#
# letters = "to be or not to be, that is the question"
# sentence = torch.tensor([[1 + sorted(set(letters)).index(letter) for letter in letters] + [0] * 24])
# noise = torch.randint(1, 15, (300, 10), generator=torch.Generator().manual_seed(0))
# torch.set_num_threads(1)  # tensors this small only wait for each other
# kata = catalog.one("debug_lm")
# text = master.read_text(kata.master)
# programs = {bug.name: bug.plant(text) for bug in proofs.bugs(kata)} | {"right": text}
# panels = {
#     "leaks, on noise": (noise, ["no mask at all", "heads merged without transpose", "mask after the softmax"]),
#     "labels, on noise": (noise, ["labels not shifted", "labels shifted twice"]),
#     "no clue, on a sentence": (sentence, ["scale by d_model", "one norm for both branches", "loss over padding"]),
#     "a sentence": (sentence, ["zero_grad missing", "backward missing", "positions left out"]),
# }
# figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
# for axis, (title, (ids, names)) in zip(axes, panels.items()):
#     for name in ["right", *names]:
#         program = {}
#         exec(master.solution_code(programs[name]), program)
#         torch.manual_seed(0)
#         model = program["MiniGPT"](len(set(letters)) + 1, 16, 2, 4, 64, dropout=0.1)
#         style = {"color": "black", "linewidth": 2} if name == "right" else {}
#         axis.plot(program["train"](model, ids, 40, 0.01), label=name, **style)
#     axis.set(title=title, xlabel="step", yscale="linear" if ids is noise else "log")
#     axis.legend(fontsize="small")
# axes[0].set_ylabel("loss")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### The loss of a fresh model is 11.2, and ln V is 10.8. Is that a bug?
#
# - No: with logits near 0 the loss is $\ln V$, and logits with a standard deviation of $\sigma$ add about
#   $\sigma^2 / 2$. Here σ is 0.9.
# - 30 would be one: the head, or the embedding tied to it, starts too large.
# - Far below $\ln V$ before any step would be a leak of the targets.
#
# Source: Karpathy 2019, A Recipe for Training Neural Networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### The loss on one sentence falls to 0 within ten steps. What do you check first?
#
# - That the model is causal: change the last token, and compare all earlier logits.
# - That labels are shifted once: a model that may repeat its input reaches 0 at once.
# - That noise is not learnt: on many random rows a right model stays near $\ln V$ for some time, a leaking one falls.
# - It may be right: a model with learned positions learns one sentence by heart in ten steps.
#
# Source: Karpathy 2019, A Recipe for Training Neural Networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### How do you find out by gradients alone which inputs a position depends on?
#
# - Take the sum of the logits at position t, call backward, and look at the gradient of the embedded inputs.
# - It must be 0 at every later position, and must not be 0 at any earlier one.
# - The same at the first axis finds mixing across the batch.
#
# Source: Karpathy 2019, A Recipe for Training Neural Networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### Why does a wrong scale of the scores hardly show in training?
#
# - $q k^\top / \sqrt{d}$ with weights $W_q$ is $q k^\top / \sqrt{\text{head\_dim}}$ with weights
#   $W_q / \sqrt{\text{heads}}$: the same set of functions.
# - What changes is the start: scores with a standard deviation below 1 give almost equal weights, and small gradients
#   to queries and keys.
# - It shows at once when weights of another implementation are loaded.
#
# Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
#
# ### Without zero_grad the loss may still fall. Why?
#
# - The sum of gradients is momentum of 1 that never decays; as long as gradients agree, it points the right way.
# - Then it overshoots: old gradients pull on after the minimum is passed.
# - Adam hides it longer, since it divides by the size of what it is given.
# - Adding gradients up is right where it is meant: accumulation over microbatches, each loss divided by their number.
#
# Source: PyTorch, torch.optim.Optimizer.zero_grad,
# https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html.
#
# ### Now add a KV cache. Which tests do you write first?
#
# - One token at a time gives the same logits as the whole row at once, and so does any way of cutting it.
# - Positions go on from the length of the cache, and the mask is aligned to the end of the keys.
# - Two prompts after each other give what each gives alone: nothing is left in the cache.
#
# Source: Shazeer 2019, arXiv:1911.02150; Pope et al. 2022, arXiv:2211.05102.
#
# ### Why is the mean taken over real tokens of the batch and not over the means of rows?
#
# - Each token counts alike: a mean of means gives tokens of short rows more weight.
# - Over several devices or microbatches sums and counts are added up first, and divided once.
# - The two differ as soon as rows have unequal lengths, and the difference is no constant.
#
# Source: Hugging Face 2024, Fixing Gradient Accumulation, https://huggingface.co/blog/gradient_accumulation.
