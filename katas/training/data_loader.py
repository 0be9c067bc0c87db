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
#
# **Builds on** embedding. **Sources:** Biderman et al. 2023: Pythia,
# [arXiv:2304.01373](https://arxiv.org/abs/2304.01373); Chowdhery et al. 2022: PaLM,
# [arXiv:2204.02311](https://arxiv.org/abs/2204.02311), section 5.1.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Windows, Order, Resume, State, Side by side, Storage, Cost, Errors</summary>
#
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
#
# </details>

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
        raise NotImplementedError

    def __iter__(self) -> "DataLoader":
        raise NotImplementedError

    def __next__(self) -> tuple[Int[Tensor, "batch_size seq_len"], Int[Tensor, "batch_size seq_len"]]:
        """Inputs and labels of the next batch, int64."""
        raise NotImplementedError

    def state_dict(self) -> dict:
        """Plain numbers that tell which batch comes next."""
        raise NotImplementedError

    def load_state_dict(self, state: dict) -> None:
        """Go on from there, whatever was read before."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("data_loader")
