# ---
# jupyter:
#   dojo:
#     title: A trainer with four bugs, and its test
#     level: 4
#     minutes: 40
#     builds_on: [gradients, schedules, adamw, debug_lm]
#     sources:
#       - "Loshchilov and Hutter 2017: Decoupled Weight Decay Regularization, arXiv:1711.05101"
#       - "Touvron et al. 2023: Llama 2, arXiv:2307.09288"
#       - "Karpathy 2019: A Recipe for Training Neural Networks, karpathy.github.io/2019/04/25/recipe"
# ---

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

# %% [markdown] tags=["contract"]
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

# %% [markdown] tags=["hint"]
# Read the curve first. Which of its numbers should be equal, and are not? When does it stop moving? What changes at
# update 10, and what after the first evaluation? Then take texts, dropout or checkpoint away, and look at what is left.

# %% [markdown] tags=["hint"]
# With `dropout=0.0` a run is a formula: one batch of all texts, one loss, torch's own AdamW. Weights and losses of
# both must agree after each of several updates. Let all sizes differ: of microbatches, of texts, of gradients.

# %% [markdown] tags=["hint"]
# One claim a line. `rate`: a list. `loss_sum` of a table of logits: a loop. `evaluate` with dropout: the loss without,
# twice. `Trainer` beside a loop of yours, on twins whose parameters you drew: four updates of unequal microbatches,
# `max_norm` 0.3, `weight_decay` 0.5. With `dropout=0.5`: the loss of an update after `evaluate` is not what that gave.
# `save`, two updates, `load` into a new trainer of a new model, two updates, and that once more: the same weights.

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
        ### BEGIN SOLUTION
        self.model.train()
        ### HANDED OUT
        ### END SOLUTION
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.updates, *self.schedule)
        self.optimizer.zero_grad()
        ### BEGIN SOLUTION
        tokens = sum(int((ids[:, 1:] != PAD).sum()) for ids in microbatches)
        ### HANDED OUT
        ### END SOLUTION
        mean = 0.0
        for ids in microbatches:
            ### BEGIN SOLUTION
            loss = loss_sum(self.model, ids)[0] / tokens
            ### HANDED OUT
            # losses, count = loss_sum(self.model, ids)
            # loss = losses / count / len(microbatches)
            ### END SOLUTION
            loss.backward()
            mean += loss.item()
            ### BEGIN SOLUTION
            ### HANDED OUT
            # self.updates += 1
            ### END SOLUTION
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        ### BEGIN SOLUTION
        self.updates += 1
        ### HANDED OUT
        ### END SOLUTION
        return mean

    def save(self) -> dict:
        """A snapshot of the run."""
        state = {
            "model": self.model.state_dict(),
            ### BEGIN SOLUTION
            "optimizer": self.optimizer.state_dict(),
            ### HANDED OUT
            ### END SOLUTION
            "updates": self.updates,
        }
        return copy.deepcopy(state)

    def load(self, state: dict) -> None:
        """Go on where a snapshot was taken."""
        state = copy.deepcopy(state)
        self.model.load_state_dict(state["model"])
        ### BEGIN SOLUTION
        self.optimizer.load_state_dict(state["optimizer"])
        ### HANDED OUT
        ### END SOLUTION
        self.updates = state["updates"]


# %%
def test(program) -> None:
    """Accept a program that keeps the contract; AssertionError for any other."""
    ### BEGIN SOLUTION
    for step, wanted in enumerate((0.5, 1.0, 1.5, 2.0, 2.0, 1.6, 1.2, 0.8, 0.4, 0.0)):
        assert abs(program.rate(step, 2.0, 4, 9) - wanted) < 1e-4, "another rate"

    table, pairs = torch.randn(9, 9), [(3, 5), (5, 1), (1, 8), (8, 4), (6, 2), (2, 7)]
    losses, count = program.loss_sum(lambda ids: table[ids], torch.tensor([[3, 5, 1, 8, 4], [6, 2, 7, 0, 0]]))
    expected = -sum(table[a].log_softmax(-1)[b] for a, b in pairs).item()
    assert abs(float(losses) - expected) < 1e-3, "another sum of losses"
    assert float(count) == 6, "another number of targets"

    def twins(dropout: float = 0.0) -> tuple[nn.Module, nn.Module]:
        model = program.Model(11, 6, dropout)
        with torch.no_grad():
            for p in model.parameters():
                p.normal_()
        return model, copy.deepcopy(model)

    def texts(*lengths: int) -> Tensor:
        ids = torch.randint(1, 11, (len(lengths), max(lengths)))
        return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])

    def mean_loss(model: nn.Module, batches: list[Tensor]) -> Tensor:
        rows = [row[row > 0] for ids in batches for row in ids]
        return F.cross_entropy(torch.cat([model(row[None, :-1])[0] for row in rows]), torch.cat([r[1:] for r in rows]))

    work = [[texts(9, 7), texts(3)], [texts(2, 4), texts(8), texts(5, 5)], [texts(6, 2)], [texts(9), texts(2, 2, 3)]]
    model, twin = twins()
    trainer = program.Trainer(model, 0.1, 2, 5, max_norm=0.3, weight_decay=0.5)
    groups = [{"params": [p], "weight_decay": 0.5 * (p.dim() > 1)} for p in twin.parameters()]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-5)
    for step, batches in enumerate(work):
        optimizer.zero_grad()
        right = mean_loss(twin, batches)
        right.backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.3)
        for group in optimizer.param_groups:
            group["lr"] = (0.05, 0.1, 0.1, 0.1 * 2 / 3)[step]
        optimizer.step()
        assert abs(trainer.update(batches) - right.item()) < 1e-3, "not the loss of the update's tokens"
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert torch.allclose(p, q, atol=1e-3), "weights after an update are others"

    model, still = twins(dropout=0.5)
    trainer, expected = program.Trainer(model, 0.1, 2, 5), mean_loss(still.eval(), work[0]).item()
    for _ in range(2):
        assert abs(program.evaluate(model, work[0]) - expected) < 1e-3, "not the loss over all tokens"
    assert abs(trainer.update(work[0]) - expected) > 1e-4, "an update after an evaluation has no dropout"

    model, _ = twins()
    trainer, runs = program.Trainer(model, 0.1, 2, 8), []
    for batches in work[:2]:
        trainer.update(batches)
    snapshot = trainer.save()
    for _ in range(3):
        losses = [trainer.update(batches) for batches in work[2:]]
        runs.append(torch.cat([torch.tensor(losses), nn.utils.parameters_to_vector(model.parameters())]))
        model, _ = twins()
        trainer = program.Trainer(model, 0.1, 2, 8)
        trainer.load(snapshot)
    assert all(torch.allclose(run, runs[0], atol=1e-3) for run in runs), "a run does not go on from its snapshot"
    ### END SOLUTION


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

# %% [markdown] tags=["solution"]
# ## Where the four bugs were
#
# - **Mean of the microbatches' means** in `update`. `evaluate` gets the texts trained on, so without dropout it must
#   give the loss of the next update, and did not: 0.96 against 0.88. The six targets of the short microbatch weighed
#   1/18 each instead of 1/50. Trained so, the run ends at 0.98 instead of 0.90.
# - **Schedule stepped for each microbatch** in `update`: the 60 updates of the schedule are over after 20.
# - **Model left in eval** after the first evaluation: a loss with dropout cannot repeat to the last digit, nor lie
#   below that of `evaluate`. `update` now says what it needs; `evaluate` may as well hand the model back as it was.
# - **Optimizer state lost on resume** in `save` and `load`: the loss rises from 0.88 to 0.98 in the first update of the
#   new trainer. Without moments AdamW's first step is the rate times the sign of the gradient, however small that is.
#
# ## Why the test is made this way
#
# Without chance a trainer is a formula, so a run of torch's own parts is the oracle: one batch, one loss, one step.
# Several updates, because AdamW divides by the size of the gradient: the first update is the same whether the gradient
# was clipped, scaled or summed. Only the moments tell, once gradients of another size follow.
#
# | kind of bug | what the curve above says | the experiment that tells |
# |---|---|---|
# | mean of means, padding counted | differs from `evaluate` | microbatches of 14 and 2 targets |
# | `zero_grad` inside the accumulation | `evaluate` climbs from 3.4 to 8.0 | weights after one update |
# | clipping missing, early, late | nothing: all norms are below 1 | `max_norm` 0.3, several updates |
# | schedule by microbatches, off by one | stands still, too early or at the start | a list of rates, weights |
# | norms and biases decay | next to nothing in 60 updates | `weight_decay` 0.5 |
# | dropout off, or on in `evaluate` | equal figures, or noisy ones | an update against `evaluate` |
# | moments or count lost, a snapshot that moves | a jump, or nothing | load the same snapshot twice |
#
# **What it costs.** The test takes 20 ms: 13 updates of 155 parameters. Training takes 6 FLOPs a parameter and token,
# however cut. $k$ microbatches need the activations of one; a step passes once over 16 bytes a parameter in float32.
#
# ## The usual mistakes
#
# - Microbatches of one size: means of means are right there, and loaders that pad to one length hide it.
# - A snapshot that is loaded once, at once: shared tensors hold the right values until somebody trains.
# - Comparing curves by eye: six known mistakes, four of clipping among them, leave this one as it is to 0.01.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Microbatches of `a` and `b` targets: how many times too much do the first weigh in the mean of means?
#
# - By tokens each weighs 1 / (a + b), in the mean of means 1 / (2 a) in the first: (a + b) / (2 a) times as much.
# - 100 beside 2,048 targets: 10.7 times. Short texts, often the easy ones, then rule the run.
# - Data parallel training has the same bug across ranks: sum losses and counts over ranks before dividing.
#
# Answer: `(a + b) / (2 * a)` times, within 5 %. Settings: `a` 6, 100, 500; `b` 512, 2048.
#
# Source: Hugging Face, Fixing Gradient Accumulation, https://huggingface.co/blog/gradient_accumulation.
#
# ### How many GB has a checkpoint of `n` billion parameters, with all that a run needs to go on?
#
# - Float32 weights and two moments, 4 bytes each: 12 bytes a parameter. For inference 2 bytes are enough.
# - Besides them a few numbers: the step, the place in the data, the state of the random generators.
#
# Answer: `12 * n` GB, within 5 %. Settings: `n` 1.3, 7, 70.
#
# Source: Rajbhandari et al. 2019, section 3.1, arXiv:1910.02054.
#
# ### AdamW divides by the size of the gradient. What is clipping still good for?
#
# - A constant factor of all gradients does nothing, so the first update is the same clipped or not, up to eps.
# - One large gradient stays in the moments: it steers the first for about 1 / (1 - 0.9) = 10 updates, and keeps steps
#   small for 1 / (1 - 0.95) = 20.
#
# Source: Pascanu et al. 2012, On the difficulty of training recurrent neural networks, arXiv:1211.5063.
#
# ### A resumed run jumps, and comes back after a hundred updates. Where do you look?
#
# - Moments: without them the first updates are as large as the rate allows. A second warmup shows in a log of the rate.
# - The position in the data: texts seen twice make the loss too low, not too high. Generators for dropout.
# - Save, load and compare one update with the run that went on: equal to the last digit on one machine.
#
# Source: PyTorch, Saving and Loading Models, https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html.
