# ---
# jupyter:
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
# `token_ids` and the boolean `loss_mask` have `(batch, seq)`. $N$ is `num_tokens`, by default the number of predicted
# tokens that are kept in the whole batch. The result is a tensor of no dimensions.
#
# All of PyTorch is allowed, `F.cross_entropy` too: this is about the shift and the count.
#
# **Example.** One row, `token_ids = [0, 1, 1, 0]`, and logits $(\ln 3, 0)$ everywhere: token 0 always has probability
# 3/4. Tokens 1, 1, 0 are predicted and lose $\ln 4$, $\ln 4$ and $\ln \frac43$. The result is `3.06027 / 3 = 1.02009`.
# With `loss_mask = [T, F, T, T]` two tokens are left, `1.67398 / 2 = 0.83699`, and with `num_tokens=4` it is `0.41849`.

# %% [markdown] tags=["contract"]
# - **Mask.** True says that this *token* is to be learned, so the mask is shifted with the tokens. Token 0 is never
#   predicted: what the mask says of it has no meaning, and does not count.
# - **Microbatches.** `num_tokens` is an integer or an integer tensor of no dimensions. Microbatches that all divide by
#   the count of the whole batch add up to its loss.
# - **Nothing kept.** Without `num_tokens` it gives 0 with gradients of 0, and `seq` 1 as well.
# - **Impossible tokens.** One that is left out may have the logit `-inf`. It makes no nan in loss or gradient.
# - **Half precision.** Computed in float32 and rounded once, after the division.
# - **Cost.** A loop over rows, to save memory, is fine; one over positions or classes is not.

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
# `logits[:, :-1]` meets `token_ids[:, 1:]` and `loss_mask[:, 1:]`. Flatten only after that. Or leave the logits whole,
# and give the last ones a target that is left out.

# %% [markdown] tags=["hint"]
# Labels are the ids, with -100 where nothing is to be learned. Shift them, then `F.cross_entropy(...,
# ignore_index=-100, reduction="sum")` in float32, divided by the count, which is at least 1.

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
    ### BEGIN SOLUTION
    labels = token_ids if loss_mask is None else token_ids.masked_fill(~loss_mask, -100)
    targets = F.pad(labels[:, 1:], (0, 1), value=-100)  # the last logits of a row predict nothing
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = F.cross_entropy(wide.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
    if num_tokens is None:
        num_tokens = (targets != -100).sum().clamp_min(1)
    return (total / num_tokens).to(logits.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# A row of $s$ tokens has $s - 1$ questions and answers: logits $0 \dots s-2$ and tokens $1 \dots s-1$. The mask
# belongs to the answers, so it is shifted as they are. Flattened first and shifted then, the last logits of a row would
# be asked for the first token of the next.
#
# $N$ is the count over everything that makes one step of the optimizer. Two microbatches with 10 and 1,000 kept tokens,
# each divided by its own count, would weight a token of the first a hundred times as much.
#
# `clamp_min` and not an `if`: a look at the count would wait for the GPU. An ignored token is skipped, not multiplied
# by 0: $-\ln p$ may be infinite, and $0 \cdot \infty$ is nan.
#
# **What it costs.** It is memory-bound: a few FLOPs for each logit that is read from HBM. The float32 logits and their
# gradient take $8\, t\, n$ bytes for $t$ tokens and $n$ classes: 8.4 GB at 8,192 tokens and Llama 3's 128,256 classes.
# Padding the labels spares one copy more: `logits[:, :-1].flatten(0, 1)` has to move all that it keeps.
#
# ## The other formulation
#
# `F.cross_entropy(..., reduction="none")` of the sliced logits, a `torch.where` with the mask, sum and count. It gives
# the losses of single tokens, which evaluation wants. Chunked, as in torchtune and Liger, the logits of some rows are
# made, used and thrown away, and the peak falls by the number of chunks.
#
# ## The usual mistakes
#
# - No shift: the model learns to repeat its input, and the loss falls to 0 suspiciously fast.
# - Two shifts, one in the data and one in the loss: the model predicts the token after next.
# - The mask of the positions that predict, instead of the tokens that are predicted: the last token of the prompt is
#   learned, and the end of the answer is not, so the model never stops.
# - The mean over all positions, or of the rows' means: padding and short answers change the weight of a token.
# - -100 written into the caller's `token_ids`, which the next step then feeds to the embedding.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What does training look like when the shift is missing?
#
# - The logits at $t$ see token $t$ itself, so the loss falls to almost 0: copying is easy.
# - Sampling repeats one token. A loss far below the entropy of text is a bug until shown otherwise.
# - Token 0 has no logits before it: a row of $s$ tokens gives $s - 1$ losses, so loaders often read $s + 1$.
#
# Source: Karpathy 2019, A Recipe for Training Neural Networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### Two microbatches keep `a` and `b` tokens and their means are averaged: how many times does one of the first weigh?
#
# - The mean of the means gives each token $1/(2a)$ or $1/(2b)$, where $1/(a + b)$ is right.
# - Sum the losses and divide by the count of all microbatches and all GPUs: an all-reduce of one number, before the
#   first backward.
# - DDP averages gradients over ranks: with a global count the loss is multiplied by their number.
#
# Answer: `b / a` times one of the second, within 3 %. Settings: `a` 10, 40; `b` 400, 1000.
#
# Source: Hugging Face 2024, Fixing Gradient Accumulation, https://huggingface.co/blog/gradient_accumulation.
#
# ### A fine-tuned model never stops. Where do you look?
#
# - Whether the end token is learned: a mask that ends one early leaves it out.
# - Whether padding is the end token and all padding is ignored: then every end is.
#
# Source: transformers, DataCollatorForLanguageModeling, https://huggingface.co/docs/transformers/main_classes/data_collator.
#
# ### A token of `size` bytes loses `loss` nats: how many bits per byte, to compare models with different tokenizers?
#
# - Longer tokens lose more each, so losses of tokens do not compare. Divide the sum of the losses by the bytes of the
#   text.
# - In bits: nats divided by $\ln 2$. A loss of 2.0 with 4 bytes a token is 0.72 bits per byte.
#
# Answer: `loss / log(2) / size` bits, within 3 %. Settings: `loss` 2, 2.5, 3; `size` 3.5, 4, 4.5.
#
# Source: Gao et al. 2020, The Pile, section 3.1, arXiv:2101.00027.
#
# ### Several documents share a row. What changes?
#
# - The first token of each document is masked: the end of another one says nothing of it.
# - Attention must be masked between documents, or they read each other. Learned absolute positions start anew; RoPE
#   needs no restart, since only differences of positions count.
#
# Source: Krell et al. 2021, arXiv:2107.02027.
