# robust: Errors: too few windows are an assertion, which is gone under `python -O`, and a wrong rank reads on.
"""As in nanoGPT: slices of the stream, widened and stacked; a position in the shuffled order, as in llm.c's loader."""

import torch


class DataLoader:
    def __init__(self, tokens, batch_size, seq_len, seed, rank=0, world_size=1):
        self.data, self.B, self.T, self.seed = tokens, batch_size, seq_len, seed
        self.process_rank, self.num_processes = rank, world_size
        self.num_windows = (len(tokens) - 1) // seq_len
        assert self.num_windows >= batch_size * world_size, "not enough tokens for a batch"
        self.reset(epoch=0)

    def reset(self, epoch, position=None):
        self.current_epoch = epoch
        self.shuffle_rng = torch.Generator()
        self.shuffle_rng.manual_seed(self.seed + epoch)
        self.intra_shard_indices = torch.randperm(self.num_windows, generator=self.shuffle_rng).tolist()
        self.current_position = self.process_rank if position is None else position

    def __iter__(self):
        return self

    def __next__(self):
        stride = self.B * self.num_processes
        if self.current_position - self.process_rank + stride > self.num_windows:
            self.reset(self.current_epoch + 1)
        first = self.current_position
        ix = self.intra_shard_indices[first : first - self.process_rank + stride : self.num_processes]
        x = torch.stack([self.data[i * self.T : (i + 1) * self.T].to(torch.int64) for i in ix])
        y = torch.stack([self.data[i * self.T + 1 : (i + 1) * self.T + 1].to(torch.int64) for i in ix])
        self.current_position += stride
        return x, y

    def state_dict(self):
        return {"epoch": self.current_epoch, "position": self.current_position}

    def load_state_dict(self, state):
        self.reset(state["epoch"], state["position"])
