# Style: all filters keep a prefix of the sorted order, so only its length is counted; the cut is a (logit, id) threshold.
import torch
from jaxtyping import Float, Int
from torch import Tensor


def _wide(x: Tensor) -> Tensor:
    x = x.detach()
    return x if x.dtype == torch.float64 else x.float()


def _require(fits: bool, name: str, value, where: str) -> None:
    if not fits:
        raise ValueError(f"{name}={value} is outside of {where}")


def next_token_logprobs(
    logits: Float[Tensor, "*batch vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Float[Tensor, "*batch vocab"]:
    _require(temperature >= 0, "temperature", temperature, "[0, inf)")
    _require(top_k is None or top_k >= 1, "top_k", top_k, "[1, inf)")
    _require(top_p is None or 0 < top_p <= 1, "top_p", top_p, "(0, 1]")
    _require(min_p is None or 0 <= min_p <= 1, "min_p", min_p, "[0, 1]")

    x = _wide(logits)
    vocab = x.shape[-1]
    if temperature == 0:  # a prefix of one token
        temperature, top_k, top_p, min_p = 1.0, 1, None, None
    temperature = max(temperature, torch.finfo(x.dtype).tiny)
    longest = vocab if top_k is None else min(top_k, vocab)

    ordered, order = torch.sort(x, dim=-1, descending=True, stable=True)
    ordered, order, peak = ordered[..., :longest], order[..., :longest], ordered[..., :1]
    # Weights relative to the best token, which has 1
    weight = torch.where(ordered.isneginf(), 0.0, torch.exp((ordered - peak) / temperature))
    length = torch.full_like(order[..., :1], longest)
    if top_p is not None and top_p < 1:
        mass = weight.cumsum(-1)
        crossed = mass[..., :-1] >= top_p * mass[..., -1:]
        length = longest - crossed.sum(-1, keepdim=True)
    if min_p is not None:
        length = torch.minimum(length, (weight >= min_p).sum(-1, keepdim=True))

    cut, cut_id = ordered.gather(-1, length - 1), order.gather(-1, length - 1)
    ids = torch.arange(vocab, device=x.device)
    keep = (x > cut) | ((x == cut) & (ids <= cut_id))
    score = torch.where(keep & ~x.isneginf(), (x - peak) / temperature, float("-inf"))
    return (score - score.logsumexp(-1, keepdim=True)).to(logits.dtype)


def sample(logprobs: Float[Tensor, "*batch vocab"], uniform: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    outside = uniform[~((uniform >= 0) & (uniform < 1))]
    if outside.numel():
        value = outside[0].item()
        raise ValueError(f"uniform={value} (about {value:.6g}) is outside of [0, 1)")
    x = _wide(logprobs)
    mass = torch.exp(x - x.amax(-1, keepdim=True))
    mass = mass / mass.sum(-1, keepdim=True)
    ids = torch.arange(x.shape[-1], device=x.device)
    possible = mass > 0
    last = torch.where(possible, ids, -1).amax(-1)
    exceeds = possible & (mass.cumsum(-1) > uniform.unsqueeze(-1))
    return torch.where(exceeds, ids, last.unsqueeze(-1)).amin(-1)
