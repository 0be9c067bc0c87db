"""As in nanoGPT and Llama: a triangle of ones, moved by the keys that came before."""

import torch


def causal_mask(q_len, k_len=None, *, device=None):
    k_len = q_len if k_len is None else k_len
    return torch.tril(torch.ones(q_len, k_len, device=device), diagonal=k_len - q_len).bool()
