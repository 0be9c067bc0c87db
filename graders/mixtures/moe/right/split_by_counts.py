# Style: torchtitan/vLLM-like permute, split by counts, unpermute; a router module of its own, softmax over chosen logits.
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class TopKRouter(nn.Module):
    def __init__(self, d_model: int, num_experts: int, k: int, device=None, dtype=None):
        super().__init__()
        self.k = k
        self.weight = nn.Parameter(torch.randn(num_experts, d_model, device=device, dtype=dtype) / math.sqrt(d_model))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        logits = tokens @ self.weight.mT
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        # The softmax over all, divided by the sum of the chosen, is the softmax of the chosen
        best, experts = logits.topk(self.k, dim=-1)
        return best.softmax(dim=-1), experts


def swiglu(x: Tensor, w1: Tensor, w3: Tensor, w2: Tensor) -> Tensor:
    gate, up = x @ w1.mT, x @ w3.mT
    if x.dtype in (torch.float16, torch.bfloat16):
        gate, up = gate.float(), up.float()
    return (gate * gate.sigmoid() * up).to(x.dtype) @ w2.mT


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model: int, d_ff: int, num_experts: int, k: int, *, device=None, dtype=None):
        if k < 1 or k > num_experts:
            raise ValueError(f"k={k} is outside of [1, {num_experts}], the number of experts")
        super().__init__()
        self.k = k

        def parameter(rows: int, columns: int) -> nn.Parameter:
            values = torch.randn(num_experts, rows, columns, device=device, dtype=dtype)
            return nn.Parameter(values / math.sqrt(columns))

        self.router = TopKRouter(d_model, num_experts, k, device=device, dtype=dtype)
        self.w1 = parameter(d_ff, d_model)
        self.w3 = parameter(d_ff, d_model)
        self.w2 = parameter(d_model, d_ff)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        num_experts, _, d_model = self.w1.shape
        tokens = x.to(self.w1.dtype).reshape(-1, d_model)
        weights, experts = self.router(tokens)

        flat = experts.flatten()
        order = flat.argsort(stable=True)
        counts = flat.bincount(minlength=num_experts).tolist()
        parts = tokens.index_select(0, order // self.k).split(counts)
        outputs = torch.cat(
            [swiglu(*each) for each in zip(parts, self.w1.unbind(), self.w3.unbind(), self.w2.unbind())]
        )

        outputs = outputs.index_select(0, order.argsort()).unflatten(0, (len(tokens), self.k))
        mixed = (outputs.to(weights.dtype) * weights.unsqueeze(-1)).sum(dim=1)
        return mixed.to(self.w1.dtype).view(x.shape)
