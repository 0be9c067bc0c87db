"""Object style: a class that knows its lengths, and compares each query with what keys are seen from."""

import torch


class Causal:
    def __init__(self, queries, keys):
        if queries < 0 or keys < queries:
            raise ValueError(f"{queries} queries cannot be the last of {keys} keys")
        self.queries, self.keys = queries, keys

    def mask(self, device):
        seen_from = torch.arange(self.keys, device=device) - (self.keys - self.queries)
        return torch.ge(torch.arange(self.queries, device=device).unsqueeze(1), seen_from.unsqueeze(0))


def causal_mask(q_len, k_len=None, *, device=None):
    return Causal(q_len, q_len if k_len is None else k_len).mask(device)
