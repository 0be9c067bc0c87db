# Style: DeepSeek/vLLM-like functions; stable sort, mask of groups, gather, bincount.
import torch
from jaxtyping import Float, Int
from torch import Tensor


def _upcast(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _best_first(scores: Tensor) -> Tensor:
    return scores.argsort(dim=-1, descending=True, stable=True)


def route(
    logits: Float[Tensor, "*batch experts"], k: int, normalize: bool = True
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    num_experts = logits.shape[-1]
    if not 1 <= k <= num_experts:
        raise ValueError(f"k must lie in [1, {num_experts}], got k={k}")
    x = _upcast(logits)
    experts = _best_first(x.detach())[..., :k].contiguous()
    weights = x.softmax(dim=-1).gather(-1, experts)
    if normalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights.to(logits.dtype), experts


def balance_loss(logits: Float[Tensor, "*batch experts"], experts: Int[Tensor, "*batch k"]) -> Float[Tensor, ""]:
    num_experts = logits.shape[-1]
    probs = _upcast(logits).softmax(dim=-1).reshape(-1, num_experts)
    mean_prob = probs.sum(dim=0) / max(probs.shape[0], 1)
    load = torch.bincount(experts.reshape(-1), minlength=num_experts)
    share = load.to(probs.dtype) / max(experts.numel(), 1)
    return (num_experts * (share * mean_prob).sum()).to(logits.dtype)


def biased_route(
    logits: Float[Tensor, "*batch experts"],
    bias: Float[Tensor, "experts"],
    k: int,
    num_groups: int = 1,
    top_groups: int = 1,
    scale: float = 1.0,
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    num_experts = logits.shape[-1]
    given = f"k={k}, E={num_experts}, num_groups={num_groups}, top_groups={top_groups}"
    if num_groups < 1:
        raise ValueError(f"num_groups must be at least 1: {given}")
    if num_experts % num_groups:
        raise ValueError(f"E must be a multiple of num_groups: {given}")
    if not 1 <= top_groups <= num_groups:
        raise ValueError(f"top_groups must lie in [1, num_groups]: {given}")
    size = num_experts // num_groups
    if not 1 <= k <= top_groups * size:
        raise ValueError(f"k must lie in [1, {top_groups * size}], the experts of the chosen groups: {given}")

    scores = _upcast(logits).sigmoid()
    choice = scores.detach() + bias.detach()
    order = _best_first(choice)
    if top_groups < num_groups:
        grouped = choice.unflatten(-1, (num_groups, size))
        group_scores = grouped.topk(min(2, size), dim=-1).values.sum(dim=-1)
        best = _best_first(group_scores)[..., :top_groups]
        closed = torch.ones_like(group_scores, dtype=torch.bool).scatter(-1, best, False)
        closed = closed.repeat_interleave(size, dim=-1)
        # Stable: all of the open groups first, each part in its order
        order = order.gather(-1, closed.gather(-1, order).byte().argsort(dim=-1, stable=True))
    experts = order[..., :k].contiguous()
    weights = scores.gather(-1, experts)
    weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * scale
    return weights.to(logits.dtype), experts


def update_bias(
    bias: Float[Tensor, "experts"], experts: Int[Tensor, "*batch k"], rate: float
) -> Float[Tensor, "experts"]:
    load = torch.bincount(experts.reshape(-1), minlength=bias.shape[0])
    # In integers: exactly 0 at the mean
    step = torch.sign(experts.numel() - load * bias.shape[0])
    wide = _upcast(bias)
    return (wide + rate * step.to(wide.dtype)).to(bias.dtype)
