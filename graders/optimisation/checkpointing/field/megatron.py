"""In the style of Megatron-LM: random states are kept, and put back around the second run."""

import torch


def detach_variable(inputs):
    out = []
    for inp in inputs:
        if not isinstance(inp, torch.Tensor):
            out.append(inp)
            continue
        x = inp.detach()
        x.requires_grad = inp.requires_grad
        out.append(x)
    return tuple(out)


class CheckpointFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run_function, *args):
        ctx.run_function = run_function
        ctx.fwd_cpu_rng_state = torch.get_rng_state()
        with torch.no_grad():
            outputs = run_function(*args)
        ctx.inputs = args
        return outputs

    @staticmethod
    def backward(ctx, *args):
        bwd_cpu_rng_state = torch.get_rng_state()
        torch.set_rng_state(ctx.fwd_cpu_rng_state)
        detached_inputs = detach_variable(ctx.inputs)
        with torch.enable_grad():
            outputs = ctx.run_function(*detached_inputs)
        torch.set_rng_state(bwd_cpu_rng_state)
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        torch.autograd.backward(outputs, args)
        grads = tuple(inp.grad if isinstance(inp, torch.Tensor) else inp for inp in detached_inputs)
        return (None, *(grad if isinstance(grad, torch.Tensor) else None for grad in grads))


def checkpoint(function, *args):
    return CheckpointFunction.apply(function, *args)
