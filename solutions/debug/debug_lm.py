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
# The program below runs and trains. It has **four bugs**, each in a line or two. Find them by running it, then hand in
# one file with both:
#
# 1. **The fix**: the program, mended where it stands.
# 2. **The test**: `test(program)`. It gets an implementation of `program.attend`, `program.Block`, `program.MiniGPT`,
#    `program.loss` and `program.train`, returns None if that is right, and raises an `AssertionError` if not.
#
# `attend(q, k, v, num_heads)` is causal attention, from three tensors `(batch, seq, d_model)` to one. `Block` is the
# first formula, `loss` the second. `MiniGPT` makes logits `(batch, seq, vocab_size)` of ids `(batch, seq)`, and `train`
# gives the losses of its steps.
#
# **Example.** `attend` with one head of one entry: `q = (0, 0)`, `k = (1, 2)` and `v = (3, 5)`. All scores are 0, so
# position 0 gives 3 and position 1 gives the mean of 3 and 5: the result is `(3, 4)`. A mask that comes after the
# softmax would give `(1.5, 4)`.

# %% [markdown] tags=["contract"]
# - **Attention.** Position `t` attends to `0 ... t`, with scores divided by $\sqrt{\text{head\_dim}}$. Head `h` owns
#   the entries `h * head_dim ... (h + 1) * head_dim - 1`.
# - **Model.** A block has `12 * d_model**2 + 4 * d_model` parameters: four projections, a feed-forward layer and two
#   LayerNorms, which alone have biases. Dropout follows both branches. `MiniGPT` has learned embeddings of tokens and
#   of `max_len` positions, blocks, a LayerNorm and an untied head; nothing is shared.
# - **Loss.** The id 0 is padding, stands at the end of rows, and is no target. `model` is any function.
# - **Training.** Losses are floats, taken before each step without dropout. Each step has dropout and follows its own
#   gradient alone. `train` ends in training mode. `lr=0` keeps weights; with `lr=0.01` the loss of 16 tokens falls
#   within 20 steps.
# - **Fix.** At most three changed lines a bug.
# - **Right programs.** The test accepts each, within 5 s, under every seed. It may not rest on initial values, private
#   names, how parameters are stored, dtypes inside, differences below 1e-4, `.grad` (None after a step is right) or
#   time.
# - **Wrong programs.** The test rejects what was handed out, each bug alone, and 80% of further mistakes. It never
#   reads code.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# q, k, v = torch.zeros(2, 1), torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0]])
# later = torch.tensor([[False, True], [False, False]])
# print("right:", (q @ k.T).masked_fill(later, -torch.inf).softmax(-1) @ v)
# print("with the mask after the softmax:", (q @ k.T).softmax(-1).masked_fill(later, 0.0) @ v)

# %% [markdown] tags=["hint"]
# Do not read yet, run. Train on one sentence: where does the curve start (a right one near $\ln V$), does it fall? Do
# early logits change with the last token? Does the order of the tokens matter? What happens with `max_len` tokens?

# %% [markdown] tags=["hint"]
# Take the names from the inside out, and give each an input whose answer you know: torch's own attention for `attend`,
# a block whose parameters are all 0, a table of logits as the `model` of `loss`, and `lr=0` for `train`.

# %% [markdown] tags=["hint"]
# One claim a line. Draw all parameters yourself (`p.normal_()`), count numbers and not tensors, and let sizes differ.
# `attend` equals torch's. `Block`: parameters of 0 give `x` back; every parameter gets a gradient. `MiniGPT`: the shape
# of the logits with `max_len` tokens; a later token changes no earlier logits, an earlier one changes later ones; one
# token repeated has other logits at each position. `loss` of a table equals a loop over the targets that are not 0.
# `train`: with `lr=0` all losses are that of the model in evaluation mode, `.grad` is that of one step or none, and
# dropout is on while gradients are taken; with `lr=0.01` the loss falls.

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
    split = (t.unflatten(-1, (3, 4)).transpose(1, 2) for t in (q, k, v))
    expected = F.scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2).flatten(2)
    assert torch.allclose(program.attend(q, k, v, 3), expected, atol=1e-4), "attend is not causal attention"

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
    assert torch.pdist(model(ids[:1, :1].expand(1, 9))[0]).min() > 1e-4, "two positions are not told apart"

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
    losses = program.train(model, ids[:1], 20, 0.01)
    assert abs(losses[0] - at_first) < 1e-4, "the first loss is not that before the first step"
    assert min(losses) < losses[0], "the loss does not fall"
    ### END SOLUTION


# %% tags=["active-ipynb"]
# # The program above, trained on one sentence: what does the curve say?
# letters = "to be or not to be, that is the question"
# ids = torch.tensor([[1 + sorted(set(letters)).index(letter) for letter in letters]])
# losses = train(MiniGPT(len(set(letters)) + 1, 32, 2, 4, 64), ids, 60, 0.01)
# print("ln V is", round(torch.tensor(len(set(letters)) + 1.0).log().item(), 2))
# print("loss before steps 0, 10, 20, …:", [round(each, 3) for each in losses[::10]])

# %% [markdown] tags=["solution"]
# ## Where the four bugs were
#
# - **Scale by d_model** in `attend`: a score is a sum over `head_dim` products. No curve shows it, for the projections
#   learn to make up for it. Only scores of known size do.
# - **Heads merged without transpose** in `attend`: `(heads, seq, head_dim)` read as `(seq, d_model)` mixes positions,
#   later ones too. One sentence is learned as before; noise is learned too fast.
# - **Positions counted from 1** in `MiniGPT`: nothing shows until a row has `max_len` tokens.
# - **`zero_grad` missing** in `train`: the loss falls, then rises, for each step follows the sum of all gradients.
#
# ## Why the test is made this way
#
# A curve on one sentence says little: with a table of positions the model memorizes it, and needs no attention. A right
# model learns some hundred rows of noise slowly, one that sees its targets fast. What training makes up for shows in
# neither. So the test goes from the inside out, and gives each name an input whose answer is known.
#
# | kind of bug | what the curve says | the experiment that tells |
# |---|---|---|
# | mask after softmax, none, late | falls on noise | change a token, look at earlier logits |
# | scale | nothing | `attend` against torch's, heads narrower than `d_model` |
# | heads merged or split wrongly | falls on noise | `attend` against torch's, three heads |
# | positions zero, left out, from 1 | stays high, but for those from 1 | one token repeated, up to `max_len` |
# | labels not shifted, shifted twice | falls on noise, nothing | a table of logits as the model |
# | `zero_grad` missing | falls, then rises | three steps of `lr=0`: `.grad` is that of one |
#
# Such a test draws parameters itself, since initial values are free, counts numbers and not tensors, since projections
# may be fused, and compares with a tolerance, since sums may be taken in another order. The other formulation, a
# reference with the weights copied over, finds everything at once, but says nothing about which claim is broken, and
# fails for every right program with other parameters.
#
# **What it costs.** A tenth of a second: some 100 forward passes, each $O(L (n d^2 + n^2 d) + n d V)$ for $n$ tokens. A
# table of logits takes $4 V^2$ bytes, 2 KB here.
#
# ## The usual mistakes
#
# - A test that looks at shapes alone: none of the four bugs changes one.
# - Sizes that agree: one head hides the merge, a row shorter than `max_len` hides the positions.
# - `torch.equal` where a fused kernel sums in another order, or `model.q_proj`: the next rewrite fuses it.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What loss has a fresh model of `vocab` tokens, if its logits are normal with a standard deviation of `sigma`?
#
# - Logits near 0 give $\ln V$; logits with a standard deviation of $\sigma$ add about $\sigma^2 / 2$.
# - For GPT-2's 50,257 tokens: 10.8, and 11.3 with σ = 1. With 30 the head, or the embedding tied to it, starts too
#   large.
#
# Answer: `log(vocab) + sigma**2 / 2`, within 5 %. Settings: `vocab` 65, 50257; `sigma` 0.1, 1.0, 2.0.
#
# Source: Karpathy 2019, A Recipe for Training Neural Networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### How many million parameters has `MiniGPT(50257, d, layers, 12, 1024)` at width `d` and `layers` blocks?
#
# - $12 d^2 + 4 d$ a block, $2 \cdot 50257\, d$ for embedding and head, $1024\, d$ for positions and $2 d$ for the last
#   norm. The number of heads does not enter.
# - GPT-2 small, 768 and 12 layers, would be 163 million; with the head tied to the embedding it is 124.
#
# Answer: `(layers * (12 * d**2 + 4 * d) + (2 * 50257 + 1024 + 2) * d) / 1e6` million, within 5 %. Settings: `d` 768,
# 1536; `layers` 12, 24, 48.
#
# Source: Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2,
# https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf.
#
# ### Why does a wrong scale of the scores hardly show in training?
#
# - $q k^\top / \sqrt{d}$ with weights $W_q$ is $q k^\top / \sqrt{\text{head\_dim}}$ with weights
#   $W_q / \sqrt{\text{heads}}$: the same set of functions.
# - What changes is the start: scores with a standard deviation below 1 give almost equal weights, and small gradients
#   to queries and keys.
# - It shows at once when another implementation's weights are loaded.
#
# Source: Vaswani et al. 2017, section 3.2.1, arXiv:1706.03762.
#
# ### Without zero_grad the loss may still fall. Why?
#
# - The sum of gradients is momentum of 1 that never decays; as long as gradients agree, it points the right way.
# - Then it overshoots: old gradients pull on after the minimum is passed.
# - Adding gradients up is right where it is meant: accumulation over microbatches, each loss divided by their number.
#
# Source: PyTorch, torch.optim.Optimizer.zero_grad,
# https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html.
