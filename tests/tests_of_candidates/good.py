"""A test that compares with the formula, over widths, sizes and weights that it sets itself."""

import torch


def test(program):
    for d_model, eps, scale in ((4, 3e-6, 1.0), (7, 1e-2, 1e-1), (16, 1e-5, 5.0)):
        module = program.RMSNorm(d_model, eps=eps)
        assert [name for name, _ in module.named_parameters()] == ["weight"]
        with torch.no_grad():
            module.weight.copy_(torch.randn(d_model))
        x = scale * (torch.randn(2, 3, d_model) + 1)
        expected = x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * module.weight
        torch.testing.assert_close(module(x), expected, rtol=1e-4, atol=1e-5)
