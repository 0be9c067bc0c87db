"""Weights by a softmax over the chosen logits; counts by one-hot rows; groups by a table of who is whose neighbour."""

import torch


def up(x):
    return x if x.dtype == torch.float64 else x.float()


def pick(x, k):
    order = torch.sort(-x.detach(), dim=-1, stable=True).indices
    return order.narrow(-1, 0, k)


def route(logits, k, normalize=True):
    if not (0 < k <= logits.shape[-1]):
        raise ValueError("k must lie in [1, %d], got %d" % (logits.shape[-1], k))
    x = up(logits)
    ids = pick(x, k)
    chosen = x.gather(-1, ids)
    if normalize:
        weights = chosen.softmax(-1)
    else:
        weights = torch.exp(chosen - torch.logsumexp(x, -1, keepdim=True))
    return weights.type_as(logits), ids


def balance_loss(logits, experts):
    E = logits.shape[-1]
    x = up(logits)
    p = x.log_softmax(-1).exp().flatten(0, -2) if x.dim() > 1 else x.softmax(-1)[None]
    hits = (experts.reshape(-1, 1) == torch.arange(E, device=experts.device)).sum(0)
    f = hits / hits.sum()
    return (E * torch.einsum("e,te->t", f.to(p.dtype), p).mean()).type_as(logits)


def biased_route(logits, bias, k, num_groups=1, top_groups=1, scale=1.0):
    E = logits.shape[-1]
    if num_groups < 1:
        raise ValueError(f"no groups: {num_groups}")
    if E % num_groups != 0:
        raise ValueError(f"{E} experts, {num_groups} groups")
    if not 0 < top_groups <= num_groups:
        raise ValueError(f"{top_groups} of {num_groups} groups")
    size = E // num_groups
    if not 0 < k <= size * top_groups:
        raise ValueError(f"k {k}: there are only {size * top_groups} experts in {top_groups} groups of {size}")
    s = torch.sigmoid(up(logits))
    pref = s.detach() + up(bias.detach())
    g = pref.reshape(*pref.shape[:-1], num_groups, size)
    first = g.amax(-1)
    if size > 1:
        gs = first + torch.sort(g, -1).values[..., -2]
    else:
        gs = first
    winners = pick(gs, top_groups)
    mine = torch.arange(E, device=logits.device) // size
    allowed = (winners[..., None, :] == mine[:, None]).any(-1)
    ids = pick(torch.where(allowed, pref, torch.full_like(pref, -float("inf"))), k)
    w = torch.take_along_dim(s, ids, dim=-1)
    return (scale * (w / (w.sum(-1, keepdim=True) + 1e-20))).type_as(logits), ids


def update_bias(bias, experts, rate):
    E = bias.shape[0]
    load = torch.nn.functional.one_hot(experts, E).reshape(-1, E).sum(0)
    over = E * load - experts.numel()
    step = torch.full_like(bias, rate)
    return torch.where(over > 0, bias - step, torch.where(over < 0, bias + step, bias))
