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
#     title: Automatic differentiation
#     level: 3
#     minutes: 25
#     builds_on: []
#     sources:
#       - "Baydin et al. 2015: Automatic Differentiation in Machine Learning: a Survey, arXiv:1502.05767"
#       - "Paszke et al. 2019: PyTorch: An Imperative Style, High-Performance Deep Learning Library, arXiv:1912.01703"
# ---

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

# %% [markdown] tags=["hint"]
# When an operation makes its result, it knows its own slopes already. What does a Value have to keep so that `backward`
# needs to know no operation at all?

# %% [markdown] tags=["hint"]
# A Value may hand on its derivative only when all its uses have been summed. Count the uses first, by a walk over the
# graph; a Value is ready when the last of them has been. Walk with a list of your own: Python stops at 1,000 calls.

# %% [markdown] tags=["hint"]
# Keep pairs `(source, slope)` in each Value. In `backward`, `flow` is a dict from Values to what has come so far in
# this call, `{self: 1.0}` at first. Take a ready Value out, add its flow to its `grad`, give `slope * flow` to each
# source, and count down its uses. A local dict, and not `grad`, so that a second call does not see the first.

# %%
import math


# %%
class Value:
    """A number that remembers how it was made. Wengert 1964; Linnainmaa 1970; arXiv:1502.05767, section 3.2."""

    def __init__(self, data: float):
        ### BEGIN SOLUTION
        self.data = float(data)
        self.grad = 0.0
        self.sources: tuple[tuple[Value, float], ...] = ()  # what it was made of, and the slopes
        ### END SOLUTION

    def __add__(self, other):
        ### BEGIN SOLUTION
        other = self.of(other)
        return self.made(self.data + other.data, (self, 1.0), (other, 1.0))
        ### END SOLUTION

    def __radd__(self, number):
        ### BEGIN SOLUTION
        return self + number
        ### END SOLUTION

    def __neg__(self):
        ### BEGIN SOLUTION
        return self.made(-self.data, (self, -1.0))
        ### END SOLUTION

    def __sub__(self, other):
        ### BEGIN SOLUTION
        return self + -self.of(other)
        ### END SOLUTION

    def __rsub__(self, number):
        ### BEGIN SOLUTION
        return self.of(number) - self
        ### END SOLUTION

    def __mul__(self, other):
        ### BEGIN SOLUTION
        other = self.of(other)
        return self.made(self.data * other.data, (self, other.data), (other, self.data))
        ### END SOLUTION

    def __rmul__(self, number):
        ### BEGIN SOLUTION
        return self * number
        ### END SOLUTION

    def __truediv__(self, other):
        ### BEGIN SOLUTION
        other = self.of(other)
        return self.made(self.data / other.data, (self, 1 / other.data), (other, -self.data / other.data**2))
        ### END SOLUTION

    def __rtruediv__(self, number):
        ### BEGIN SOLUTION
        return self.of(number) / self
        ### END SOLUTION

    def __pow__(self, power):
        """Raises TypeError where power is no number."""
        ### BEGIN SOLUTION
        if isinstance(power, Value):
            raise TypeError("a power is a number, not a Value")
        slope = power * self.data ** (power - 1) if power else 0.0
        return self.made(self.data**power, (self, slope))
        ### END SOLUTION

    def exp(self):
        ### BEGIN SOLUTION
        result = math.exp(self.data)
        return self.made(result, (self, result))
        ### END SOLUTION

    def log(self):
        ### BEGIN SOLUTION
        return self.made(math.log(self.data), (self, 1 / self.data))
        ### END SOLUTION

    def tanh(self):
        ### BEGIN SOLUTION
        t = math.tanh(self.data)
        return self.made(t, (self, 1 - t * t))
        ### END SOLUTION

    def relu(self):
        ### BEGIN SOLUTION
        return self.made(max(0.0, self.data), (self, float(self.data > 0)))
        ### END SOLUTION

    def backward(self) -> None:
        """Add the derivatives of this Value to the grads of all that it was made of, and 1 to its own."""
        ### BEGIN SOLUTION
        uses: dict[Value, int] = {self: 0}
        found = [self]
        for node in found:  # which grows on the way
            for source, _ in node.sources:
                if source not in uses:
                    uses[source] = 0
                    found.append(source)
                uses[source] += 1
        flow, ready = {self: 1.0}, [self]
        while ready:
            node = ready.pop()
            total = flow.pop(node)
            node.grad += total
            for source, slope in node.sources:
                flow[source] = flow.get(source, 0.0) + slope * total
                uses[source] -= 1
                if uses[source] == 0:
                    ready.append(source)
        ### END SOLUTION

    ### BEGIN SOLUTION
    @staticmethod
    def made(data, *sources):
        value = Value(data)
        value.sources = sources
        return value

    @staticmethod
    def of(other):
        return other if isinstance(other, Value) else Value(other)

    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Slopes are numbers.** An operation computes them while it has its inputs at hand. `backward` then knows no
# operation: it multiplies and adds.
#
# **Order.** A Value is ready when the count of its uses is 0. Handed on earlier, what comes later would have to be
# handed on as well, once for each way through the graph: thirty times `x = x + x` are a billion ways.
#
# **A flow for each call.** Did `backward` hand on `grad` itself, a second call would hand on what the first has left
# there. So PyTorch keeps sums in buffers of the call, and `.grad` only receives.
#
# **No recursion.** The list of what is found grows while it is walked, and the list of what is ready shrinks and grows.
# Both lie in ordinary memory, not on the stack of calls.
#
# **What it costs.** $O(n)$ time for $n$ Values, forward and back, as each slope is used once. Every Value stays in
# memory until its result goes: some 200 bytes each here. In a real network these are the activations.
#
# ## The other formulation
#
# Each operation keeps a function that adds to the `grad` of its inputs, and `backward` calls them in reversed
# topological order. That is micrograd. It is shorter, and a second call doubles too much unless the inner `grad`s are
# set to 0 first.
#
# ## The usual mistakes
#
# - `grad = …` where it must be `grad += …`: `a * a` has half its slope.
# - Values taken in the order in which a search finds them: some are done before all their uses.
# - `number - value` computed as `value - number`, since `__rsub__` was copied from `__radd__`.
# - The slope of tanh written as $1 - x^2$ with the input for $x$, and not the result.
# - A recursive search: a sum of 2,000 terms ends in a `RecursionError`.

# %% tags=["active-ipynb", "solution"]
# # The graph of the example, with data and gradients
# from matplotlib import pyplot as plt
#
# a, b = Value(2.0), Value(-3.0)
# product, square = a * b, a**2
# total = product + square
# r = total * a
# r.backward()
# places = {"a": (0, 1), "b": (0, 0), "a·b": (1, 0), "a²": (1, 1), "a·b + a²": (2, 0.5), "r": (3, 0.5)}
# values = dict(zip(places, (a, b, product, square, total, r)))
# arrows = [("a", "a·b"), ("b", "a·b"), ("a", "a²"), ("a·b", "a·b + a²"), ("a²", "a·b + a²"), ("a·b + a²", "r")]
# for start, end in [*arrows, ("a", "r")]:
#     bend = {"arrowstyle": "->", "connectionstyle": f"arc3,rad={-0.45 if (start, end) == ('a', 'r') else 0}"}
#     plt.annotate("", places[end], places[start], arrowprops=bend | {"shrinkA": 28, "shrinkB": 28})
# for name, (x, y) in places.items():
#     text = f"{name}\ndata {values[name].data:g}\ngrad {values[name].grad:g}"
#     plt.text(x, y, text, ha="center", va="center", bbox={"boxstyle": "round", "facecolor": "white"})
# plt.xlim(-0.4, 3.4)
# plt.ylim(-0.4, 1.9)
# plt.axis("off")
# plt.title("Three ways lead back to a: -3·2 through a·b, 4·2 through a², and -2. They sum to 0")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why backward and not forward?
#
# - Backward, one sweep gives the derivatives of one result by all inputs. Forward, one sweep gives those of all results
#   by one input.
# - A loss is one number and has billions of parameters: forward would take as many sweeps.
#
# Source: Baydin et al. 2015, section 3, arXiv:1502.05767.
#
# ### Why does `grad` accumulate?
#
# - A parameter that is used twice gets two contributions, and microbatches add theirs in several calls.
# - The price is `zero_grad()`: forgotten, each step walks along the sum of all gradients so far.
#
# Source: PyTorch, torch.Tensor.backward, https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html.
#
# ### How much memory does the way back need?
#
# - Everything that slopes are made of: for each layer its inputs or results, in proportion to its depth.
# - Kept only every $\sqrt{n}$ layers and computed again in between, it grows with $\sqrt{n}$ for one more forward pass.
#
# Source: Chen et al. 2016, arXiv:1604.06174.
#
# ### What is the slope of relu at 0?
#
# - There is none. Anything from 0 to 1 is a subgradient, and libraries take 0.
# - In float64 it does not matter. In half precision zeros are frequent enough that the choice can be measured.
#
# Source: Bertoin et al. 2021, arXiv:2106.12915.
#
# ### How would you test it?
#
# - Against differences `(f(x + h) - f(x - h)) / 2h` in float64, with h near 1e-6, on random programs.
# - Away from kinks. And with Values that are used twice, for trees alone hide most mistakes.
#
# Source: PyTorch, torch.autograd.gradcheck,
# https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html.
#
# ### What changes for tensors?
#
# - The slope is a Jacobian that nobody writes down: each operation has a function from the gradient of its result to
#   those of its inputs.
# - Broadcasting forwards is summing backwards, and changes in place need a version counter, so that slopes are not made
#   of overwritten values.
#
# Source: Paszke et al. 2019, section 4.3, arXiv:1912.01703.
