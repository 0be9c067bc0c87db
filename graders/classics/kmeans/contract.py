"""What `kmeans` must do. The oracle takes all differences in float64, and the means cluster by cluster."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Contract, Draw, fast, robust, too_much
from dojo.contracts.function import LAYOUTS

Found = tuple[Tensor, Tensor]
CLEAR = 1e-3  # how much nearer the nearest is than the next, at least, in squared distance
WIDEST = 3.0  # times the largest of points, centres and distances


def squares(points: Tensor, centres: Tensor) -> Tensor:
    return (points[:, None] - centres).square().sum(-1)


def cluster_by_cluster(points: Tensor, centres: Tensor, iterations: int) -> Found:
    for _ in range(iterations):
        nearest = squares(points, centres).argmin(1)
        own = [points[nearest == j] for j in range(len(centres))]
        centres = torch.stack([each.mean(0) if len(each) else old for each, old in zip(own, centres, strict=True)])
    return centres, squares(points, centres).argmin(1)


def by_products(points: Tensor, centres: Tensor, iterations: int) -> Found:
    def one_hot() -> Tensor:
        nearest = (centres.square().sum(1) - 2 * points @ centres.mT).argmin(1)
        return torch.nn.functional.one_hot(nearest, len(centres)).to(points.dtype)

    for _ in range(iterations):
        members = one_hot()
        counts = members.sum(0)[:, None]
        centres = torch.where(counts > 0, members.mT @ points / counts.clamp_min(1), centres)
    return centres, one_hot().argmax(1)


def one_after_the_other(points: Tensor, centres: Tensor, iterations: int) -> Found:
    """Running sums, the least accurate there are."""
    for _ in range(iterations):
        nearest = squares(points, centres).argmin(1)
        own = [points[nearest == j] for j in range(len(centres))]
        pairs = zip(own, centres, strict=True)
        centres = torch.stack([each.cumsum(0)[-1] / len(each) if len(each) else old for each, old in pairs])
    return centres, squares(points, centres).argmin(1)


def clear(points: Tensor, centres: Tensor, iterations: int, full: bool) -> bool:
    """Whether no round hangs on a rounding: no two centroids nearly as near to a point.

    If `full`, no cluster is empty, and points still change theirs in the last of a few rounds.
    """
    last = None
    for done in range(iterations + 1):
        distances, k = squares(points, cluster_by_cluster(points, centres, done)[0]), len(centres)
        two, before, last = distances.topk(min(2, k), largest=False).values, last, distances.argmin(1)
        if (full and len(last.unique()) < k) or (k > 1 and (two[:, 1] - two[:, 0]).min() < CLEAR):
            return False
    if full and 0 < iterations < 10:
        return not torch.equal(before, last)
    return True


class TestKmeans(Contract):
    name = "kmeans"
    oracle = cluster_by_cluster
    variants = (cluster_by_cluster, by_products, one_after_the_other)
    results = ("centres", "assignments")
    axes = {"centres": "k d", "assignments": "n"}
    differentiable = False
    half = ()
    off = {
        "test_half_precision_is_computed_in_float32": "float32 and float64 alone",
        "test_any_memory_layout_gives_the_same": "expanded centroids are all as near: a check of its own",
    }
    holds = {
        "Empty clusters": ("test_hard_cases",),
        "Iterations": ("test_hard_cases", "test_values"),
        "Memory": ("test_no_tensor",),
        "Errors": ("test_points_and_centres",),
    }
    cases = {
        "one_iteration": {"n": 7, "k": 2, "iterations": 1},
        "three_iterations": {},
        "many_clusters": {"n": 60, "k": 7, "d": 3, "iterations": 4},
    }
    hard_cases = {
        "no_iteration": {"iterations": 0},
        "an_empty_cluster": {"empty": [1]},
        "the_last_one_empty": {"empty": [-1], "iterations": 1},
        "at_rest_long_before": {"n": 12, "iterations": 30},
        "points_of_a_thousandth": {"size": 2.0**-10},
    }
    timed = {"n": 2048, "k": 16, "d": 64, "apart": True}
    timed_scale = (0.99, 1.01)
    time_limit = 8.0

    # One iteration, for with more some end early, where nothing moves any more.
    growth = {
        "n": lambda d, n: TestKmeans.call(d, n=n, iterations=1),
        "k": lambda d, n: TestKmeans.call(d, k=n, iterations=1),
        "d": lambda d, n: TestKmeans.call(d, d=n, iterations=1),
    }

    @classmethod
    def call(
        cls, draw: Draw, n: int = 30, k: int = 4, d: int = 2, iterations: int = 3, empty: Any = (), apart: bool = False,
        size: float = 1.0,
    ) -> Call:  # fmt: skip
        """Points around centroids that are far apart, or points of which some are the first centroids, drawn anew
        until no assignment hangs on a rounding.
        """
        if apart:
            centres = draw.normal(k, d, scale=10.0)
            points = centres[draw.integers(0, k, n)] + draw.normal(n, d, scale=0.1)
            return Call({"points": points, "centres": centres + draw.normal(k, d, scale=0.1), "iterations": iterations})
        for _ in range(200):
            points = draw.normal(n, d, scale=2.0)
            centres = points[draw.positions(n, min(k, n))] if k <= n else draw.normal(k, d, scale=2.0)
            centres = centres + draw.normal(k, d, scale=0.3)
            centres[list(empty)] = 100.0
            full = n > 2 * k > 2 and not empty
            if max(n, k, d) > 60 or clear(points.double(), centres.double(), iterations, full):
                break
        return Call({"points": size * points, "centres": size * centres, "iterations": iterations})

    @robust
    def test_points_and_centres_may_lie_in_any_memory(self, attempt: Attempt, draw: Draw) -> None:
        """Embeddings are columns of a wider table: `view` fails on them, or reads others."""
        for case, make in self.cases.items():
            call = make(draw)
            tensors = {name: call.inputs[name] for name in ("points", "centres")}
            calls = [
                (f"{case}, {kind}", call.with_inputs(**{name: relay(each) for name, each in tensors.items()}))
                for kind, relay in LAYOUTS.items()
            ]
            self.verify_all(attempt, draw, calls)

    @robust
    def test_points_and_centres_of_different_widths_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A width of 1 broadcasts, and clusters by a single feature."""
        call = self.call(draw, d=3)
        for width in (1, 4):
            other = call.with_inputs(centres=draw.normal(4, width))
            self.refuses(attempt, other, 3, width, sentence=f"centroids of width {width} for points of 3 are refused")

    @fast
    def test_no_tensor_of_all_differences(self, attempt: Attempt, draw: Draw) -> None:
        size = 64
        callee, args, kwargs = self.prepare_call(attempt, self.call(draw, n=size, k=size, d=size))
        name, largest = max(callee.largest(*args, **kwargs).items(), key=lambda each: each[1])
        if largest > WIDEST * 8 * size**2:
            seen = f"{name} made {largest} bytes, at {size} points, centroids and features"
            too_much("no tensor has n · k · d entries", seen)
