import torch
from torch import Tensor


def alibi_slopes(num_heads: int) -> Tensor:
    power = 2 ** (num_heads.bit_length() - 1)
    first = torch.pow(2.0, -8.0 * torch.arange(1, power + 1) / power)
    rest = torch.pow(2.0, -8.0 * (2 * torch.arange(num_heads - power) + 1) / (2 * power))
    return torch.cat([first, rest]).to(torch.float32)


def alibi_bias(num_heads: int, q_len: int, k_len: int | None = None) -> Tensor:
    if k_len is None:
        k_len = q_len
    i = torch.arange(q_len, dtype=torch.float32) + float(k_len - q_len)
    j = torch.arange(k_len, dtype=torch.float32)
    return torch.einsum("h,qk->hqk", alibi_slopes(num_heads), -torch.cdist(i[:, None], j[:, None], p=1.0))
