# Style: ranks and one-hot masks, combined by einsum; no gather, no topk.
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def _float(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _rank(x: Tensor) -> Tensor:
    """0 for the largest entry of the last axis, 1 for the next; of equal ones the first is better."""
    return x.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)


def _one_hot_choice(rank: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(..., k, E), True where expert e is choice number k, and the ids (..., k)."""
    chosen = rank.unsqueeze(-2) == torch.arange(k, device=rank.device).unsqueeze(-1)
    ids = torch.arange(rank.shape[-1], device=rank.device)
    return chosen, (chosen * ids).sum(-1)


def _take(chosen: Tensor, values: Tensor) -> Tensor:
    return torch.einsum("...ke,...e->...k", chosen.to(values.dtype), values)


def _load(experts: Tensor, num_experts: int) -> Tensor:
    return F.one_hot(experts, num_experts).flatten(0, -2).sum(0)


def route(
    logits: Float[Tensor, "*batch experts"], k: int, normalize: bool = True
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    if k < 1 or k > logits.shape[-1]:
        raise ValueError(f"k={k} is outside of [1, E] with E={logits.shape[-1]}")
    x = _float(logits)
    chosen, experts = _one_hot_choice(_rank(x.detach()), k)
    weights = _take(chosen, F.softmax(x, dim=-1))
    if normalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights.to(logits.dtype), experts


def balance_loss(logits: Float[Tensor, "*batch experts"], experts: Int[Tensor, "*batch k"]) -> Float[Tensor, ""]:
    num_experts = logits.shape[-1]
    probs = F.softmax(_float(logits), dim=-1)
    load = _load(experts, num_experts).to(probs.dtype)
    share = load / load.sum().clamp(min=1)
    tokens = max(logits.numel() // num_experts, 1)
    loss = torch.einsum("...e,e->", probs, share) * (num_experts / tokens)
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
    if num_groups < 1 or total % num_groups != 0:
        raise ValueError(f"E={total} experts cannot be parted into num_groups={num_groups} equal groups")
    if top_groups < 1 or top_groups > num_groups:
        raise ValueError(f"top_groups={top_groups} is outside of [1, num_groups] with num_groups={num_groups}")
    size = total // num_groups
    if k < 1 or k > size * top_groups:
        raise ValueError(
            f"k={k} is outside of [1, {size * top_groups}]: E={total}, num_groups={num_groups}, top_groups={top_groups}"
        )

    scores = torch.sigmoid(_float(logits))
    choice = (scores + bias).detach()
    grouped = choice.unflatten(-1, (num_groups, size))
    best_two = torch.where(_rank(grouped) < 2, grouped, 0.0).sum(-1)
    closed = (_rank(best_two) >= top_groups).repeat_interleave(size, -1)
    # Ranks are below E: adding E puts every expert of a closed group behind all others
    rank = (_rank(choice) + total * closed).argsort(-1).argsort(-1)
    chosen, experts = _one_hot_choice(rank, k)
    weights = _take(chosen, scores)
    weights = scale * (weights / (weights.sum(-1, keepdim=True) + 1e-20))
    return weights.to(logits.dtype), experts


def update_bias(
    bias: Float[Tensor, "experts"], experts: Int[Tensor, "*batch k"], rate: float
) -> Float[Tensor, "experts"]:
    load = _load(experts, bias.numel())
    direction = (load.sum() - bias.numel() * load).sign()
    return torch.add(_float(bias), direction.to(_float(bias).dtype), alpha=rate).to(bias.dtype)
