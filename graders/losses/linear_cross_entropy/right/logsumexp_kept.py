"""As in cut cross-entropy: the forward keeps one number of each token, and the backward makes the logits again."""

import torch


class Cut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, places, chunk_size):
        lse, losses = [], []
        for x, t in zip(hidden.split(chunk_size), targets.split(chunk_size)):
            logits = (x @ weight.T).float() if x.dtype.itemsize < 4 else x @ weight.T
            lse.append(logits.logsumexp(-1))
            losses.append(lse[-1] - logits.gather(-1, t[:, None])[:, 0])
        lse = torch.cat(lse)
        ctx.save_for_backward(hidden, weight, targets, lse)
        ctx.chunk_size = chunk_size
        return (torch.cat(losses).sum() / len(targets)).to(hidden.dtype)

    @staticmethod
    def backward(ctx, grad):
        hidden, weight, targets, lse = ctx.saved_tensors
        wide_weight, for_weight = weight.to(lse.dtype), torch.zeros_like(weight, dtype=lse.dtype)
        for_hidden = []
        share = grad.to(lse.dtype) / len(targets)
        for x, t, z in zip(*(each.split(ctx.chunk_size) for each in (hidden, targets, lse))):
            p = ((x @ weight.T).to(lse.dtype) - z[:, None]).exp()
            p[torch.arange(len(t)), t] -= 1
            p *= share
            for_hidden.append((p @ wide_weight).to(hidden.dtype))
            for_weight.addmm_(p.T, x.to(lse.dtype))
        return torch.cat(for_hidden), for_weight.to(weight.dtype), None, None, None


def linear_cross_entropy(hidden, weight, targets, ignore_index=-100, chunk_size=1024):
    places = (targets.flatten() != ignore_index).nonzero()[:, 0]
    rows = hidden.reshape(-1, hidden.shape[-1])[places]
    return Cut.apply(rows, weight, targets.flatten()[places], places, chunk_size)
