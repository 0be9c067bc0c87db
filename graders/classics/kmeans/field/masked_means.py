# robust: Empty clusters: the mean of no points is nan. Errors: cdist raises an error of its own.
"""As most tutorials write it in PyTorch: distances by cdist, and a mean for each cluster in a loop."""

import torch


def kmeans(points, centres, iterations):
    K = centres.shape[0]
    c = centres.clone()
    for i in range(iterations):
        cl = torch.cdist(points, c).argmin(dim=1)
        c = torch.stack([points[cl == k].mean(dim=0) for k in range(K)])
    return c, torch.cdist(points, c).argmin(dim=1)
