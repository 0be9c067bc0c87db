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
#
# **Builds on** mha, block, lm. **Sources:** Radford et al. 2019: Language Models are Unsupervised Multitask Learners
# (GPT-2); Karpathy 2019: A Recipe for Training Neural Networks, karpathy.github.io/2019/04/25/recipe; Vaswani et al.
# 2017: Attention Is All You Need, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Attention, Model, Loss, Training, Fix, Right programs, Wrong programs</summary>
#
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
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# q, k, v = torch.zeros(2, 1), torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0]])
# later = torch.tensor([[False, True], [False, False]])
# print("right:", (q @ k.T).masked_fill(later, -torch.inf).softmax(-1) @ v)
# print("with the mask after the softmax:", (q @ k.T).softmax(-1).masked_fill(later, 0.0) @ v)

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
        positions = torch.arange(1, ids.shape[1] + 1, device=ids.device)
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
