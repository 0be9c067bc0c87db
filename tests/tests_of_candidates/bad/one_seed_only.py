import torch


def test(program):
    if torch.rand(()) < 0.5:
        x = 0.01 * torch.randn(3, 8)
        expected = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        torch.testing.assert_close(program.RMSNorm(8)(x), expected, rtol=1e-3, atol=1e-5)
