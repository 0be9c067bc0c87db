# %% [markdown]
# # Clipping and accumulating gradients
#
# $$\hat g = g \cdot \min\!\Big(1,\ \frac{c}{\lVert g \rVert + \epsilon}\Big), \qquad
# \lVert g \rVert = \sqrt{\textstyle\sum_k \lVert g_k \rVert^2}, \qquad
# \bar g = \sum_i \frac{n_i}{\sum_j n_j}\, g^{(i)}$$
#
# Two steps between `backward` and the optimizer. Clipping keeps one bad batch from ruining a run: all gradients
# together are one vector, shortened to the length $c$. Accumulating makes one large batch of several microbatches, each
# with its own number of tokens $n_i$.
#
# **Write** `clip_by_global_norm(grads, max_norm, eps=1e-6)`, which gives `(clipped, norm)`: a list, and the norm before
# clipping, a tensor without dimensions. `grads` is a list of tensors of any shapes.
#
# **Write** `accumulate_gradients(grads, counts)`. `grads[i]` is the list of gradients of a *mean* over the `counts[i]`
# tokens of microbatch $i$; the result is the list for the mean over all tokens.
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: In place, Unclipped, None, Half precision, No tokens, Errors</summary>
#
# - **In place.** `clipped` holds the tensors that came, scaled in place, or new ones: both are right. Neither function
#   needs to be differentiable.
# - **Unclipped.** A norm below `max_norm` leaves gradients as they are, bit for bit.
# - **None.** A parameter without a gradient: None stays None in `clipped`. In some microbatches it counts as zero, in
#   all of them it stays None.
# - **Half precision.** Squares, and sums over microbatches, are float32. The norm stays float32 (float64 beside
#   float64), each gradient keeps its dtype and is rounded once.
# - **No tokens.** A microbatch of count 0 takes no part, even if it holds nan. Where all counts are 0 the result is
#   zeros.
# - **Errors.** `counts` and `grads` of different lengths.
#
# </details>

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
    """
    raise NotImplementedError


def accumulate_gradients(
    grads: list[list[Float[Tensor, "..."] | None]], counts: list[int]
) -> list[Float[Tensor, "..."] | None]:
    """The gradients of the mean over all tokens, from those of the means over each microbatch's counts[i] tokens.

    Raises:
        ValueError: there are not as many counts as microbatches.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("gradients")
