"""A generator function, made anew where a state is loaded; the state is epoch and step."""

import itertools

import torch


class DataLoader:
    def __init__(self, tokens, batch_size, seq_len, seed, rank=0, world_size=1):
        self.tokens, self.seq_len, self.batch_size, self.seed = tokens, seq_len, batch_size, seed
        self.rank, self.world_size = rank, world_size
        self.num_windows = (tokens.numel() - 1) // seq_len
        if rank not in range(world_size):
            raise ValueError(f"rank must be one of 0 to {world_size - 1}, got {rank}")
        if self.num_windows // world_size < batch_size:
            raise ValueError(f"{self.num_windows} windows are not {world_size} times batch_size {batch_size}")
        self.load_state_dict({"epoch": 0, "step": 0})

    def __iter__(self):
        return self

    def __next__(self):
        self.epoch, self.step, batch = next(self.generator)
        return batch

    def run(self, epoch, step):
        for epoch in itertools.count(epoch):
            g = torch.Generator()
            g.manual_seed(self.seed + epoch)
            mine = torch.randperm(self.num_windows, generator=g)[self.rank :: self.world_size]
            batches = mine.split(self.batch_size)[: self.num_windows // (self.batch_size * self.world_size)]
            for step, rows in enumerate(batches[step:], step + 1):
                begin = rows.view(-1, 1) * self.seq_len
                both = self.tokens[begin + torch.arange(self.seq_len + 1)].to(torch.long)
                yield epoch, step, (both[:, :-1].contiguous(), both[:, 1:].contiguous())
            step = 0

    def state_dict(self):
        return dict(epoch=self.epoch, step=self.step)

    def load_state_dict(self, state):
        self.epoch, self.step = state["epoch"], state["step"]
        self.generator = self.run(self.epoch, self.step)
