# robust: Empty clusters: a count of 1 moves them to 0. Errors: other widths are an error of the subtraction.
"""In the manner of KeOps' example: differences of broadcast tensors, sums by scatter_add_, counts by bincount."""

import torch


def kmeans(points, centres, iterations):
    N, D = points.shape
    K = centres.shape[0]
    c = centres.clone()
    x_i = points.view(N, 1, D)
    for i in range(iterations):
        D_ij = ((x_i - c.view(1, K, D)) ** 2).sum(-1)
        cl = D_ij.argmin(dim=1).long().view(-1)
        c = torch.zeros_like(c)
        c.scatter_add_(0, cl[:, None].repeat(1, D), points)
        Ncl = torch.bincount(cl, minlength=K).type_as(c).view(K, 1)
        c /= Ncl.clamp(min=1)
    cl = ((x_i - c.view(1, K, D)) ** 2).sum(-1).argmin(dim=1)
    return c, cl
