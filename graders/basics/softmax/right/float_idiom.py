"""The `.float()` idiom: float32 whatever comes in."""


def softmax(x, dim=-1):
    z = x.float()
    z = z - z.max(dim=dim, keepdim=True).values
    e = z.exp()
    return (e / e.sum(dim=dim, keepdim=True)).type_as(x)
