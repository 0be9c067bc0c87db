"""A test of multi-head attention that computes one head after the other, with weights that it sets itself."""

import math

import torch


def expected(module, x, heads, context=None, mask=None):
    source = x if context is None else context
    size = x.shape[-1] // heads
    merged = []
    for head in range(heads):
        rows = slice(head * size, (head + 1) * size)
        q = x @ module.q_proj.weight[rows].T
        k = source @ module.k_proj.weight[rows].T
        v = source @ module.v_proj.weight[rows].T
        scores = q @ k.transpose(-1, -2) / math.sqrt(size)
        if mask is not None:
            allowed = mask if mask.dim() == 2 else mask[:, 0]
            scores = scores.masked_fill(~allowed, -torch.inf)
        merged.append(scores.softmax(-1) @ v)
    return torch.cat(merged, -1) @ module.o_proj.weight.T


def gradients(result, sources):
    return torch.autograd.grad(result.square().mean(), sources, allow_unused=True)


def test(program):
    for heads, d_model in ((2, 8), (3, 12)):
        module = program.MultiHeadAttention(d_model, heads)
        assert {name for name, _ in module.named_parameters()} == {f"{p}_proj.weight" for p in "qkvo"}
        with torch.no_grad():
            for weight in module.parameters():
                weight.copy_(torch.randn_like(weight) / math.sqrt(d_model))
        x, context = torch.randn(2, 5, d_model, requires_grad=True), torch.randn(2, 7, d_model)
        mask = torch.rand(5, 7) < 0.6
        mask[:, -1] = True
        padding = torch.ones(2, 1, 1, 5, dtype=torch.bool)
        padding[1, ..., 3:] = False
        for more in ({}, {"context": context}, {"context": context, "mask": mask}, {"mask": padding}):
            got, want = module(x, **more), expected(module, x, heads, **more)
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
            mine, theirs = (gradients(y, [x, *module.parameters()]) for y in (got, want))
            for one, other in zip(mine, theirs, strict=True):
                assert one is not None
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
