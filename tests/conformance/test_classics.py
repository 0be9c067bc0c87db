"""The classics against libraries: one logistic regression and Lloyd's algorithm."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.conformance.agreement import agree, integers, normal, solution


def test_logistic_regression_is_torchs_sgd() -> None:
    made, x, y = solution("logistic_regression"), normal(40, 5) * 3 + 1, integers(2, 40, seed=2)

    def theirs(dtype: torch.dtype) -> Tensor:
        model = nn.Linear(5, 1).to(dtype)
        nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
        groups = [{"params": [model.weight], "weight_decay": 0.3}, {"params": [model.bias]}]
        optimizer = torch.optim.SGD(groups, lr=0.2)
        with torch.enable_grad():
            for _ in range(25):
                optimizer.zero_grad()
                F.binary_cross_entropy_with_logits(model(x.to(dtype))[:, 0], y.to(dtype)).backward()
                optimizer.step()
            last = F.binary_cross_entropy_with_logits(model(x.to(dtype))[:, 0], y.to(dtype))
        last = last + 0.15 * model.weight.square().sum()
        return torch.cat([model.weight[0], model.bias, last[None]])

    def ours(dtype: torch.dtype) -> Tensor:
        weight, bias = made.fit(x.to(dtype), y, 25, 0.2, 0.3)
        return torch.cat([weight, bias[None], made.loss(x.to(dtype), y, weight, bias, 0.3)[None]])

    agree(theirs, ours)


@pytest.mark.parametrize("seed", range(1, 6))
def test_kmeans_is_scikit_learns(seed: int) -> None:
    cluster = pytest.importorskip("sklearn.cluster", reason="scikit-learn is part of the test extra")
    points = normal(200, 3, seed=seed) * 2
    first = points[:5]
    found = cluster.KMeans(5, init=first.numpy(), n_init=1, max_iter=4, tol=0, algorithm="lloyd").fit(points.numpy())
    centres, assignments = solution("kmeans").kmeans(points, first, 4)
    assert torch.equal(assignments, torch.as_tensor(found.labels_).long())
    assert (centres - torch.as_tensor(found.cluster_centers_)).abs().max() < 1e-10
