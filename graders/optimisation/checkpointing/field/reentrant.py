# robust: Random numbers: no state is kept, so a dropout has another mask. Inputs: all must be tensors that may take them.
"""In the style of the reentrant functions of early checkpointing, as in RevNets and diffusion models."""

import torch


class CheckpointFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run_function, *args):
        ctx.run_function = run_function
        ctx.input_tensors = list(args)
        with torch.no_grad():
            output = ctx.run_function(*ctx.input_tensors)
        return output

    @staticmethod
    def backward(ctx, *output_grads):
        ctx.input_tensors = [x.detach().requires_grad_(True) for x in ctx.input_tensors]
        with torch.enable_grad():
            shallow_copies = [x.view_as(x) for x in ctx.input_tensors]
            output = ctx.run_function(*shallow_copies)
        torch.autograd.backward(output, *output_grads)
        input_grads = tuple(x.grad for x in ctx.input_tensors)
        del ctx.input_tensors, output
        return (None,) + input_grads


def checkpoint(func, *inputs):
    return CheckpointFunction.apply(func, *inputs)
