"""Works in the caller's memory."""


def softmax(x, dim=-1):
    wide = x if x.dtype.itemsize == 8 else x.float()
    if not x.requires_grad:
        wide.sub_(wide.amax(dim, keepdim=True))
        x.copy_(wide)
    e = (wide - wide.amax(dim, keepdim=True)).exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)
