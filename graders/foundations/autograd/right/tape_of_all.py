import itertools
import math
from heapq import heappop, heappush

clock = itertools.count()


class Value:
    """Ordered by birth: what was made later goes back first."""

    def __init__(self, data, parents=(), weights=()):
        self.data, self.grad = data, 0.0
        self.parents, self.weights = parents, weights
        self.born = -next(clock)

    def _with(self, other, forward, by_left, by_right):
        if isinstance(other, Value):
            return Value(forward, (self, other), (by_left, by_right))
        return Value(forward, (self,), (by_left,))

    def __add__(self, other):
        return self._with(other, self.data + data(other), 1, 1)

    __radd__ = __add__

    def __sub__(self, other):
        return self._with(other, self.data - data(other), 1, -1)

    def __rsub__(self, other):
        return Value(other - self.data, (self,), (-1,))

    def __neg__(self):
        return 0 - self

    def __mul__(self, other):
        return self._with(other, self.data * data(other), data(other), self.data)

    __rmul__ = __mul__

    def __truediv__(self, other):
        y = data(other)
        return self._with(other, self.data / y, 1 / y, -self.data / (y * y))

    def __rtruediv__(self, other):
        return Value(other / self.data, (self,), (-other / (self.data * self.data),))

    def __pow__(self, n):
        if isinstance(n, Value):
            return NotImplemented
        slope = n * math.pow(self.data, n - 1) if n != 0 else 0
        return Value(math.pow(self.data, n), (self,), (slope,))

    def exp(self):
        y = math.exp(self.data)
        return Value(y, (self,), (y,))

    def log(self):
        return Value(math.log(self.data), (self,), (1 / self.data,))

    def tanh(self):
        return Value(math.tanh(self.data), (self,), (math.cosh(self.data) ** -2,))

    def relu(self):
        return Value(self.data, (self,), (1,)) if self.data > 0 else Value(0.0, (self,), (0,))

    def backward(self):
        due, heap = {self.born: 1.0}, [(self.born, self)]
        while heap:
            born, node = heappop(heap)
            upstream = due.pop(born)
            node.grad += upstream
            for parent, weight in zip(node.parents, node.weights):
                if parent.born not in due:
                    heappush(heap, (parent.born, parent))
                    due[parent.born] = 0.0
                due[parent.born] += weight * upstream


def data(x):
    return x.data if isinstance(x, Value) else x
