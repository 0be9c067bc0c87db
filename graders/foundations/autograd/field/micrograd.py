"""In the style of micrograd: a closure for each operation, called in reversed topological order, from grads of 0."""

import math


def unary(function, slope):
    return lambda self: self._record(function(self.data), (self, slope(self.data)))


class Value:
    def __init__(self, data, _children=()):
        self.data = data
        self.grad = 0
        self._backward = lambda: None
        self._prev = set(_children)

    def _record(self, data, *slopes):
        out = Value(data, tuple(child for child, _ in slopes))

        def _backward():
            for child, slope in slopes:
                child.grad += slope * out.grad

        out._backward = _backward
        return out

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return self._record(self.data + other.data, (self, 1), (other, 1))

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return self._record(self.data * other.data, (self, other.data), (other, self.data))

    def __pow__(self, other):
        return self._record(self.data**other, (self, other * self.data ** (other - 1)))

    exp = unary(math.exp, math.exp)
    log = unary(math.log, lambda x: 1 / x)
    tanh = unary(math.tanh, lambda x: 1 - math.tanh(x) ** 2)
    relu = unary(lambda x: max(0, x), lambda x: x > 0)

    def backward(self):
        topo, visited, stack = [], set(), [(self, False)]
        while stack:
            v, expanded = stack.pop()
            if expanded:
                topo.append(v)
            elif v not in visited:
                visited.add(v)
                stack += [(v, True), *((child, False) for child in v._prev)]
        before = [v.grad for v in topo]
        for v in topo:
            v.grad = 0
        self.grad = 1
        for v in reversed(topo):
            v._backward()
        for v, grad in zip(topo, before):
            v.grad += grad

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return other + (-self)

    def __truediv__(self, other):
        return self * other**-1

    def __rtruediv__(self, other):
        return other * self**-1

    __radd__, __rmul__ = __add__, __mul__
