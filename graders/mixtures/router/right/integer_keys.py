# Style: unique integer keys (dense rank, id) for topk, only open groups are gathered, weights in log space.
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def _compute_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _top(values: Tensor, k: int) -> Tensor:
    """Indices of the k largest, best first: integer keys without ties, as the lower index has the larger key."""
    n = values.shape[-1]
    dense = torch.unique(values, return_inverse=True)[1].reshape(values.shape)
    keys = dense * n + torch.arange(n - 1, -1, -1, device=values.device)
    return keys.topk(k, dim=-1).indices


def _count(experts: Tensor, num_experts: int) -> Tensor:
    flat = experts.flatten()
    return flat.new_zeros(num_experts).scatter_add(0, flat, torch.ones_like(flat))


def _validate(total: int, k: int, num_groups: int = 1, top_groups: int = 1) -> None:
    problem = None
    if num_groups < 1:
        problem = "there must be a group"
    elif total % num_groups:
        problem = "the groups are not of equal size"
    elif not 1 <= top_groups <= num_groups:
        problem = "top_groups is outside of [1, num_groups]"
    elif not 1 <= k <= total // num_groups * top_groups:
        problem = f"k is outside of [1, {total // num_groups * top_groups}]"
    if problem:
        raise ValueError(f"{problem}: k {k}, E {total}, num_groups {num_groups}, top_groups {top_groups}")


def route(
    logits: Float[Tensor, "*batch experts"], k: int, normalize: bool = True
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    _validate(logits.shape[-1], k)
    x = logits.to(_compute_dtype(logits.dtype))
    experts = _top(x.detach(), k)
    log_weights = x.log_softmax(-1).gather(-1, experts)
    if normalize:
        log_weights = log_weights.log_softmax(-1)
    return log_weights.exp().to(logits.dtype), experts


def balance_loss(logits: Float[Tensor, "*batch experts"], experts: Int[Tensor, "*batch k"]) -> Float[Tensor, ""]:
    # Σ f_e P_e is the mean of P over the assignments
    x = logits.to(_compute_dtype(logits.dtype)).reshape(-1, logits.shape[-1])
    mean_probs = x.log_softmax(-1).exp().sum(0) / max(len(x), 1)
    at_assignments = mean_probs[experts.flatten()]
    loss = at_assignments.sum() / max(experts.numel(), 1) * logits.shape[-1]
    return loss.to(logits.dtype)


def biased_route(
    logits: Float[Tensor, "*batch experts"],
    bias: Float[Tensor, "experts"],
    k: int,
    num_groups: int = 1,
    top_groups: int = 1,
    scale: float = 1.0,
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    total = logits.shape[-1]
    _validate(total, k, num_groups, top_groups)
    size = total // num_groups
    x = logits.to(_compute_dtype(logits.dtype))

    with torch.no_grad():
        choice = x.sigmoid() + bias
        grouped = choice.unflatten(-1, (num_groups, size))
        quality = grouped.topk(min(2, size), dim=-1).values.sum(-1)
        groups = _top(quality, top_groups).sort(-1).values  # by id, so that members are too
        members = (groups.unsqueeze(-1) * size + torch.arange(size, device=x.device)).flatten(-2)
        experts = members.gather(-1, _top(choice.gather(-1, members), k))

    log_scores = F.logsigmoid(x).gather(-1, experts)
    tiny = torch.full_like(log_scores[..., :1], math.log(1e-20))
    log_total = torch.cat([log_scores, tiny], dim=-1).logsumexp(-1, keepdim=True)
    return (scale * (log_scores - log_total).exp()).to(logits.dtype), experts


def update_bias(
    bias: Float[Tensor, "experts"], experts: Int[Tensor, "*batch k"], rate: float
) -> Float[Tensor, "experts"]:
    load, total = _count(experts, len(bias)) * len(bias), experts.numel()
    wide = bias.to(_compute_dtype(bias.dtype))
    moved = torch.where(load < total, wide + rate, torch.where(load > total, wide - rate, wide))
    return moved.to(bias.dtype)
