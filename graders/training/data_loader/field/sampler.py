# robust: Side by side: every iterator of torch.utils.data draws a seed for its workers from the global generator.
"""As torch's own: a Dataset of windows, DistributedSampler with set_epoch, and torch.utils.data.DataLoader over it."""

import torch
from torch.utils import data
from torch.utils.data.distributed import DistributedSampler


class TokenDataset(data.Dataset):
    def __init__(self, tokens, seq_len):
        self.tokens, self.seq_len = tokens, seq_len

    def __len__(self):
        return (len(self.tokens) - 1) // self.seq_len

    def __getitem__(self, idx):
        chunk = self.tokens[idx * self.seq_len : (idx + 1) * self.seq_len + 1].to(torch.int64)
        return chunk[:-1], chunk[1:]


class StatefulDistributedSampler(DistributedSampler):
    next_yielded = 0

    def __iter__(self):
        indices = list(super().__iter__())
        yield from indices[self.next_yielded :]


class DataLoader:
    def __init__(self, tokens, batch_size, seq_len, seed, rank=0, world_size=1):
        self.dataset = TokenDataset(tokens, seq_len)
        if len(self.dataset) < batch_size * world_size:
            raise ValueError(f"dataset of {len(self.dataset)} is smaller than {batch_size} x {world_size}")
        self.sampler = StatefulDistributedSampler(
            self.dataset, num_replicas=world_size, rank=rank, shuffle=True, seed=seed, drop_last=True
        )
        self.loader = data.DataLoader(self.dataset, batch_size, sampler=self.sampler, drop_last=True)
        self.epoch, self.step, self.iterator = 0, 0, None

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            if self.iterator is None:
                self.sampler.set_epoch(self.epoch)
                self.sampler.next_yielded = self.step * self.loader.batch_size
                self.iterator = iter(self.loader)
            try:
                batch = next(self.iterator)
            except StopIteration:
                self.epoch, self.step, self.iterator = self.epoch + 1, 0, None
                continue
            self.step += 1
            return tuple(batch)

    def state_dict(self):
        return {"epoch": self.epoch, "step": self.step}

    def load_state_dict(self, state_dict):
        self.epoch, self.step, self.iterator = state_dict["epoch"], state_dict["step"], None
