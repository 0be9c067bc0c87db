# %% [markdown]
# # Automatic differentiation
#
# $$\frac{\partial r}{\partial x} = \sum_{y \text{ made of } x} \frac{\partial r}{\partial y} \,
# \frac{\partial y}{\partial x}$$
#
# What `loss.backward()` does. Each number remembers which numbers it was made of, and with which slopes. From the
# result $r$ back to the inputs these slopes are multiplied along each path, and summed where paths meet.
#
# **Write** the class `Value(data)`. It has
#
# - `data` and `grad`, both floats; `grad` is 0 at first;
# - `+`, `-`, `*`, `/` of two Values, or of a Value and a number on either side, negation, and `value ** number`;
# - the methods `exp()`, `log()`, `tanh()` and `relu()`;
# - `backward()`, which adds to the `grad` of each Value below the derivative by it, and 1 to its own.
#
# Not allowed: PyTorch. Python's `math` is allowed.
#
# **Example.** `a = Value(2.0)`, `b = Value(-3.0)`, `r = (a * b + a ** 2) * a`. `r.data` is $-4$. By `a` the derivative
# is $2ab + 3a^2 = 0$, by `b` it is $a^2 = 4$: so stand `a.grad` and `b.grad` after `r.backward()`.
#
# **Sources:** Baydin et al. 2015: Automatic Differentiation in Machine Learning: a Survey,
# [arXiv:1502.05767](https://arxiv.org/abs/1502.05767); Paszke et al. 2019: PyTorch: An Imperative Style,
# High-Performance Deep Learning Library, [arXiv:1912.01703](https://arxiv.org/abs/1912.01703).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Operations, Shared values, Second call, Deep graphs, Cost, Plain Python</summary>
#
# - **Operations.** Slopes are right at 0 and far from it too. That of relu at 0 is 0.
# - **Shared values.** A Value that is used more than once gets the sum over all its uses, and passes on that sum.
# - **Second call.** Called again, or on another Value of the graph, `backward()` adds what that call is worth, whatever
#   stands in any `grad`.
# - **Deep graphs.** Chains of 50,000 operations work.
# - **Cost.** Time grows with the number of Values, not with the number of paths through the graph.
# - **Plain Python.** No operation of PyTorch runs, in any form.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example by differences, without any graph
# for name, da, db in (("a", 1e-6, 0.0), ("b", 0.0, 1e-6)):
#     low, high = ((a * b + a**2) * a for a, b in ((2.0 - da, -3.0 - db), (2.0 + da, -3.0 + db)))
#     print(f"by {name}:", round((high - low) / 2e-6, 4))

# %%
import math


# %%
class Value:
    """A number that remembers how it was made. Wengert 1964; Linnainmaa 1970; arXiv:1502.05767, section 3.2."""

    def __init__(self, data: float):
        raise NotImplementedError

    def backward(self) -> None:
        """Add the derivatives of this Value to the grads of all that it was made of, and 1 to its own."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("autograd")
