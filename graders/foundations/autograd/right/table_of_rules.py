import math

RULES = {  # what comes out, and what goes back to each input
    "add": (lambda x, y: x + y, lambda g, out, x, y: (g, g)),
    "sub": (lambda x, y: x - y, lambda g, out, x, y: (g, -g)),
    "mul": (lambda x, y: x * y, lambda g, out, x, y: (g * y, x * g)),
    "truediv": (lambda x, y: x / y, lambda g, out, x, y: (g / y, -g * out / y)),
    "neg": (lambda x: -x, lambda g, out, x: (-g,)),
    "exp": (math.exp, lambda g, out, x: (g * out,)),
    "log": (math.log, lambda g, out, x: (g / x,)),
    "tanh": (math.tanh, lambda g, out, x: (g * (1 + out) * (1 - out),)),
    "relu": (lambda x: x * (x > 0), lambda g, out, x: (g if x > 0 else 0.0,)),
}


class Value:
    def __init__(self, data, inputs=(), pull=None):
        self.data, self.grad, self.inputs, self.pull = data, 0.0, inputs, pull

    def __pow__(self, n):
        if type(n) not in (int, float):
            raise TypeError(n)
        return run((lambda x: x**n, lambda g, out, x: (0.0 if n == 0 else g * n * x ** (n - 1),)), self)

    def backward(self):
        order, seen, path = [], {id(self)}, [(self, iter(self.inputs))]
        while path:
            node, rest = path[-1]
            child = next((x for x in rest if id(x) not in seen), None)
            if child is None:
                order.append(path.pop()[0])
            else:
                seen.add(id(child))
                path.append((child, iter(child.inputs)))
        cotangents = dict.fromkeys(map(id, order), 0.0)
        cotangents[id(self)] = 1.0
        for node in reversed(order):
            g = cotangents[id(node)]
            node.grad = node.grad + g
            if node.inputs:
                for x, part in zip(node.inputs, node.pull(g, node.data, *(x.data for x in node.inputs))):
                    cotangents[id(x)] += part


def run(rule, *inputs):
    inputs = [x if isinstance(x, Value) else Value(float(x)) for x in inputs]
    return Value(rule[0](*(x.data for x in inputs)), inputs, rule[1])


for _name, _rule in RULES.items():
    if _name in ("exp", "log", "tanh", "relu"):
        setattr(Value, _name, lambda self, rule=_rule: run(rule, self))
    elif _name == "neg":
        Value.__neg__ = lambda self, rule=_rule: run(rule, self)
    else:
        setattr(Value, f"__{_name}__", lambda self, other, rule=_rule: run(rule, self, other))
        setattr(Value, f"__r{_name}__", lambda self, other, rule=_rule: run(rule, other, self))
