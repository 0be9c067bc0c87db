# %% [markdown]
# # Language model loss
#
# $$\ell = -\frac{1}{N} \sum_{b} \sum_{t \ge 1} m_{b,t} \ln p_{b,t-1}(w_{b,t}), \qquad
# p_{b,t} = \mathrm{softmax}(\mathrm{logits}_{b,t})$$
#
# The logits at position $t - 1$ have seen the tokens $w_0 \dots w_{t-1}$ and predict token $w_t$. This is the loss of
# pretraining, and with the mask $m$ also of fine-tuning on answers: the model reads the prompt, and learns the answer.
#
# **Write** `lm_loss(logits, token_ids, loss_mask=None, num_tokens=None)`. `logits` has shape `(batch, seq, vocab)`,
# `token_ids` and the boolean `loss_mask` have `(batch, seq)`. $N$ is `num_tokens`, by default the number of predicted
# tokens that are kept in the whole batch. The result is a tensor of no dimensions.
#
# All of PyTorch is allowed, `F.cross_entropy` too: this is about the shift and the count.
#
# **Example.** One row, `token_ids = [0, 1, 1, 0]`, and logits $(\ln 3, 0)$ everywhere: token 0 always has probability
# 3/4. Tokens 1, 1, 0 are predicted and lose $\ln 4$, $\ln 4$ and $\ln \frac43$. The result is `3.06027 / 3 = 1.02009`.
# With `loss_mask = [T, F, T, T]` two tokens are left, `1.67398 / 2 = 0.83699`, and with `num_tokens=4` it is `0.41849`.
#
# **Builds on** cross_entropy, lm. **Sources:** Radford et al. 2018: Improving Language Understanding by Generative
# Pre-Training, https://openai.com/index/language-unsupervised/; transformers, ForCausalLMLoss,
# https://github.com/huggingface/transformers.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Mask, Microbatches, Nothing kept, Impossible tokens, Half precision, Cost</summary>
#
# - **Mask.** True says that this *token* is to be learned, so the mask is shifted with the tokens. Token 0 is never
#   predicted: what the mask says of it has no meaning, and does not count.
# - **Microbatches.** `num_tokens` is an integer or an integer tensor of no dimensions. Microbatches that all divide by
#   the count of the whole batch add up to its loss.
# - **Nothing kept.** Without `num_tokens` it gives 0 with gradients of 0, and `seq` 1 as well.
# - **Impossible tokens.** One that is left out may have the logit `-inf`. It makes no nan in loss or gradient.
# - **Half precision.** Computed in float32 and rounded once, after the division.
# - **Cost.** A loop over rows, to save memory, is fine; one over positions or classes is not.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# ids, learn = [0, 1, 1, 0], [True, False, True, True]
# loses = [-math.log(0.75 if token == 0 else 0.25) for token in ids]
# kept = [loses[t] for t in range(1, 4) if learn[t]]
# print(f"all {sum(loses[1:]) / 3:.5f}, masked {sum(kept) / len(kept):.5f}, over 4 tokens {sum(kept) / 4:.5f}")

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


# %%
def lm_loss(
    logits: Float[Tensor, "batch seq vocab"],
    token_ids: Int[Tensor, "batch seq"],
    loss_mask: Bool[Tensor, "batch seq"] | None = None,
    num_tokens: int | Tensor | None = None,
) -> Float[Tensor, ""]:
    """The cross-entropy of the next token, summed over the tokens whose mask is True and divided by num_tokens.

    num_tokens is their count by default, at least 1. Half precision is computed in float32 and rounded once.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("lm_loss")
