# %% [markdown]
# # A trainer with four bugs, and the test for it
#
# $$\mathrm{loss} = \frac{1}{|T|} \sum_{t \in T} -\log p_t, \qquad
# \mathrm{rate}_s = \mathrm{max\_lr} \cdot \max\Big(0, \min\Big(\frac{s + 1}{\mathrm{warmup}},
# \frac{\mathrm{total} - s}{\mathrm{total} - \mathrm{warmup}}\Big)\Big)$$
#
# The program below trains, with **four bugs**, each in a line or two. Its run on a few texts, which is saved before
# update 10 and goes on in a new trainer, and the same run once mended; `evaluate` gets the texts trained on:
#
# ```text
# update                  0     5    10    11    12    15    20    30    40    50
# handed out: loss     3.39  1.24  0.88  0.98  0.88  0.88  0.85  0.85  0.85  0.85
#             evaluate 3.38  1.48  0.96     -     -  0.94  0.95  0.95  0.95  0.95
# mended:     loss     3.45  1.66  1.16  1.14  1.23  1.27  1.19  1.03  1.23  1.07
#             evaluate 3.38  1.53  0.97     -     -  0.94  0.95  0.93  0.90  0.90
# ```
#
# Find them by running it, then hand in one file with both:
#
# 1. **The fix**: the program, mended where it stands.
# 2. **The test**: `test(program)`. It gets an implementation of `program.rate`, `program.loss_sum`, `program.Model`,
#    `program.evaluate` and `program.Trainer`, returns None if that is right, and raises an `AssertionError` if not.
#
# `Model` is right as it is. A trainer takes any module that makes logits of ids.
#
# **Example.** Two microbatches have three targets with losses 1, 2, 3 and one target with loss 6: the loss of the
# update is 12 / 4 = 3. With `max_lr` 2, `warmup` 2 and `total` 6, rates from $s = 0$ on are 1, 2, 2, 1.5, 1, 0.5, 0.
#
# **Builds on** gradients, schedules, adamw, debug_lm. **Sources:** Loshchilov and Hutter 2017: Decoupled Weight Decay
# Regularization, [arXiv:1711.05101](https://arxiv.org/abs/1711.05101); Touvron et al. 2023: Llama 2,
# [arXiv:2307.09288](https://arxiv.org/abs/2307.09288); Karpathy 2019: A Recipe for Training Neural Networks,
# karpathy.github.io/2019/04/25/recipe.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Loss, Update, Rate, Modes, Checkpoint, Fix, Right programs, Wrong programs</summary>
#
# - **Loss.** The id 0 is padding, at the end of rows, and no target. `loss_sum` gives the sum of the losses of all
#   targets, and their number. Updates and `evaluate` take the mean over all targets, however cut into batches.
# - **Update.** One step of AdamW, betas 0.9 and 0.95, eps 1e-5, along the gradient of that mean, clipped to `max_norm`
#   by its global norm. Parameters of two or more axes alone decay. It gives the loss before the step, a float.
# - **Rate.** $s$ counts updates, from 0.
# - **Modes.** Updates have dropout, after an evaluation too. That has none.
# - **Checkpoint.** `save` gives a snapshot. A new trainer of a new model loads it and goes on as if nothing had
#   stopped, whatever was trained or loaded since.
# - **Fix.** At most three changed lines a bug.
# - **Right programs.** The test accepts each, within 5 s, under every seed. It may not rest on initial values, private
#   names, what a snapshot holds, calls of the model, `.training`, `.grad`, dtypes inside, differences below 1e-4, or
#   time.
# - **Wrong programs.** The test rejects what was handed out, each bug alone, and 80% of further mistakes. It never
#   reads code.
#
# </details>

# %%
import copy

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

PAD = 0


# %%
def rate(step: int, max_lr: float, warmup: int, total: int) -> float:
    """The learning rate of the update after `step` others."""
    return max_lr * max(0.0, min((step + 1) / warmup, (total - step) / (total - warmup)))


# %%
def loss_sum(model, ids: Int[Tensor, "batch seq"]) -> tuple[Float[Tensor, ""], int]:
    """The sum of the cross-entropies of all next tokens that are no padding, and how many they are."""
    logits = model(ids[:, :-1])
    targets = ids[:, 1:]
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum")
    return losses, int((targets != PAD).sum())


# %%
class Model(nn.Module):
    """Logits for the next token, by the last one alone."""

    def __init__(self, vocab_size: int, dim: int, dropout: float = 0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim)
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        self.lm_head = nn.Linear(dim, vocab_size)

    def forward(self, ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq vocab"]:
        return self.lm_head(self.dropout(self.norm(self.embedding(ids))))


# %%
@torch.no_grad()
def evaluate(model: nn.Module, batches: list[Tensor]) -> float:
    """The loss over all batches, without dropout."""
    model.eval()
    found = [loss_sum(model, ids) for ids in batches]
    return sum(losses.item() for losses, _ in found) / sum(count for _, count in found)


# %%
class Trainer:
    """Training of a model by updates, each over several microbatches."""

    def __init__(
        self, model: nn.Module, max_lr: float, warmup: int, total: int, max_norm: float = 1.0, weight_decay: float = 0.1
    ):
        self.model = model.train()
        self.schedule = (max_lr, warmup, total)
        self.max_norm = max_norm
        self.updates = 0
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        others = [p for p in model.parameters() if p.dim() < 2]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=max_lr, betas=(0.9, 0.95), eps=1e-5)

    def update(self, microbatches: list[Int[Tensor, "batch seq"]]) -> float:
        """One step of the optimizer; the loss before it."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.updates, *self.schedule)
        self.optimizer.zero_grad()
        mean = 0.0
        for ids in microbatches:
            losses, count = loss_sum(self.model, ids)
            loss = losses / count / len(microbatches)
            loss.backward()
            mean += loss.item()
            self.updates += 1
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        return mean

    def save(self) -> dict:
        """A snapshot of the run."""
        state = {
            "model": self.model.state_dict(),
            "updates": self.updates,
        }
        return copy.deepcopy(state)

    def load(self, state: dict) -> None:
        """Go on where a snapshot was taken."""
        state = copy.deepcopy(state)
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


# %%
def test(program) -> None:
    """Accept a program that keeps the contract; AssertionError for any other."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# # The run of the statement, with the program above; dashed, once it is mended
# import matplotlib.pyplot as plt
#
# torch.manual_seed(1)
# texts = [torch.randint(1, 25, (2, 12)), torch.randint(1, 25, (2, 12)), F.pad(torch.randint(1, 25, (2, 4)), (0, 8))]
# trainer = Trainer(model := Model(25, 32, dropout=0.3), 0.05, 4, 60)
# losses, evaluated = [], []
# for update in range(60):
#     if update == 10:
#         snapshot = trainer.save()
#         trainer = Trainer(model := Model(25, 32, dropout=0.3), 0.05, 4, 60)
#         trainer.load(snapshot)
#     evaluated += [evaluate(model, texts)] if update % 5 == 0 else []
#     losses.append(trainer.update(texts))
# plt.plot(losses, label="loss")
# plt.plot(range(0, 60, 5), evaluated, "o-", label="evaluate")
# at = [0, 5, 10, 15, 20, 30, 40, 50]
# plt.plot(at, [3.45, 1.66, 1.16, 1.27, 1.19, 1.03, 1.23, 1.07], "C0--", alpha=0.5)
# plt.plot(at, [3.38, 1.53, 0.97, 0.94, 0.95, 0.93, 0.90, 0.90], "C1--", alpha=0.5)
# plt.legend()
# plt.show()

# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("debug_trainer")
