# %% [markdown]
# # A trainer, from one step to a run that resumes
#
# A language model is to be trained, and the trainer is one class that grows: a step, accumulation, clipping and a
# schedule, a checkpoint, and at the end the log of a run that goes wrong. The model is any module that makes logits
# `(rows, seq, vocab)` of ids `(rows, seq)`. `loss_sum` is given. Later stages keep what earlier ones ask for: whoever
# leaves out an argument that came later gets what there was before.
#
# **Builds on** lm_loss, gradients, schedules, adamw. **Sources:** Loshchilov and Hutter 2017: Decoupled Weight Decay
# Regularization, [arXiv:1711.05101](https://arxiv.org/abs/1711.05101); Touvron et al. 2023: Llama 2,
# [arXiv:2307.09288](https://arxiv.org/abs/2307.09288); McCandlish et al. 2018: An Empirical Model of Large-Batch
# Training, [arXiv:1812.06162](https://arxiv.org/abs/1812.06162).
#
# House rules hold: docs/house_rules.md.

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
# <details><summary>Contract: Loss, Optimizer, Mode</summary>
#
# - **Loss.** The step follows the mean over the targets that `loss_sum` counts. What it gives is that mean before the
#   step, a float.
# - **Optimizer.** AdamW with betas 0.9 and 0.95, eps 1e-8. Weights of two or more axes decay by 0.1, all others not at
#   all. What has no gradient stays as it is. Yours or torch's.
# - **Mode.** Each step has dropout, whoever evaluated the model before.
#
# </details>

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


class Trainer:
    """Trains a language model with AdamW."""

    def __init__(self, model: nn.Module, lr: float):
        raise NotImplementedError

    def step(self, batch: Int[Tensor, "rows seq"]) -> float:
        """One step of the optimizer; the mean loss a token before it."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("trainer_ladder")
