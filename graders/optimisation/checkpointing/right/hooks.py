"""Saved tensors are packed as numbers, and the first one that is asked for runs the function again for all of them."""

import torch
from torch.autograd.graph import saved_tensors_hooks


def checkpoint(function, *inputs):
    state, handed_out, again = torch.get_rng_state(), [], []

    def pack(tensor):
        handed_out.append(None)
        return len(handed_out) - 1

    def unpack(number):
        if not again:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                torch.set_rng_state(state)
                with saved_tensors_hooks(lambda tensor: again.append(tensor.detach()), lambda _: None):
                    function(*(x.detach().requires_grad_(x.requires_grad) if torch.is_tensor(x) else x for x in inputs))
        return again[number]

    with saved_tensors_hooks(pack, unpack):
        return function(*inputs)
