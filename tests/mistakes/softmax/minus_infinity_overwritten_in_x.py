# -inf entries of x are overwritten by a large negative number, in x itself.
import torch


def softmax(x, dim=-1):
    hidden = x.detach() == -torch.inf
    empty = hidden.all(dim, keepdim=True)
    if hidden.any() and x.is_contiguous():
        x.data.masked_fill_(hidden, torch.finfo(x.dtype).min)
    z = x if x.dtype == torch.float64 else x.float()
    z = z.masked_fill(hidden, -torch.inf)
    e = (z - z.amax(dim, keepdim=True)).exp()
    return (e / e.sum(dim, keepdim=True)).masked_fill(empty, torch.nan).to(x.dtype)
