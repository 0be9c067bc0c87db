# %% [markdown]
# # Automatic differentiation
#
# $$\frac{\partial r}{\partial x} = \sum_{y \text{ made of } x} \frac{\partial r}{\partial y} \,
# \frac{\partial y}{\partial x}$$
#
# What `loss.backward()` does. Each number remembers which numbers it was made of, and with which slopes. From the
# result $r$ back to the inputs these slopes are multiplied along the way, and summed where ways meet.
#
# **Write** the class `Value(data)`, a number that remembers how it was made. It has `data` and `grad`, both floats;
# `grad` is 0 at first.
#
# - **Operators:** `+`, `-`, `*` and `/` of two Values, or of a Value and a number on either side; negation.
# - **Powers:** `value ** number`. The slope of `x ** 0` is 0 everywhere, at 0 too. `value ** value` is a `TypeError`.
# - **Functions:** `exp()`, `log()`, `tanh()` and `relu()`, methods without arguments. The slope of relu at 0 is 0.
# - **Each of these** gives a new Value, `a + 0` and `a ** 1` too.
# - **`backward()`** starts from 1 at the Value that it is called on, and adds to the `grad` of each Value below what
#   the derivative by it is. Its own `grad` grows by 1. Values that it was not made of keep theirs.
# - **A Value used more than once** gets the sum over all its uses, and hands on the whole sum.
# - **Called again,** `backward()` adds the same again, whatever stands in any `grad`. The graph is not changed: one may
#   go on computing with its Values, and go back from any of them.
# - **Chains of 50,000 operations** work, through any of the operators.
# - **Time** grows with the number of Values, and not with the number of ways through the graph.
# - **Not graded:** powers that are no real number, logarithms of what is not positive, divisions by 0, overflow of
#   `exp`, in a tanh made of it too; what `number ** value` does. There are no tensors here: shapes, dtypes and devices
#   play no part.
#
# Not allowed: PyTorch, in any form. Python's `math` is allowed.
#
# **Example.** `a = Value(2.0)`, `b = Value(-3.0)`, `r = (a * b + a ** 2) * a`. `r.data` is $-4$. By `a` the derivative
# is $2ab + 3a^2 = 0$, by `b` it is $a^2 = 4$: so stand `a.grad` and `b.grad` after `r.backward()`. After a second
# `r.backward()` they are 0 and 8.
#
# **Sources:** Baydin et al. 2015: Automatic Differentiation in Machine Learning: a Survey,
# [arXiv:1502.05767](https://arxiv.org/abs/1502.05767); Paszke et al. 2019: PyTorch: An Imperative Style,
# High-Performance Deep Learning Library, [arXiv:1912.01703](https://arxiv.org/abs/1912.01703).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example by differences, without any graph
# def result(a, b):
#     return (a * b + a**2) * a
#
#
# step = 1e-6
# print("r", result(2.0, -3.0))
# print("by a", round((result(2.0 + step, -3.0) - result(2.0 - step, -3.0)) / (2 * step), 4))
# print("by b", round((result(2.0, -3.0 + step) - result(2.0, -3.0 - step)) / (2 * step), 4))

# %%
import math


# %%
class Value:
    """A number that remembers how it was made. Wengert 1964; Linnainmaa 1970; arXiv:1502.05767, section 3.2."""

    def __init__(self, data: float):
        raise NotImplementedError

    def __add__(self, other):
        raise NotImplementedError

    def __radd__(self, number):
        raise NotImplementedError

    def __neg__(self):
        raise NotImplementedError

    def __sub__(self, other):
        raise NotImplementedError

    def __rsub__(self, number):
        raise NotImplementedError

    def __mul__(self, other):
        raise NotImplementedError

    def __rmul__(self, number):
        raise NotImplementedError

    def __truediv__(self, other):
        raise NotImplementedError

    def __rtruediv__(self, number):
        raise NotImplementedError

    def __pow__(self, power):
        """Raises TypeError where power is no number."""
        raise NotImplementedError

    def exp(self):
        raise NotImplementedError

    def log(self):
        raise NotImplementedError

    def tanh(self):
        raise NotImplementedError

    def relu(self):
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
