import torch


def test(program):
    x = torch.randn(2, 3, 8)
    assert program.RMSNorm(8)(x).shape == x.shape
