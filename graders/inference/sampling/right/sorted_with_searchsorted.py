# Style: vLLM-like; one stable sort, every filter as a mask in sorted space, scattered back; searchsorted to draw.
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def _check_params(temperature, top_k, top_p, min_p) -> None:
    if not temperature >= 0:
        raise ValueError(f"temperature must be at least 0, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], got {top_p}")
    if min_p is not None and not 0 <= min_p <= 1:
        raise ValueError(f"min_p must lie in [0, 1], got {min_p}")


@torch.no_grad()
def next_token_logprobs(
    logits: Float[Tensor, "*batch vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Float[Tensor, "*batch vocab"]:
    _check_params(temperature, top_k, top_p, min_p)
    neg_inf = float("-inf")
    x = logits if logits.dtype == torch.float64 else logits.float()
    if temperature == 0:
        best = x.argmax(dim=-1, keepdim=True)  # the first of equal ones
        return torch.full_like(logits, neg_inf).scatter(-1, best, 0.0)

    ordered, order = x.sort(dim=-1, descending=True, stable=True)
    scores = (ordered - ordered[..., :1]) / max(temperature, torch.finfo(x.dtype).tiny)
    scores = scores.masked_fill(ordered == neg_inf, neg_inf)
    if top_k is not None:
        scores[..., top_k:] = neg_inf
    if top_p is not None and top_p < 1:
        mass = scores.softmax(dim=-1).cumsum(dim=-1)
        drop = F.pad(mass[..., :-1], (1, 0)) >= top_p
        drop[..., :1] = False
        scores.masked_fill_(drop, neg_inf)
    if min_p is not None:
        probs = scores.softmax(dim=-1)
        scores.masked_fill_(probs < min_p * probs[..., :1], neg_inf)
    out = torch.empty_like(scores).scatter_(-1, order, scores.log_softmax(dim=-1))
    return out.to(logits.dtype)


@torch.no_grad()
def sample(logprobs: Float[Tensor, "*batch vocab"], uniform: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    bad = ~((uniform >= 0) & (uniform < 1))
    if bad.any():
        value = uniform[bad][0].item()
        raise ValueError(f"uniform numbers must lie in [0, 1), got {value:.6g} ({value})")
    x = logprobs if logprobs.dtype == torch.float64 else logprobs.float()
    probs = x.softmax(dim=-1)
    possible = probs > 0
    # Impossible ids repeat the sum before them, so the search cannot stop there
    cdf = probs.cumsum(dim=-1).masked_fill(~possible, -1.0).cummax(dim=-1).values
    ids = torch.searchsorted(cdf.double().contiguous(), uniform.double().unsqueeze(-1).contiguous(), right=True)
    last = x.shape[-1] - 1 - possible.flip(-1).int().argmax(dim=-1)
    return torch.minimum(ids.squeeze(-1), last)
