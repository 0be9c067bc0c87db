# %% [markdown]
# # Clipping and accumulating gradients
#
# $$\hat g = g \cdot \min\!\Big(1,\ \frac{c}{\lVert g \rVert + \epsilon}\Big), \qquad
# \lVert g \rVert = \sqrt{\textstyle\sum_k \lVert g_k \rVert^2}, \qquad
# \bar g = \sum_i \frac{n_i}{\sum_j n_j}\, g^{(i)}$$
#
# Two steps between `backward` and the optimiser. Clipping keeps one bad batch from ruining a run: all gradients
# together are one vector, and it is shortened to the length $c$, its direction kept. Accumulating makes one large batch
# of several small ones, the microbatches, each with its own number of tokens $n_i$.
#
# **Write** `clip_by_global_norm(grads, max_norm, eps=1e-6)`, which gives `(clipped, norm)`, and
# `accumulate_gradients(grads, counts)`, which gives a list.
#
# - **`grads` of `clip_by_global_norm`** is a list of tensors of any shapes, with None where a parameter has no
#   gradient. `clipped` is a list of the same length: None stays None, and each tensor keeps its dtype.
# - **`norm`** is the norm of all of them together, before clipping: a tensor of no dimensions, float32, or float64 if
#   one of the gradients is. An empty list has norm 0.
# - **What need not be clipped**, where `norm + eps <= max_norm`, comes back bit for bit. It may be the same tensors.
# - **Squares** are summed in float32 at least: float16 gradients of 300 must not overflow.
# - **`grads` of `accumulate_gradients`** holds a list for each microbatch: the gradients of a *mean* over `counts[i]`
#   tokens. The result is the list of gradients of the mean over all tokens, each in its own dtype: weighted and summed
#   in float32 at least, and rounded once.
# - **A microbatch of count 0** takes no part, even if it holds nan. Where all counts are 0 the result is zeros.
# - **None** in some microbatches counts as zero; None in all of them stays None.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow through both functions. No loops
#   over entries: operations grow with the number of tensors alone. float64 in, float64 out; float32 accuracy is enough.
# - **A `ValueError`** whose message holds the values: `max_norm` that is not positive; a negative count; lists of
#   different lengths, of counts and microbatches or among the microbatches.
# - **Not graded:** what is clipped when the norm is not finite; gradients through a norm of 0.
#
# Not allowed: `nn.utils.clip_grad_norm_` and its kin, `nn.utils.get_total_norm`.
#
# **Example.** The gradients $(3, 0)$ and $(4)$ have the norm $\sqrt{9 + 16} = 5$. With `max_norm=1` and `eps=0` they
# become $(0.6, 0)$ and $(0.8)$. Means of 2 over one token and of 8 over three tokens are a mean of
# $(1 \cdot 2 + 3 \cdot 8) / 4 = 6.5$ over all four, not 5.
#
# **Sources:** Pascanu, Mikolov, Bengio 2012: On the difficulty of training recurrent neural networks,
# [arXiv:1211.5063](https://arxiv.org/abs/1211.5063).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# grads = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]
# norm = sum(g.square().sum() for g in grads).sqrt()
# print("norm", norm, "clipped to 1:", [(g / norm).tolist() for g in grads])
# print("mean over all tokens", (1 * 2 + 3 * 8) / (1 + 3), "mean of the means", (2 + 8) / 2)

# %%
import torch
from jaxtyping import Float
from torch import Tensor


# %%
def clip_by_global_norm(
    grads: list[Float[Tensor, "..."] | None], max_norm: float, eps: float = 1e-6
) -> tuple[list[Float[Tensor, "..."] | None], Float[Tensor, ""]]:
    """The gradients, shortened together to a norm of at most max_norm, and their norm before that.

    The norm is float32, float64 if one of them is; each gradient keeps its dtype, and None stays None.

    Raises:
        ValueError: max_norm is not positive.
    """
    raise NotImplementedError


def accumulate_gradients(
    grads: list[list[Float[Tensor, "..."] | None]], counts: list[int]
) -> list[Float[Tensor, "..."] | None]:
    """The gradients of the mean over all tokens, from those of the means over each microbatch's counts[i] tokens.

    Raises:
        ValueError: a count is negative, or lists differ in length.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("gradients")
