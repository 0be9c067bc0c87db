"""As Hugging Face's mask functions: each key is compared with the position of each query in the cache."""

import torch


def causal_mask(q_len, k_len=None, *, device=None):
    k_len = q_len if k_len is None else k_len
    cache_position = torch.arange(k_len - q_len, k_len, device=device)
    return torch.arange(k_len, device=device) <= cache_position.reshape(-1, 1)
