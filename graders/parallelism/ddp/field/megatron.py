# robust: Missing gradients: ranks disagree on what to send. Empty rank: 0 * nan is nan.
"""In the style of Megatron-LM's and apex's old DDP: gradients coalesced by torch's helpers, reduced, copied back."""

import torch
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


def average_gradients(params, group, num_tokens, bucket_size=1_000_000):
    grads = [param.grad.data for param in params if param.grad is not None]
    num_tokens = torch.tensor([num_tokens], dtype=torch.float32, device=grads[0].device)
    scale = num_tokens / group.all_reduce(num_tokens)

    bucket, numel = [], 0
    for grad in grads:
        if bucket and numel + grad.numel() > bucket_size:
            _allreduce_bucket(bucket, group, scale)
            bucket, numel = [], 0
        bucket.append(grad)
        numel += grad.numel()
    _allreduce_bucket(bucket, group, scale)


def _allreduce_bucket(bucket, group, scale):
    coalesced = _flatten_dense_tensors(bucket)
    coalesced *= scale
    coalesced = group.all_reduce(coalesced)
    for buf, synced in zip(bucket, _unflatten_dense_tensors(coalesced, bucket)):
        buf.copy_(synced)
