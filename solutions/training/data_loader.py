# ---
# jupyter:
#   dojo:
#     title: Data loader for pretraining
#     level: 3
#     minutes: 25
#     builds_on: [embedding]
#     sources:
#       - "Biderman et al. 2023: Pythia, arXiv:2304.01373"
#       - "Chowdhery et al. 2022: PaLM, arXiv:2204.02311, section 5.1"
# ---

# %% [markdown]
# # Data loader for pretraining
#
# $$\mathrm{inputs}_w = t_{wL}, \ldots, t_{wL + L - 1}, \qquad \mathrm{labels}_w = t_{wL + 1}, \ldots, t_{wL + L}$$
#
# **Write** `DataLoader(tokens, batch_size, seq_len, seed, rank=0, world_size=1)`, an endless iterator over one long
# stream of token ids, `tokens (n,)`. `next(loader)` gives `(inputs, labels)`, both int64 `(batch_size, seq_len)`; $L$ =
# `seq_len`. A row is one of the `(n - 1) // seq_len` windows $w$.
#
# Epoch `e` goes through them in the order `torch.randperm(windows, generator=torch.Generator().manual_seed(seed + e))`.
# Rank `r` takes every `world_size`-th from place `r`, `batch_size` at a time. An epoch has `windows // (batch_size *
# world_size)` steps; what is left over is dropped.
#
# `state_dict()` and `load_state_dict(state)`: a loader so resumed gives the very batches that would have come next.
#
# **Example.** Tokens 0 … 10 with `seq_len = 5` are the windows 0 … 5 and 5 … 10. Of the first, inputs are `[0, 1, 2, 3,
# 4]` and labels `[1, 2, 3, 4, 5]`. `seed = 1` orders them 1, 0, then 0, 1, then 0, 1: with `batch_size = 1`
# the inputs begin with 5, 0, 0, 5, 0, 5.

# %% [markdown] tags=["contract"]
# - **Windows.** All that have a label for each input. A loader is its own `iter`.
# - **Order.** Every epoch has its own, every rank its share of it. No batch is short.
# - **Resume.** At any batch, the border of epochs included, into a new loader or one that has run.
# - **State.** Plain numbers that survive JSON, and a snapshot: later batches do not change it. Its size does not grow
#   with the stream. It holds for the same settings and rank.
# - **Side by side.** Loaders of one process do not disturb each other, nor the global generator.
# - **Storage.** `tokens` may be uint8, uint16 or int32, as in a memory-mapped file. They are read where a batch needs
#   them: the stream is neither copied nor widened.
# - **Cost.** An order is made once an epoch. Resuming reads none of the batches that it skips.
# - **Errors.** Fewer windows than `batch_size * world_size`; `rank` outside `[0, world_size)`.

# %% [markdown] tags=["hint"]
# What is the least number of numbers from which the place in the stream can be computed? With that as the state, saving
# and loading are a line each.

# %% [markdown] tags=["hint"]
# Count batches: `divmod` by the steps of an epoch gives the epoch and the step. Make the order when the epoch is
# another one than that of the order at hand, and not when a step is 0: a resumed loader starts in the middle.

# %% [markdown] tags=["hint"]
# `tokens[:-1].unfold(0, seq_len, seq_len)` is a view, `(windows, seq_len)`, and from `tokens[1:]` it is the labels.
# Index its rows by `order[rank::world_size]`, cut into batches, and widen what comes out.

# %%
import torch
from jaxtyping import Int
from torch import Tensor


# %%
class DataLoader:
    """Batches of a stream of tokens without end; seed, epoch and rank fix their order, and a count is all its state.

    Raises ValueError where a step of all ranks needs more windows than there are, and for a rank that is none.
    """

    def __init__(
        self, tokens: Int[Tensor, "n"], batch_size: int, seq_len: int, seed: int, rank: int = 0, world_size: int = 1
    ):
        ### BEGIN SOLUTION
        windows = (len(tokens) - 1) // seq_len
        if windows < batch_size * world_size:
            raise ValueError(f"{windows} windows, but batch_size {batch_size} times world_size {world_size} in a step")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} is outside [0, {world_size})")
        self.inputs = tokens[:-1].unfold(0, seq_len, seq_len)  # (windows, seq_len), a view
        self.labels = tokens[1:].unfold(0, seq_len, seq_len)
        self.windows = windows
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.steps = windows // (batch_size * world_size)  # of an epoch
        self.batches = 0  # handed out since the start
        self.epoch = -1  # that the order is of
        ### END SOLUTION

    def __iter__(self) -> "DataLoader":
        ### BEGIN SOLUTION
        return self
        ### END SOLUTION

    def __next__(self) -> tuple[Int[Tensor, "batch_size seq_len"], Int[Tensor, "batch_size seq_len"]]:
        """Inputs and labels of the next batch, int64."""
        ### BEGIN SOLUTION
        epoch, step = divmod(self.batches, self.steps)
        if epoch != self.epoch:
            generator = torch.Generator().manual_seed(self.seed + epoch)
            self.order = torch.randperm(self.windows, generator=generator)[self.rank :: self.world_size]
            self.epoch = epoch
        rows = self.order[step * self.batch_size : (step + 1) * self.batch_size]
        self.batches += 1
        return self.inputs[rows].long(), self.labels[rows].long()
        ### END SOLUTION

    def state_dict(self) -> dict:
        """Plain numbers that tell which batch comes next."""
        ### BEGIN SOLUTION
        return {"batches": self.batches}
        ### END SOLUTION

    def load_state_dict(self, state: dict) -> None:
        """Go on from there, whatever was read before."""
        ### BEGIN SOLUTION
        self.batches = state["batches"]
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **A batch is a function of `(seed, step, rank)`**, and of nothing that happened before. So the state is a count, ranks
# need no communication, and a run that crashed sees the same tokens in the same order. PaLM went back 100 steps before
# a loss spike and skipped 200 to 500 batches; Pythia trained all sizes in one order, so that they can be compared.
#
# **A generator of its own.** `torch.manual_seed` in a loader restarts dropout and every other draw in each epoch.
#
# **One permutation for all ranks, then shares.** If each rank shuffled for itself, some windows would be read twice in
# an epoch and others never.
#
# **Views, and rows widened last.** `unfold` makes no copy, so a memory-mapped file is read page by page. Inputs and
# labels are gathered apart: `batch[:, :-1]` and `batch[:, 1:]` of one tensor share memory, and masking labels in place
# would change inputs.
#
# **What it costs.** A batch reads `batch_size * (seq_len + 1)` tokens and writes 16 bytes for each: 34 µs on one core
# for 16 windows of 1,024. The order takes 8 bytes a window, anew in each epoch: $10^{12}$ tokens in windows of 4,096
# are 244 million windows and 2.0 GB, on every rank. Beyond that one shuffles shards, then windows within a shard. The
# stream itself is 2 TB as uint16, 8 TB as int64; a vocabulary of 128,256 needs 4 bytes.
#
# ## The other formulation
#
# Order and position apart, as PyTorch has it: `DistributedSampler(windows, world_size, rank, seed=seed,
# drop_last=True)` with `set_epoch(e)`, and `torch.utils.data.DataLoader(..., drop_last=True)` over it. They give the
# same batches. With worker processes the loader runs ahead of the model: a state must count the batches that were
# handed out, not those that were read.
#
# ## The usual mistakes
#
# - `set_epoch` forgotten: each epoch has the same order.
# - Windows that do not overlap by one token: `tokens.view(-1, seq_len + 1)` loses a label in each.
# - `len(tokens) // seq_len` windows: the last one has no label for its last token.
# - Resumed at the start of the epoch: the first batches are read twice, and the loss falls for the wrong reason.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many GB does the order of an epoch take, for `trillions` trillion tokens in windows of `seq`?
#
# - Eight bytes a window in int64, on every rank.
# - int32 halves it up to 2.1 billion windows. Shuffling shards, then windows within a shard, needs the order of one
#   shard; a pseudorandom permutation of the index needs no memory at all.
#
# Answer: `8 * trillions * 1e12 / seq / 1e9` GB, within 5 %. Settings: `trillions` 1, 15; `seq` 2048, 8192.
#
# Source: torch.randperm, https://docs.pytorch.org/docs/stable/generated/torch.randperm.html.
#
# ### How many steps has an epoch of `billions` billion tokens, with `ranks` ranks of 8 windows of 4,096?
#
# - Tokens over tokens a step: `ranks * 8 * 4096`.
# - On 256 ranks a step is 8.4 million tokens; 300 billion tokens, GPT-3's training, are 35,763 steps.
#
# Answer: `billions * 1e9 / (ranks * 8 * 4096)` steps, within 5 %. Settings: `billions` 300, 2000; `ranks` 64, 256,
# 1024.
#
# Source: Brown et al. 2020, table 2.1, arXiv:2005.14165.
#
# ### A run on 256 ranks goes on with 512. What must the state hold?
#
# - Steps and epochs of one rank mean other windows then. What holds is the number of windows that all ranks together
#   have read.
# - The order of an epoch does not depend on the number of ranks: go on at that place, and cut the rest into new shares.
# - One keeps the tokens a step, and halves `batch_size`: with them the learning rate would have to change.
#
# Source: torch.distributed.checkpoint, https://docs.pytorch.org/docs/stable/distributed.checkpoint.html.
#
# ### Why do fixed windows hurt, and what replaces them?
#
# - They cut documents: a model sees ends without their beginnings, and learns to make up what it was not shown.
# - A window holds the end of one document and the start of another, and attends across.
# - Best-fit packing puts whole documents into windows, and a mask of blocks keeps them apart.
#
# Source: Ding et al. 2024: Fewer truncations improve language modeling, arXiv:2404.10830.
