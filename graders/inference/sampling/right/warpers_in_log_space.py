# Style: transformers-like warper objects in vocabulary order, all in log space; logcumsumexp to draw.
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

NEG_INF = float("-inf")


@dataclass
class Temperature:
    value: float

    def __post_init__(self):
        if not self.value >= 0:
            raise ValueError(f"temperature is {self.value}, but must not be below 0")

    def __call__(self, scores: Tensor) -> Tensor:
        if self.value == 0:
            ids = torch.arange(scores.shape[-1], device=scores.device)
            chosen = ids == scores.argmax(-1, keepdim=True)
            return torch.zeros_like(scores).masked_fill(~chosen, NEG_INF)
        shifted = scores - scores.amax(-1, keepdim=True)
        scaled = shifted / max(self.value, torch.finfo(scores.dtype).tiny)
        return torch.where(scores == NEG_INF, NEG_INF, scaled)


@dataclass
class TopK:
    k: int

    def __post_init__(self):
        if self.k < 1:
            raise ValueError(f"top_k is {self.k}, but must be at least 1")

    def __call__(self, scores: Tensor) -> Tensor:
        k = min(self.k, scores.shape[-1])
        kth = scores.topk(k, dim=-1).values[..., -1:]
        above, tied = scores > kth, scores == kth
        room = k - above.sum(-1, keepdim=True)
        keep = above | (tied & (tied.cumsum(-1) <= room))
        return scores.masked_fill(~keep, NEG_INF)


@dataclass
class TopP:
    p: float

    def __post_init__(self):
        if not 0 < self.p <= 1:
            raise ValueError(f"top_p is {self.p}, but must lie in (0, 1]")

    def __call__(self, scores: Tensor) -> Tensor:
        if self.p == 1:
            return scores
        order = scores.argsort(dim=-1, descending=True, stable=True)
        mass = scores.log_softmax(-1).gather(-1, order).logcumsumexp(-1)
        before = torch.cat([torch.full_like(mass[..., :1], NEG_INF), mass[..., :-1]], dim=-1)
        rank = order.argsort(-1)
        keep = before.gather(-1, rank) < math.log(self.p)
        return scores.masked_fill(~keep, NEG_INF)


@dataclass
class MinP:
    p: float

    def __post_init__(self):
        if not 0 <= self.p <= 1:
            raise ValueError(f"min_p is {self.p}, but must lie in [0, 1]")

    def __call__(self, scores: Tensor) -> Tensor:
        if self.p == 0:
            return scores
        least = scores.amax(-1, keepdim=True) + math.log(self.p)
        return scores.masked_fill(scores < least, NEG_INF)


def next_token_logprobs(
    logits: Float[Tensor, "*batch vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Float[Tensor, "*batch vocab"]:
    warpers = [Temperature(temperature)]
    for kind, value in ((TopK, top_k), (TopP, top_p), (MinP, min_p)):
        if value is not None:
            warpers.append(kind(value))
    scores = logits.detach()
    scores = scores if scores.dtype == torch.float64 else scores.to(torch.float32)
    # After temperature 0 there is one token left, which every filter keeps
    for warp in warpers:
        scores = warp(scores)
    return scores.log_softmax(-1).to(logits.dtype)


def sample(logprobs: Float[Tensor, "*batch vocab"], uniform: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    fits = (uniform >= 0) & (uniform < 1)
    if not fits.all():
        value = uniform[~fits].flatten()[0].item()
        raise ValueError(f"{value:.6g} ({value!r}) is no uniform number of [0, 1)")
    scores = logprobs.detach()
    scores = scores if scores.dtype == torch.float64 else scores.to(torch.float32)
    scores = scores.log_softmax(-1)
    possible = scores > NEG_INF
    hit = possible & (scores.logcumsumexp(-1) > uniform.detach().to(scores.dtype).log().unsqueeze(-1))
    first = hit.to(torch.uint8).argmax(-1)
    last = scores.shape[-1] - 1 - possible.flip(-1).to(torch.uint8).argmax(-1)
    return torch.where(hit.any(-1), first, last)
