# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   dojo:
#     title: Language model loss
#     level: 2
#     minutes: 12
#     builds_on: [cross_entropy, lm]
#     sources:
#       - "Radford et al. 2018: Improving Language Understanding by Generative Pre-Training, https://openai.com/index/language-unsupervised/"
#       - "transformers, ForCausalLMLoss, https://github.com/huggingface/transformers"
# ---

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
# `token_ids` holds int64 ids of shape `(batch, seq)`. The result is a tensor of no dimensions, with the dtype of
# `logits`.
#
# - **The shift.** Each row is shifted by itself. Token 0 is never predicted, and the last logits of a row predict
#   nothing.
# - **`loss_mask`** is boolean, of shape `(batch, seq)`. True says: this *token* is to be learnt. None says so of all.
#   `loss_mask[:, 0]` has no meaning.
# - **`num_tokens`** is the $N$ to divide by: an integer, or an integer tensor of shape `()` or `(1,)`. By default it is
#   the number of predicted tokens whose mask is True, in the whole batch. Microbatches that all divide by the count of
#   the whole batch add up to its loss.
# - **Nothing kept**, or `seq` 1, gives 0, with gradients of 0. An $N$ of 0 divides by 1.
# - **A token left out** may have the logit `-inf`. It makes no nan, in the loss or in the gradient.
# - **float16 and bfloat16** are computed in float32 and rounded once, at the end. float64 in, float64 out; float32
#   accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `logits`. No loops over rows,
#   positions or classes.
# - **A `ValueError`** whose message holds the values: `token_ids` of another shape than `logits` without its last
#   dimension; `loss_mask` of another shape than `token_ids`; a negative `num_tokens`.
# - **Not graded:** ids outside the vocabulary, even where they are masked; logits that are nan or infinite elsewhere.
#
# `F.cross_entropy` and the rest of PyTorch are allowed: this is about the shift and the count.
#
# **Example.** One row, `token_ids = [0, 1, 1, 0]`, and logits $(\ln 3, 0)$ everywhere: token 0 always has probability
# 3/4. Tokens 1, 1, 0 are predicted and lose $\ln 4$, $\ln 4$ and $\ln \frac43$. The result is `3.06027 / 3 = 1.02009`.
# With `loss_mask = [T, F, T, T]` two tokens are left, `1.67398 / 2 = 0.83699`, and with `num_tokens=4` it is `0.41849`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# ids, learn = [0, 1, 1, 0], [True, False, True, True]
# loses = [-math.log(0.75 if token == 0 else 0.25) for token in ids]
# kept = [loses[t] for t in range(1, 4) if learn[t]]
# print(f"all {sum(loses[1:]) / 3:.5f}, masked {sum(kept) / len(kept):.5f}, over 4 tokens {sum(kept) / 4:.5f}")

# %% [markdown] tags=["hint"]
# Write down which logits meet which token in a row of four. How many pairs are there, and whose mask counts?

# %% [markdown] tags=["hint"]
# `logits[:, :-1]` meets `token_ids[:, 1:]` and `loss_mask[:, 1:]`. Flatten only after that.

# %% [markdown] tags=["hint"]
# `F.cross_entropy(..., reduction="none")` in float32, a `torch.where` with 0 for what is left out, the sum, divided by
# the count, which is at least 1.

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

    num_tokens is their count by default, and 0 divides by 1. Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: shapes do not fit, or num_tokens is negative.
    """
    ### BEGIN SOLUTION
    if token_ids.shape != logits.shape[:-1]:
        raise ValueError(f"token_ids of shape {tuple(token_ids.shape)} do not fit logits of {tuple(logits.shape)}")
    if loss_mask is not None and loss_mask.shape != token_ids.shape:
        raise ValueError(f"loss_mask of shape {tuple(loss_mask.shape)} for token_ids of {tuple(token_ids.shape)}")
    if num_tokens is not None and num_tokens < 0:
        raise ValueError(f"num_tokens={num_tokens} is negative")
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    before, targets = wide[:, :-1], token_ids[:, 1:]
    kept = torch.ones_like(targets, dtype=torch.bool) if loss_mask is None else loss_mask[:, 1:]
    loss = F.cross_entropy(before.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    total = torch.where(kept, loss, 0.0).sum()
    count = kept.sum() if num_tokens is None else num_tokens
    return (total / max(int(count), 1)).to(logits.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# A row of $s$ tokens has $s - 1$ questions and answers: logits $0 \dots s-2$ and tokens $1 \dots s-1$. The mask
# belongs to the answers, so it is shifted as they are. Flattened first and shifted then, the last logits of a row would
# be asked for the first token of the next.
#
# $N$ is the count over everything that makes one step of the optimiser. Two microbatches with 10 and 1,000 kept tokens,
# each divided by its own count, would weight a token of the first a hundred times as much.
#
# `where` and not a product: $-\ln p$ of a token that is left out may be infinite, and $0 \cdot \infty$ is nan.
#
# **What it costs.** $O(t\, n)$ time for $t$ tokens and $n$ classes, little beside the model's last projection, and much
# memory: the float32 logits and their gradient take $8\, t\, n$ bytes. `int(count)` waits for a GPU;
# `count.clamp_min(1)` would not.
#
# ## The other formulation
#
# Labels: a copy of the ids with -100 where nothing is to be learnt, shifted, and
# `F.cross_entropy(..., ignore_index=-100, reduction="sum")`. That is how transformers does it. Its mean over no token
# is nan.
#
# ## The usual mistakes
#
# - No shift: the model learns to repeat its input, and the loss falls to 0 suspiciously fast.
# - Two shifts, one in the data and one in the loss: the model predicts the token after next.
# - The mask of the positions that predict, instead of the tokens that are predicted: the last token of the prompt is
#   learnt, and the end of the answer is not, so the model never stops.
# - The mean over all positions, or of the rows' means: padding and short answers change the weight of a token.

# %% tags=["active-ipynb", "solution"]
# # Which logits get a gradient: those one position before a token that is to be learnt
# import torch
# from matplotlib import pyplot as plt
#
# generator = torch.Generator().manual_seed(2)
# logits = torch.randn(3, 12, 20, generator=generator, requires_grad=True)
# ids, place = torch.randint(0, 20, (3, 12), generator=generator), torch.arange(12)
# learnt = torch.stack([place >= 8, (place >= 3) & (place < 10), place >= 0])  # prompts of 8 and 3, the second padded
# lm_loss(logits, ids, learnt).backward()
# figure, axes = plt.subplots(2, 1, figsize=(8, 4), layout="constrained")
# shown = {"tokens that are learnt": learnt.float(), "size of the gradient of the logits": logits.grad.norm(dim=-1)}
# for axis, (title, table) in zip(axes, shown.items()):
#     axis.imshow(table, aspect="auto")
#     axis.set(title=title, xticks=range(12), yticks=range(3), ylabel="row")
# axes[1].set_xlabel("position")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is the first token never predicted?
#
# - No logits come before it. A start token in front makes every real token predictable.
# - A row of $s$ tokens gives $s - 1$ losses, which is why loaders often read $s + 1$ tokens.
#
# Source: nanoGPT, get_batch, https://github.com/karpathy/nanoGPT.
#
# ### What does training look like when the shift is missing?
#
# - The logits at $t$ see token $t$ itself, so the loss falls to almost 0: copying is easy.
# - Sampling repeats one token. A loss far below the entropy of text is a bug until shown otherwise.
#
# Source: Karpathy 2019, A Recipe for Training Neural Networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### Should the prompt be learnt too?
#
# - Usually it is masked: the model is to write answers, and prompts may be repeated or poor.
# - With short answers to long prompts, or few examples, learning the prompt too can help.
#
# Source: Shi et al. 2024, arXiv:2405.14394.
#
# ### Why must gradient accumulation know the tokens of the whole step?
#
# - The mean of the microbatches' means is not the mean over their tokens when counts differ.
# - Sum the losses and divide by the count of all microbatches, and of all GPUs, which is known before the first one.
#
# Source: Hugging Face 2024, Fixing Gradient Accumulation, https://huggingface.co/blog/gradient_accumulation.
#
# ### A fine-tuned model never stops. Where do you look?
#
# - Whether the end token is learnt: a mask that ends one early leaves it out.
# - Whether padding is the end token and all padding is ignored: then every end is.
#
# Source: transformers, DataCollatorForLanguageModeling, https://huggingface.co/docs/transformers/main_classes/data_collator.
#
# ### How do you compare models with different tokenisers?
#
# - Not by the loss of a token: longer tokens lose more each. Divide the sum of the losses by the bytes of the text.
# - In bits: nats divided by $\ln 2$. A loss of 2.0 with 4 bytes a token is 0.72 bits per byte.
#
# Source: Gao et al. 2020, The Pile, section 3.1, arXiv:2101.00027.
#
# ### Several documents share a row. What changes?
#
# - The first token of each document is masked: the end of another one says nothing of it.
# - Attention and positions must start anew as well, or documents read each other.
#
# Source: Krell et al. 2021, arXiv:2107.02027.
