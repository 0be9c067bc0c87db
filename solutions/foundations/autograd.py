# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
# - **Operations.** Slopes are right at 0 and far from it too. That of relu at 0 is 0.
# - **Shared values.** A Value that is used more than once gets the sum over all its uses, and passes on that sum.
# - **Second call.** Called again, or on another Value of the graph, `backward()` adds what that call is worth, whatever
#   stands in any `grad`.
# - **Deep graphs.** Chains of 50,000 operations work.
# - **Cost.** Time grows with the number of Values, not with the number of paths through the graph.
# - **Plain Python.** No operation of PyTorch runs, in any form.

# %% tags=["active-ipynb", "example"]
# # The example by differences, without any graph
# for name, da, db in (("a", 1e-6, 0.0), ("b", 0.0, 1e-6)):
#     low, high = ((a * b + a**2) * a for a, b in ((2.0 - da, -3.0 - db), (2.0 + da, -3.0 + db)))
#     print(f"by {name}:", round((high - low) / 2e-6, 4))

# %% [markdown] tags=["hint"]
# When an operation makes its result, it knows its own slopes already. What does a Value have to keep so that `backward`
# needs to know no operation at all? For a number on the left Python calls `__radd__`, `__rsub__`, `__rmul__` and
# `__rtruediv__`.

# %% [markdown] tags=["hint"]
# A Value may pass on its derivative only when all its uses have been summed: sort what is below by depth, one more than
# that of the deepest source, and begin with the deepest. Walk with a list of your own: Python stops at 1,000 calls.

# %% [markdown] tags=["hint"]
# Keep pairs `(source, slope)`. `flow` is a dict from Values to what has come in this call, `{self: 1.0}` at first. Add
# a Value's flow to its `grad`, and `slope * flow` to the flow of each source.

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
        self.depth = 0

    @staticmethod
    def made(data, *sources):
        value = Value(data)
        value.sources = sources
        value.depth = 1 + max(source.depth for source, _ in sources)
        return value

    @staticmethod
    def of(other):
        return other if isinstance(other, Value) else Value(other)

    def __add__(self, other):
        other = self.of(other)
        return self.made(self.data + other.data, (self, 1.0), (other, 1.0))

    def __mul__(self, other):
        other = self.of(other)
        return self.made(self.data * other.data, (self, other.data), (other, self.data))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        other = self.of(other)
        return self.made(self.data / other.data, (self, 1 / other.data), (other, -self.data / other.data**2))

    def __pow__(self, power):
        return self.made(self.data**power, (self, power * self.data ** (power - 1)))

    def __neg__(self):
        return self.made(-self.data, (self, -1.0))

    def __sub__(self, other):
        return self + -self.of(other)

    def __rsub__(self, number):
        return self.of(number) - self

    def __rtruediv__(self, number):
        return self.of(number) / self

    def exp(self):
        result = math.exp(self.data)
        return self.made(result, (self, result))

    def log(self):
        return self.made(math.log(self.data), (self, 1 / self.data))

    def tanh(self):
        t = math.tanh(self.data)
        return self.made(t, (self, 1 - t * t))

    def relu(self):
        return self.made(max(0.0, self.data), (self, float(self.data > 0)))
        ### END SOLUTION

    def backward(self) -> None:
        """Add the derivatives of this Value to the grads of all that it was made of, and 1 to its own."""
        ### BEGIN SOLUTION
        flow, found = {self: 1.0}, [self]
        for node in found:  # which grows on the way
            for source, _ in node.sources:
                if source not in flow:
                    flow[source] = 0.0
                    found.append(source)
        for node in sorted(found, key=lambda node: node.depth, reverse=True):
            node.grad += flow[node]
            for source, slope in node.sources:
                flow[source] += slope * flow[node]
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Order.** What uses a Value is deeper than it. Taken by depth, a Value has its whole sum before it passes it on.
# Passed on earlier, what comes later would have to be passed on as well, once for each path through the graph: thirty
# times `x = x + x` are a billion paths.
#
# **A flow for each call.** Did `backward` pass on `grad` itself, a second call would pass on what the first has left
# there. So PyTorch keeps sums in buffers of the call, and `.grad` only receives.
#
# **What it costs.** $O(n)$ time and memory for $n$ Values, but for the sort: some 4 µs and 220 bytes for each. PyTorch
# pays a few µs once for a tensor of millions of numbers. All Values below a result stay in memory as long as it does;
# in a network these are the activations.
#
# ## The other formulation
#
# Each operation keeps a closure that adds to the `grad` of its inputs, and `backward` calls them in reversed
# topological order, found by a recursive search. That is micrograd. A second call adds too much there unless the inner
# `grad`s are zeroed first, and the search ends at 1,000 operations in a row. PyTorch's engine counts the uses of each
# node first, and a node is ready when the count is 0.
#
# ## The usual mistakes
#
# - `grad = …` where it must be `grad += …`: `a * a` has half its slope.
# - `backward()` called on each source as the loop comes to it: a Value that is used twice passes on its first gradient
#   twice.
# - `number - value` computed as `value - number`, since `__rsub__` was copied from `__radd__`.

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
# ### How many new Values does `y = W x` take with this class, `W` of `n` rows and columns?
#
# - $n^2$ products and $n (n - 1)$ sums, each an object of its own. As tensors it is one node of the graph.
# - The slope of such a node is a Jacobian that nobody writes down: each operation has a function from the gradient of
#   its result to those of its inputs, here $W^\top g$ and $g x^\top$.
#
# Answer: `n**2 + n * (n - 1)`, within 5 %. Settings: `n` 16, 128, 1024.
#
# Source: Paszke et al. 2019, section 4.3, arXiv:1912.01703.
#
# ### With a checkpoint every `k` of `n` layers, of how many layers are the inputs in memory at most?
#
# - Backward needs what slopes are made of, so without checkpoints memory grows with depth.
# - $n / k$ checkpoints, and the $k$ layers between two of them, which are computed again when backward comes to them.
# - $k = \sqrt n$ is best, and costs one more forward pass: a third more FLOPs.
#
# Answer: `n / k + k`, within 5 %. Settings: `n` 64, 144; `k` 2, 8, 12, 16.
#
# Source: Chen et al. 2016, arXiv:1604.06174.
