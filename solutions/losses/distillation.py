# ---
# jupyter:
#   dojo:
#     title: Distillation loss
#     level: 2
#     minutes: 15
#     builds_on: [cross_entropy, kl_estimators]
#     sources:
#       - "Hinton, Vinyals, Dean 2015: Distilling the Knowledge in a Neural Network, arXiv:1503.02531"
# ---

# %% [markdown]
# # Distillation loss
#
# $$\ell = \alpha\, T^2\, \mathrm{KL}(p_T \parallel q_T) - (1 - \alpha) \ln q_{\text{target}}, \qquad
# \mathrm{KL}(p \parallel q) = \sum_y p_y (\ln p_y - \ln q_y)$$
#
# A small model learns from a large one's probabilities, not from labels alone: they also say what is nearly right.
# $p_T = \mathrm{softmax}(\text{teacher} / T)$, and $q_T$ is the same of the student; $q$ is the student's at $T = 1$.
#
# **Write** `distillation_loss(student_logits, teacher_logits, targets, temperature=2.0, alpha=0.5, ignore_index=-100)`:
# logits `(..., vocab)`, int64 `targets` `(...)`. The result is the mean of $\ell$ over positions whose target is not
# `ignore_index`, a tensor of no dimensions. All of PyTorch is allowed.
#
# **Example.** Student `[0, 0]`, teacher `[2, 0]`, target 0, $T = 2$, $\alpha = 0.5$: $p_T$ is `[0.731, 0.269]`, the KL
# 0.1109, and the loss `0.5 * 4 * 0.1109 + 0.5 * 0.6931 = 0.5685`.

# %% [markdown] tags=["contract"]
# - **Teacher.** It is constant: no gradient reaches its logits.
# - **Ignored positions.** They count in neither term, nor in the number of positions. At least one is kept. The index
#   may be that of a class, such as padding's.
# - **Stability.** Logits in the hundreds, and temperatures below 1, give neither inf nor nan.
# - **Half precision.** Softmax, sums and mean in float32, rounded once to the student's dtype.
# - **Errors.** Logits of different shapes, such as two vocabularies.

# %% [markdown] tags=["hint"]
# Everything begins with log-probabilities. How many softmaxes are there, and at which temperatures?

# %% [markdown] tags=["hint"]
# Compute one loss for each position, of both terms. Then take those positions whose target is kept, and their mean.

# %% [markdown] tags=["hint"]
# `F.kl_div(log_q, log_p, log_target=True, reduction="none").sum(-1)` is $\mathrm{KL}(p \parallel q)$: the student comes
# first. `F.cross_entropy(..., ignore_index=ignore_index, reduction="none")` wants one axis of positions.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


# %%
def distillation_loss(
    student_logits: Float[Tensor, "*batch vocab"],
    teacher_logits: Float[Tensor, "*batch vocab"],
    targets: Int[Tensor, "*batch"],
    temperature: float = 2.0,
    alpha: float = 0.5,
    ignore_index: int = -100,
) -> Float[Tensor, ""]:
    """alpha T² KL(teacher || student), both at temperature T, and (1 - alpha) of the cross-entropy with the targets.

    The mean over the positions that are kept. Raises ValueError if the logits differ in shape. Hinton et al. 2015.
    """
    ### BEGIN SOLUTION
    if student_logits.shape != teacher_logits.shape:
        shapes = f"{tuple(student_logits.shape)} and {tuple(teacher_logits.shape)}"
        raise ValueError(f"the logits of student and teacher have different shapes: {shapes}")
    acc = torch.promote_types(student_logits.dtype, torch.float32)
    student = student_logits.reshape(-1, student_logits.shape[-1]).to(acc)
    teacher = teacher_logits.detach().reshape(student.shape).to(acc)
    targets = targets.flatten()

    log_q = F.log_softmax(student / temperature, dim=-1)
    log_p = F.log_softmax(teacher / temperature, dim=-1)
    soft = F.kl_div(log_q, log_p, log_target=True, reduction="none").sum(dim=-1)
    hard = F.cross_entropy(student, targets, ignore_index=ignore_index, reduction="none")

    loss = alpha * temperature**2 * soft + (1 - alpha) * hard
    kept = targets != ignore_index
    return (loss.where(kept, 0.0).sum() / kept.sum()).to(student_logits.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **The temperature** flattens both distributions. At $T = 1$ a sure teacher says little more than its label; at $T = 4$
# a class of logit 8 below the best has a seventh of its probability, and the student sees which mistakes are near.
#
# **$T^2$.** The gradient of the KL is $(q_T - p_T)/T$, and the difference itself shrinks as $1/T$. With $T^2$ the two
# terms keep the weights that $\alpha$ says: on random logits of 100 classes the soft gradient's norm is 0.49 at $T = 1$
# and 0.30 at $T = 4$; without $T^2$ it would be 0.019.
#
# **The teacher goes first.** $\mathrm{KL}(p \parallel q)$ is large wherever the teacher has mass and the student has
# none. In `F.kl_div` the *student* comes first, and `reduction="mean"` divides by the vocabulary too.
#
# **All in logarithms.** A softmax underflows, and its logarithm is $-\infty$: $0 \cdot \infty$ is nan.
#
# **What it costs.** $O(n)$ a token for $n$ classes, memory-bound: three softmaxes and some tables of that size.
# At 128,256 classes the two inputs alone are a million bytes a token in float32, so libraries go by chunks of tokens.
#
# ## The other formulation
#
# Cross-entropy of the student under $p_T$, $-\sum p_T \ln q_T$, as torchtune has it: the teacher's entropy does not
# depend on the student, so gradients are equal. The value is not: it never falls to 0.
#
# ## The usual mistakes
#
# - No $T^2$, or the label's term softened too.
# - The arguments of `F.kl_div` swapped, or probabilities where it takes logarithms.
# - A mean over all positions, padding too, or of the KL over the vocabulary.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Without $T^2$, what percent of its weight is left to the soft gradient at the temperature `temperature`?
#
# - One factor $1/T$ is the derivative of `logits / T`, the other comes with the softened difference.
# - For large $T$ the gradient is $(z - v) / n$ with $T^2$, for centered logits $z$, $v$ of $n$ classes: distillation
#   becomes a match of logits.
# - So with $T^2$ one can change $T$ and keep $\alpha$.
#
# Answer: `100 / temperature**2` percent, within 5 %. Settings: `temperature` 2, 4, 5, 10.
#
# Source: Hinton, Vinyals, Dean 2015, section 2, arXiv:1503.02531.
#
# ### How many TB are the teacher's `top` largest logits, 6 bytes each with their ids, for `billions` billion tokens?
#
# - All 128,256 in float16 take 257 TB for a billion tokens, the largest 64 take 0.38.
# - What is cut off must go somewhere: renormalized, the student is too sure. Classes sampled by the teacher's
#   probability have no such bias.
# - Or store none: run the teacher along, a forward pass without a graph.
#
# Answer: `6 * top * billions / 1000` TB, within 5 %. Settings: `top` 12, 64, 256; `billions` 1, 100, 1000.
#
# Source: Anshumann et al. 2025, arXiv:2503.16870.
#
# ### Forward or reverse KL, if the student is much smaller?
#
# - Forward, as here: the student must cover all that the teacher may say, and spreads mass over what nobody says.
# - Reverse, $\mathrm{KL}(q \parallel p)$: it may leave modes out, and what it says is what the teacher finds likely.
# - Reverse needs samples of the student: on-policy distillation, which also trains on the student's own mistakes.
#
# Source: Gu et al. 2023 (MiniLLM), arXiv:2306.08543; Agarwal et al. 2023 (GKD), arXiv:2306.13649.
#
# ### What do labels add, and when would you take $\alpha = 1$?
#
# - They correct the teacher where it is wrong.
# - In pretraining the label is one sample of what the teacher describes: noise, and little news. $\alpha = 1$ is
#   common, and so are texts that the teacher has written.
#
# Source: Hinton, Vinyals, Dean 2015, section 2, arXiv:1503.02531.
