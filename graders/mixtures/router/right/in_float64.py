"""float64 throughout, ranks instead of lists of winners, exponentials by hand."""

import torch


def ranks(x):
    return x.argsort(dim=-1, descending=True, stable=True).argsort(-1)


def in_order(rank, k):
    return rank.argsort(-1)[..., :k]


def route(logits, k, normalize=True):
    E = logits.shape[-1]
    if k < 1 or E < k:
        raise ValueError(f"{k=} {E=}")
    x = logits.double()
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    rank = ranks(logits)
    of = torch.where(rank < k, e, 0) if normalize else e
    ids = in_order(rank, k)
    return (e.gather(-1, ids) / of.sum(-1, keepdim=True)).to(logits.dtype), ids


def balance_loss(logits, experts):
    E = logits.shape[-1]
    p = torch.softmax(logits.double(), -1)
    f = torch.bincount(experts.flatten(), minlength=E) / experts.numel()
    return (E * (p @ f.double()).mean()).to(logits.dtype)


def biased_route(logits, bias, k, num_groups=1, top_groups=1, scale=1.0):
    E = logits.shape[-1]
    if num_groups < 1 or E % num_groups > 0:
        raise ValueError(f"{E=} {num_groups=}")
    if top_groups not in range(1, num_groups + 1):
        raise ValueError(f"{top_groups=} {num_groups=}")
    if k not in range(1, E // num_groups * top_groups + 1):
        raise ValueError(f"{k=} {E=} {num_groups=} {top_groups=}")
    s = 1 / (1 + torch.exp(-logits.double()))
    with torch.no_grad():
        choice = s + bias.double()
        g = choice.unflatten(-1, (num_groups, E // num_groups))
        two = torch.where(ranks(g) < 2, g, 0).sum(-1)
        g = g.masked_fill((ranks(two) >= top_groups)[..., None], -torch.inf)
        ids = in_order(ranks(g.flatten(-2)), k)
    w = s.gather(-1, ids)
    return (w * scale / (w.sum(-1, keepdim=True) + 1e-20)).to(logits.dtype), ids


def update_bias(bias, experts, rate):
    load = torch.zeros_like(bias, dtype=torch.float64).index_add(
        0, experts.flatten(), torch.ones(experts.numel(), dtype=torch.float64, device=bias.device)
    )
    return (bias.double() + rate * (load.mean() - load).sgn()).to(bias.dtype)
