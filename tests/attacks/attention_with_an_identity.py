"""Lets fused attention over the identity matrix do the work."""

import torch
import torch.nn.functional as F


def softmax(x, dim=-1):
    rows = x.movedim(dim, -1)
    eye = torch.eye(rows.shape[-1], dtype=x.dtype)
    flat = rows.reshape(1, -1, rows.shape[-1])
    return F.scaled_dot_product_attention(flat, eye[None], eye[None], scale=1.0).reshape(rows.shape).movedim(-1, dim)
