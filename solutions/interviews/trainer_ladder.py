# ---
# jupyter:
#   dojo:
#     title: A trainer, from one step to a run that resumes
#     level: 3
#     minutes: 60
#     builds_on: [lm_loss, gradients, schedules, adamw]
#     sources:
#       - "Loshchilov and Hutter 2017: Decoupled Weight Decay Regularization, arXiv:1711.05101"
#       - "Touvron et al. 2023: Llama 2, arXiv:2307.09288"
#       - "McCandlish et al. 2018: An Empirical Model of Large-Batch Training, arXiv:1812.06162"
# ---

# %% [markdown]
# # A trainer, from one step to a run that resumes
#
# A language model is to be trained, and the trainer is one class that grows: a step, accumulation, clipping and a
# schedule, a checkpoint, and at the end the log of a run that goes wrong. The model is any module that makes logits
# `(rows, seq, vocab)` of ids `(rows, seq)`. `loss_sum` is given. Later stages keep what earlier ones ask for: whoever
# leaves out an argument that came later gets what there was before.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 10 min
#
# "Write one training step. The trainer owns the optimizer, AdamW; a step takes a batch of ids and gives its mean loss
# a token."
#
# `loss_sum(model, ids)` is right as it is, and padding is the id 0.
#
# ```python
# def loss_sum(model: nn.Module, ids: Int[Tensor, "rows seq"]) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
#     """The sum of the losses of all next tokens that are no padding, and how many they are."""
#     logits, targets = model(ids[:, :-1]), ids[:, 1:]
#     losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum")
#     return losses, (targets != PAD).sum()
#
#
# class Trainer:
#     """Trains a language model with AdamW."""
#
#     def __init__(self, model: nn.Module, lr: float):
#         ...
#
#     def step(self, batch: Int[Tensor, "rows seq"]) -> float:
#         """One step of the optimizer; the mean loss a token before it."""
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Loss.** The step follows the mean over the targets that `loss_sum` counts. What it gives is that mean before the
#   step, a float.
# - **Optimizer.** AdamW with betas 0.9 and 0.95, eps 1e-8. Weights of two or more axes decay by 0.1, all others not at
#   all. What has no gradient stays as it is. Yours or torch's.
# - **Mode.** Each step has dropout, whoever evaluated the model before.

# %% [markdown] tags=["hint"]
# `torch.optim.AdamW` takes a list of groups, each with a `weight_decay` of its own: sort the parameters by `p.dim()`.

# %% [markdown] tags=["stage"]
# ## Stage 2 · 10 min
#
# "The batch does not fit into memory. Accumulate: cut its rows into so many microbatches, and make it the same step."
#
# ```python
# class Trainer:
#     def step(self, batch: Int[Tensor, "rows seq"], microbatches: int = 1) -> float:
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Same step.** It is that of the whole batch, however its tokens are spread over the microbatches: one step of the
#   optimizer, and the loss is that of the batch.
# - **Memory.** One microbatch's graph at a time.
# - **Waits.** With more microbatches the CPU waits for the device no more often.

# %% [markdown] tags=["hint"]
# Which number does each microbatch's gradient have to be divided by, and when is it known? A gradient is linear: what
# is true of the sum of losses may be divided at the end.

# %% [markdown] tags=["stage"]
# ## Stage 3 · 15 min
#
# "Clip the gradient, add a warmup and a cosine, and let one bad batch not end the run. Show the norm and how many steps
# were skipped: `last_norm` and `skipped`."
#
# ```python
# class Trainer:
#     def __init__(
#         self,
#         model: nn.Module,
#         lr: float,
#         clip: float | None = None,
#         warmup: int = 0,
#         total: int | None = None,
#         min_ratio: float = 0.1,
#     ):
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Norm.** `last_norm`, a float, is the norm of the last step's gradient: of the mean loss, all parameters together,
#   before clipping. It is there with `clip` None, too.
# - **Clipping.** By that norm to `clip`; None clips nothing.
# - **Warmup.** Step $s$, from 1 on, has the rate $\mathrm{lr} \cdot s / \mathrm{warmup}$ up to $s$ = `warmup`.
# - **Cosine.** From there it falls along half a cosine to `min_ratio` $\cdot$ `lr` at step `total`, and stays. With
#   `total` None it stays at `lr`.
# - **Non-finite.** A step whose norm is infinite or nan changes neither weights nor moments, and adds 1 to `skipped`.
#   Whether it counts as a step of the schedule is left to you.

# %% [markdown] tags=["hint"]
# `clip_grad_norm_` gives the norm from before clipping, and clips nothing at `math.inf`.

# %% [markdown] tags=["hint"]
# A rate is a function of the number of the step, and every group has its own `"lr"`. The norm tells of both, a loss and
# a gradient that went wrong: look at it before `optimizer.step()`.

# %% [markdown] tags=["stage"]
# ## Stage 4 · 15 min
#
# "It crashed. Make it resume: a new process builds model and trainer with the same arguments, loads a state, and nobody
# can tell."
#
# ```python
# class Trainer:
#     def state_dict(self) -> dict:
#         """All that a new trainer needs to go on."""
#         ...
#
#     def load_state_dict(self, state: dict) -> None:
#         """Go on where the state was taken."""
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Resumption.** The model's weights are in the state. After loading, losses, weights and `skipped` are bit for bit
#   those of the run that went on, in the warmup too.
# - **Random state.** That of the CPU's generator belongs to it, for dropout.
# - **Snapshot.** A state is changed neither by the trainer that gave it nor by one that loaded it: it may be loaded
#   twice.
# - **File.** `torch.save` writes it, `torch.load(..., weights_only=True)` reads it.

# %% [markdown] tags=["hint"]
# List what a step reads besides its batch: weights, moments, counts, the generator. Then ask of each whether the state
# holds a copy or the thing itself, and after loading, who else holds it.

# %% [markdown] tags=["stage"]
# ## Stage 5 · 10 min
#
# "The norm of this run's gradients spikes every 50 steps. Why? Name the cause, and mend the loader."
#
# ```text
# step   loss   norm       lr  tokens
#   49  3.538  0.243  0.00296    2048
#   50  4.488  1.360  0.00296      64
#   51  3.387  0.248  0.00296    2048
#   99  3.262  0.286  0.00272    2048
#  100  2.726  1.331  0.00272      64
#  101  3.373  0.260  0.00271    2048
#  149  3.337  0.282  0.00230    2048
#  150  4.247  1.710  0.00229      64
#  151  3.190  0.278  0.00228    2048
# ```
#
# ```python
# class Loader:
#     """Batches of windows of a text without end, each window once an epoch."""
#
#     def __init__(self, ids: Int[Tensor, "tokens"], rows: int, seq: int, seed: int = 0):
#         self.windows = ids[: len(ids) // seq * seq].view(-1, seq)
#         self.rows = rows
#         self.generator = torch.Generator().manual_seed(seed)
#         self.order = torch.empty(0, dtype=torch.int64)
#
#     def __iter__(self):
#         return self
#
#     def __next__(self) -> Int[Tensor, "rows seq"]:
#         if len(self.order) == 0:
#             self.order = torch.randperm(len(self.windows), generator=self.generator)
#         taken, self.order = self.order[: self.rows], self.order[self.rows :]
#         return self.windows[taken]
#
#
# def diagnose() -> str:
#     """The cause of the spikes, one of six words.
#
#     "lr_restart"    the schedule starts again
#     "lost_moments"  a checkpoint loses AdamW's moments
#     "short_batch"   the last batch of an epoch is smaller
#     "same_order"    every epoch has the same order
#     "bad_text"      one window of the text is garbage
#     "padding"       padding counts as targets
#     """
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Log.** `diagnose` gives the one cause that explains every column.
# - **Batches.** Each has `rows` windows. What is left over at the end of an epoch is dropped, or comes first in the
#   next: either is right.
# - **Epochs.** No window comes twice in an epoch. Each has an order of its own, the same for the same seed.

# %% [markdown] tags=["hint"]
# Read the columns one by one: which of the six causes would leave it as it is at step 50? Then divide the norm at the
# spike by the norm beside it, and do the same with the tokens.

# %%
import copy
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

PAD = 0


# %%
def loss_sum(model: nn.Module, ids: Int[Tensor, "rows seq"]) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum of the losses of all next tokens that are no padding, and how many they are."""
    logits, targets = model(ids[:, :-1]), ids[:, 1:]
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum")
    return losses, (targets != PAD).sum()


# %%
class Trainer:
    """Trains a language model with AdamW."""

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        clip: float | None = None,
        warmup: int = 0,
        total: int | None = None,
        min_ratio: float = 0.1,
    ):
        ### BEGIN SOLUTION
        self.model = model
        self.lr, self.warmup, self.total, self.min_ratio = lr, warmup, total, min_ratio
        self.clip = math.inf if clip is None else clip
        self.steps = self.skipped = 0
        self.last_norm = 0.0
        params = list(model.parameters())
        groups = [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))
        ### END SOLUTION

    def step(self, batch: Int[Tensor, "rows seq"], microbatches: int = 1) -> float:
        """One step of the optimizer; the mean loss a token before it."""
        ### BEGIN SOLUTION
        self.model.train()
        self.optimizer.zero_grad()
        total = tokens = 0
        for ids in batch.chunk(microbatches):
            loss, count = loss_sum(self.model, ids)
            loss.backward()
            total, tokens = total + loss.detach(), tokens + count
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        for grad in grads:
            grad.div_(tokens)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        mean, self.last_norm = torch.stack([total / tokens, norm]).tolist()  # the one wait for the device

        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(self.steps)
        if math.isfinite(self.last_norm):
            self.optimizer.step()
        else:
            self.skipped += 1
        return mean
        ### END SOLUTION

    def state_dict(self) -> dict:
        """All that a new trainer needs to go on."""
        ### BEGIN SOLUTION
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "skipped": self.skipped,
            "random": torch.get_rng_state(),
        }
        return copy.deepcopy(state)
        ### END SOLUTION

    def load_state_dict(self, state: dict) -> None:
        """Go on where the state was taken."""
        ### BEGIN SOLUTION
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self.steps, self.skipped = state["steps"], state["skipped"]
        torch.set_rng_state(state["random"])
        ### END SOLUTION

    ### BEGIN SOLUTION
    def rate(self, step: int) -> float:
        """The learning rate of a step, the first of which is 1."""
        if step <= self.warmup:
            return self.lr * step / self.warmup
        if self.total is None:
            return self.lr
        done = min(1.0, (step - self.warmup) / (self.total - self.warmup))
        return self.lr * (self.min_ratio + (1 - self.min_ratio) * (1 + math.cos(math.pi * done)) / 2)

    ### END SOLUTION


# %%
class Loader:
    """Batches of windows of a text without end, each window once an epoch."""

    def __init__(self, ids: Int[Tensor, "tokens"], rows: int, seq: int, seed: int = 0):
        self.windows = ids[: len(ids) // seq * seq].view(-1, seq)
        self.rows = rows
        self.generator = torch.Generator().manual_seed(seed)
        self.order = torch.empty(0, dtype=torch.int64)

    def __iter__(self):
        return self

    def __next__(self) -> Int[Tensor, "rows seq"]:
        if len(self.order) < self.rows:
            self.order = torch.randperm(len(self.windows), generator=self.generator)
        taken, self.order = self.order[: self.rows], self.order[self.rows :]
        return self.windows[taken]


# %%
def diagnose() -> str:
    """The cause of the spikes, one of six words.

    "lr_restart"    the schedule starts again
    "lost_moments"  a checkpoint loses AdamW's moments
    "short_batch"   the last batch of an epoch is smaller
    "same_order"    every epoch has the same order
    "bad_text"      one window of the text is garbage
    "padding"       padding counts as targets
    """
    ### BEGIN SOLUTION
    return "short_batch"
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## By stage
#
# **What it costs.** 6 FLOPs a parameter and token forward and backward, and a dozen a parameter for AdamW, once a step;
# weights and moments in float32 are 12 bytes a parameter, gradients 4 more.
#
# 1. **Decay** pulls weights to 0: right for a matrix, whose scale the next norm undoes, and wrong for the scale of the
#    norm itself.
# 2. **The gradient is linear**, so sums are added and divided once, by the tokens of all. A mean of means weighs the
#    tokens of a short microbatch more. `loss.backward()` frees a graph; `total += loss` without `detach` keeps parts.
#    For Llama 3 8B a microbatch of 8,192 tokens has 2.1 GB of logits in bfloat16.
# 3. **The norm decides**: if one gradient is nan, so is it, and clipping makes all of them nan. A finite loss may have
#    an infinite gradient. A step with a rate of 0 is wasted, hence $s / \mathrm{warmup}$ from $s = 1$.
# 4. **Moments and counts** are as much of the run as the weights: 12 bytes a parameter in float32, of which the weights
#    are 4. `state_dict` hands out the tensors themselves, and `Optimizer.load_state_dict` keeps what it is given.
# 5. **Columns.** At step 50 the rate goes on falling: no `lr_restart`. Steps after the spike are as those before it: no
#    `lost_moments`. Batches are shuffled anew, so that a `bad_text` would be met at other distances, and a `same_order`
#    would repeat the losses, too; `padding` would show in every step. Tokens fall to 64, 1/32, and the norm rises by
#    about √32 = 5.7: noise. The loss is as noisy, now up and now down. A run may drop what is left over, or carry it
#    into the next epoch.
#
# **Usual mistakes.** `zero_grad` inside the loop; clipping each microbatch; the rate written to one group; a test of
# resumption that loads at once, where shared tensors still hold the right values.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### A batch of `few` tokens after batches of `many`: how many times as large is the noise of its gradient?
#
# - The gradient is a mean of independent parts, so its standard deviation goes with one over the root of their number.
# - 64 beside 2,048 tokens: 5.7 times, as in the log. Where noise outweighs the mean, so does the norm rise.
# - Tokens of one text are not independent: with few texts it is more.
#
# Answer: `sqrt(many / few)` times, within 5 %. Settings: `few` 64, 512; `many` 2048, 32768, 524288.
#
# Source: McCandlish et al. 2018, section 2.2, arXiv:1812.06162.
#
# ### How many GB do weights, gradients and AdamW take for `n` billion parameters, sharded over `gpus` GPUs?
#
# - Mixed precision: weights and gradients in bfloat16, 2 + 2 bytes; a float32 copy of the weights and two moments, 12.
# - 16 bytes a parameter: 112 GB for 7 billion, more than a GPU of 80 GB has. Over 8 GPUs 14 GB each. Activations are
#   not in it.
#
# Answer: `16 * n / gpus` GB, within 5 %. Settings: `n` 7, 13, 70; `gpus` 1, 8, 64.
#
# Source: Rajbhandari et al. 2019, section 3.1, arXiv:1910.02054.
#
# ### What does clipping hide?
#
# - Spikes that come back: short batches, broken texts. The loss looks fine, so log the norm before clipping, and how
#   often it was clipped.
# - A `clip` below every norm is only another rate, and AdamW undoes a constant factor anyway.
# - A nan goes through it: the factor is nan, too.
#
# Source: Pascanu et al. 2012, On the difficulty of training recurrent neural networks, arXiv:1211.5063.
#
# ### The batch becomes four times as large. What about the rate?
#
# - For SGD the rule is four times the rate. For Adam it is the root, twice the rate, with betas that remember as many
#   tokens as before.
# - Above the critical batch size more tokens a step buy little: noise is no longer what limits the step.
# - Warmup and `total` count steps: to see as many tokens, divide them by four.
#
# Source: Malladi et al. 2022, On the SDEs and Scaling Rules for Adaptive Gradient Algorithms, arXiv:2205.10330.

# %% [markdown] tags=["solution", "signals"]
# ### Stage 1
#
# Strong: asks which parameters decay; calls `train()` in the step; divides by counted targets, not by rows times
# length; overfits one batch as a test.
#
# Weak: one group for all; `.mean()` over padding; gives a tensor with its graph.
#
# ### Stage 2
#
# Strong: says at once that means of microbatches must not be averaged; divides once at the end; compares with one large
# batch.
#
# Weak: divides by the number of microbatches; sums losses and goes backward once; `.item()` in the loop.
#
# ### Stage 3
#
# Strong: draws the schedule at its corners, steps 1, `warmup` and `total`; checks the norm and not the loss; asks
# whether skipped steps count.
#
# Weak: clips each microbatch; a first step of rate 0; sets the rate after the step; skips by the loss.
#
# ### Stage 4
#
# Strong: lists weights, moments, counts, generator and the place in the data; tests by two steps after loading, twice
# from one state; copies on both sides.
#
# Weak: weights alone; the warmup starts again; tests that loading raises nothing.
#
# ### Stage 5
#
# Strong: reads every column and rules causes out aloud; sees that 1/32 of the tokens means 5.7 times the noise; says
# what clipping hid.
#
# Weak: lowers the rate or `clip`; blames the data without a look at tokens; stops shuffling.
