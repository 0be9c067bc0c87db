"""In the style of Meta's Llama: key heads repeated by expand and reshape, a mask of -inf added, softmax in float32."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def repeat_kv(x, n_rep):
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    x = x[:, :, :, None, :].expand(bs, slen, n_kv_heads, n_rep, head_dim)
    return x.reshape(bs, slen, n_kv_heads * n_rep, head_dim)


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"{d_model=} must divide by {num_heads=}, and that by {num_kv_heads=}")
        self.num_kv_heads, self.n_rep, self.head_dim = num_kv_heads, num_heads // num_kv_heads, d_model // num_heads
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, num_heads * self.head_dim, **kind)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kind)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kind)
        self.o_proj = nn.Linear(num_heads * self.head_dim, d_model, **kind)

    def forward(self, x, mask=None):
        bsz, seqlen, _ = x.shape
        xq = self.q_proj(x).view(bsz, seqlen, -1, self.head_dim)
        keys = self.k_proj(x).view(bsz, seqlen, self.num_kv_heads, self.head_dim)
        values = self.v_proj(x).view(bsz, seqlen, self.num_kv_heads, self.head_dim)
        keys, values = repeat_kv(keys, self.n_rep), repeat_kv(values, self.n_rep)
        xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores + torch.zeros(mask.shape, dtype=x.dtype, device=x.device).masked_fill(~mask, float("-inf"))
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.o_proj(output)
