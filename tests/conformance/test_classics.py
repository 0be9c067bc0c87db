"""The classics against libraries."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.agreement import normal, solution


@pytest.mark.parametrize("seed", range(1, 6))
def test_kmeans_is_scikit_learns(seed: int) -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    points = normal(200, 3, seed=seed) * 2
    first = points[:5]
    found = cluster.KMeans(5, init=first.numpy(), n_init=1, max_iter=4, tol=0, algorithm="lloyd").fit(points.numpy())
    centres, assignments = solution("kmeans").kmeans(points, first, 4)
    assert torch.equal(assignments, torch.as_tensor(found.labels_).long())
    assert (centres - torch.as_tensor(found.cluster_centers_)).abs().max() < 1e-10
