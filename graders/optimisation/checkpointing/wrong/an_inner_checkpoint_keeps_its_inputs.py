"""Each call keeps its inputs where the hooks of the call around it do not see them: they add up with the depth."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class _Frame:
    """One checkpointed call, without reentrance: saved tensors are numbered, and made again when one is asked for."""

    def __init__(self, function, inputs):
        self.function = function
        self.others = [None if isinstance(x, Tensor) else x for x in inputs]
        self.where = [i for i, x in enumerate(inputs) if isinstance(x, Tensor)]
        self.needs = [inputs[i].requires_grad for i in self.where]
        self.rng = torch.get_rng_state()
        self.tensors = [inputs[i] for i in self.where]
        self.count = 0
        self.made = {}

    def pack(self, _):
        self.count += 1
        return self.count - 1

    def unpack(self, i):
        if i not in self.made:
            self.rerun()
        return self.made.pop(i)

    def rerun(self):
        args = list(self.others)
        for i, t, need in zip(self.where, self.tensors, self.needs):
            args[i] = t.detach().requires_grad_(need)
        made = []

        def pack(t):
            made.append(t.detach())
            return len(made) - 1

        now = torch.get_rng_state()
        torch.set_rng_state(self.rng)
        try:
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda i: made[i]):
                self.function(*args)
        finally:
            torch.set_rng_state(now)
        self.made = dict(enumerate(made))


def checkpoint(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    if not torch.is_grad_enabled():
        return function(*inputs)
    frame = _Frame(function, inputs)
    with torch.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*inputs)
