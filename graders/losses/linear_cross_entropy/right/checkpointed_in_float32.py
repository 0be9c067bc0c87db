"""Each chunk under torch's checkpoint; a float32 copy of weight, so that autograd adds up its gradient in float32."""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def linear_cross_entropy(hidden, weight, targets, ignore_index=-100, chunk_size=1024):
    wide = torch.promote_types(hidden.dtype, torch.float32)
    rows, flat, table = hidden.flatten(0, -2) if hidden.dim() > 1 else hidden[None], targets.flatten(), weight.to(wide)

    def loss(x, table, t):
        return F.cross_entropy(x.to(wide) @ table.T, t, ignore_index=ignore_index, reduction="sum")

    parts = zip(rows.split(chunk_size), flat.split(chunk_size))
    total = torch.stack([checkpoint(loss, x, table, t, use_reentrant=False) for x, t in parts]).sum()
    return (total / (flat != ignore_index).sum()).to(hidden.dtype)
