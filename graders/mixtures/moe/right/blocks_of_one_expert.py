# Style: GShard/MegaBlocks-like; places by a one-hot cumsum, blocks of one expert each, batched products, no loop.
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model: int, d_ff: int, num_experts: int, k: int, *, device=None, dtype=None):
        super().__init__()
        if k not in range(1, num_experts + 1):
            raise ValueError(f"{k} of {num_experts} experts: k must lie in [1, num_experts]")
        self.num_experts, self.k = num_experts, k
        self.router = nn.Linear(d_model, num_experts, bias=False, device=device, dtype=dtype)
        shapes = {"w1": (d_ff, d_model), "w3": (d_ff, d_model), "w2": (d_model, d_ff)}
        for name, shape in shapes.items():
            weight = torch.empty(num_experts, *shape, device=device, dtype=dtype)
            nn.init.normal_(weight, std=shape[1] ** -0.5)
            self.register_parameter(name, nn.Parameter(weight))

    def _layout(self, expert: Tensor) -> tuple[Tensor, Tensor, int]:
        """The row of each assignment among padded rows, the expert of each block, and the rows of a block.

        Each expert has whole blocks. They are as large as they may be without adding more than a fifth of rows.
        """
        n = expert.numel()
        one_hot = expert.unsqueeze(-1) == torch.arange(self.num_experts, device=expert.device)
        running = one_hot.cumsum(0)
        place = running.gather(1, expert.unsqueeze(-1)).squeeze(-1) - 1
        count = one_hot.sum(0)
        sizes = 2 ** torch.arange(max(n.bit_length(), 1), device=expert.device).unsqueeze(-1)
        rows = ((count + sizes - 1) // sizes * sizes).sum(-1)
        size = int(sizes.squeeze(-1)[rows * 5 <= n * 6].max())  # a block of one row always fits

        blocks = (count + size - 1) // size
        start = (blocks.cumsum(0) - blocks) * size
        owner = torch.arange(self.num_experts, device=expert.device).repeat_interleave(blocks)
        return start[expert] + place, owner, size

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        dtype = self.w1.dtype
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        d_model = x.shape[-1]
        tokens = x.reshape(-1, d_model).to(dtype)
        log_probs = self.router(tokens).to(wide).log_softmax(-1)
        best, chosen = log_probs.topk(self.k, dim=-1)
        weights = (best - best.logsumexp(-1, keepdim=True)).exp()

        row, owner, size = self._layout(chosen.flatten())
        copies = tokens.unsqueeze(1).expand(-1, self.k, -1).reshape(-1, d_model)
        blocks = tokens.new_zeros(len(owner) * size, d_model).index_copy(0, row, copies)
        blocks = blocks.view(len(owner), size, d_model)

        gate = torch.einsum("bsd,bfd->bsf", blocks, self.w1[owner]).to(wide)
        up = torch.einsum("bsd,bfd->bsf", blocks, self.w3[owner]).to(wide)
        hidden = (F.silu(gate) * up).to(dtype)
        y = torch.einsum("bsf,bdf->bsd", hidden, self.w2[owner]).to(wide)

        y = y.reshape(len(owner) * size, d_model)[row].view(len(tokens), self.k, d_model)
        return (y * weights.unsqueeze(-1)).sum(1).to(dtype).view(x.shape)
