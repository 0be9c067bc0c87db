# Style: transformers' Mixtral; loop over experts, nonzero of a mask, index_add_ of weighted outputs.
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model: int, d_ff: int, num_experts: int, k: int, *, device=None, dtype=None):
        super().__init__()
        if not 1 <= k <= num_experts:
            raise ValueError(f"k must lie in [1, num_experts], got k={k} and num_experts={num_experts}")
        factory = {"device": device, "dtype": dtype}
        self.d_model, self.num_experts, self.k = d_model, num_experts, k
        self.router = nn.Linear(d_model, num_experts, bias=False, **factory)
        self.w1 = nn.Parameter(torch.empty(num_experts, d_ff, d_model, **factory))
        self.w3 = nn.Parameter(torch.empty(num_experts, d_ff, d_model, **factory))
        self.w2 = nn.Parameter(torch.empty(num_experts, d_model, d_ff, **factory))
        for weight in (self.w1, self.w3, self.w2):
            bound = weight.shape[-1] ** -0.5
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        dtype = self.w1.dtype
        wide = torch.promote_types(dtype, torch.float32)
        tokens = x.reshape(-1, self.d_model).to(dtype)

        probs = F.softmax(self.router(tokens), dim=-1, dtype=wide)
        weights, chosen = probs.topk(self.k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)

        out = torch.zeros_like(tokens, dtype=wide)
        for expert in range(self.num_experts):  # also those without tokens: their gradient is 0, not None
            token, slot = torch.where(chosen == expert)
            mine = tokens[token]
            gate = F.silu(F.linear(mine, self.w1[expert]).to(wide))
            hidden = gate * F.linear(mine, self.w3[expert]).to(wide)
            y = F.linear(hidden.to(dtype), self.w2[expert]).to(wide)
            out.index_add_(0, token, y * weights[token, slot].unsqueeze(-1))
        return out.to(dtype).reshape(x.shape)
