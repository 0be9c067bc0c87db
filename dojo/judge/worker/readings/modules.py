"""What a module of the attempt holds: parameters, buffers and state dict, read and written."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dojo.judge.protocol import Message


def describe(module: nn.Module) -> Message:
    """The parameters of a module, their gradients, its buffers, and the names in its state dict.

    A buffer goes as it is: that it requires a gradient tells that it hangs on a graph.
    """
    return {
        "parameters": {k: p.detach() for k, p in nn.Module.named_parameters(module)},
        "gradients": {k: p.grad.detach() for k, p in nn.Module.named_parameters(module) if p.grad is not None},
        "buffers": dict(nn.Module.named_buffers(module)),
        "state": list(module.state_dict()),
    }


def outline(module: nn.Module) -> Message:
    """The shapes of a module's parameters and buffers, which are trainable, and a number for each parameter object."""
    named = dict(nn.Module.named_parameters(module))
    return {
        "shapes": {k: tuple(p.shape) for k, p in named.items()},
        "buffers": {k: tuple(b.shape) for k, b in nn.Module.named_buffers(module)},
        "trainable": [k for k, p in named.items() if p.requires_grad],
        "objects": {k: id(p) for k, p in named.items()},
    }


def assign(module: nn.Module, values: dict[str, Tensor]) -> Message:
    """Give a module's parameters and buffers these values, as far as they fit; the outline tells whether all did."""
    own = dict(nn.Module.named_buffers(module)) | dict(nn.Module.named_parameters(module))
    with torch.no_grad():
        for name, value in values.items():
            if name in own and own[name].shape == value.shape:
                own[name].copy_(value)
    return outline(module)
