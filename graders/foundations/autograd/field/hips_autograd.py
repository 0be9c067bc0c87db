"""In the manner of HIPS autograd: primitives with vector-Jacobian products, and sums of the call in `outgrads`."""

import math
import operator


def primitive(fun, *vjps):
    def wrapped(*args):
        args = [arg if isinstance(arg, Value) else Value(arg) for arg in args]
        raw = [arg.data for arg in args]
        result = Value(fun(*raw))
        result.parents = [(arg, lambda g, vjp=vjp: vjp(g, *raw)) for arg, vjp in zip(args, vjps)]
        return result

    return wrapped


def swapped(fun):
    return lambda x, y: fun(y, x)


class Value:
    def __init__(self, data):
        self.data, self.grad, self.parents = data, 0.0, []

    __add__ = __radd__ = primitive(operator.add, lambda g, x, y: g, lambda g, x, y: g)
    __sub__ = primitive(operator.sub, lambda g, x, y: g, lambda g, x, y: -g)
    __mul__ = __rmul__ = primitive(operator.mul, lambda g, x, y: g * y, lambda g, x, y: g * x)
    __truediv__ = primitive(operator.truediv, lambda g, x, y: g / y, lambda g, x, y: -g * x / y**2)
    __pow__ = primitive(operator.pow, lambda g, x, y: g * y * x ** (y - 1))
    __neg__ = primitive(operator.neg, lambda g, x: -g)
    __rsub__, __rtruediv__ = swapped(__sub__), swapped(__truediv__)
    exp = primitive(math.exp, lambda g, x: g * math.exp(x))
    log = primitive(math.log, lambda g, x: g / x)
    tanh = primitive(math.tanh, lambda g, x: g / math.cosh(x) ** 2)
    relu = primitive(lambda x: max(x, 0.0), lambda g, x: g * (x > 0))

    def backward(self):
        child_counts, stack = {self: 1}, [self]
        while stack:
            for parent, _ in stack.pop().parents:
                stack += [parent] if parent not in child_counts else []
                child_counts[parent] = child_counts.get(parent, 0) + 1
        outgrads, childless = {self: 1.0}, [self]
        while childless:
            node = childless.pop()
            node.grad += outgrads[node]
            for parent, vjp in node.parents:
                outgrads[parent] = outgrads.get(parent, 0.0) + vjp(outgrads[node])
                child_counts[parent] -= 1
                childless += [parent] if child_counts[parent] == 0 else []
