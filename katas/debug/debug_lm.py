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
#
# **Builds on** mha, block, lm. **Sources:** Radford et al. 2019: Language Models are Unsupervised Multitask Learners
# (GPT-2); Karpathy 2019: A Recipe for Training Neural Networks, karpathy.github.io/2019/04/25/recipe; Vaswani et al.
# 2017: Attention Is All You Need, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

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
    scores = q @ k.mT / d_model**0.5
    later = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
    weights = torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1)
    heads = weights @ v
    return heads.reshape(batch, seq, d_model)


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
        positions = torch.arange(1, ids.shape[1] + 1, device=ids.device)
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
        step_loss.backward()
        optimizer.step()
    return losses


# %%
def test(program) -> None:
    """Accept a program that keeps the contract; AssertionError for any other."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# # The program above, trained on one sentence: what does the curve say?
# letters = "to be or not to be, that is the question"
# ids = torch.tensor([[1 + sorted(set(letters)).index(letter) for letter in letters]])
# torch.manual_seed(0)
# losses = train(MiniGPT(len(set(letters)) + 1, 32, 2, 4, 64), ids, 60, 0.01)
# print("ln V is", round(torch.tensor(len(set(letters)) + 1.0).log().item(), 2))
# print("loss before steps 0, 10, 20, …:", [round(each, 3) for each in losses[::10]])

# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("debug_lm")
