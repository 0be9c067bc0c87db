"""Never comes back from one long call into C++, where no Python signal handler runs."""

import torch


def softmax(x, dim=-1):
    return torch.linalg.eigvals(torch.randn(6000, 6000)).real[: x.shape[dim]]
