import torch


def alibi_slopes(num_heads):
    below = 1
    while below * 2 <= num_heads:
        below *= 2
    exponent = [8 * (h + 1) / below for h in range(below)]
    exponent += [8 * (2 * h + 1) / (2 * below) for h in range(num_heads - below)]
    return torch.exp2(-torch.tensor(exponent, dtype=torch.float64)).float()


def alibi_bias(num_heads, q_len, k_len=None):
    k_len = k_len or q_len
    gap = torch.arange(k_len) - torch.arange(q_len).unsqueeze(-1) - (k_len - q_len)
    penalty = torch.minimum(gap, -gap)
    return penalty * alibi_slopes(num_heads)[:, None, None]
