"""What `clip_loss` must do. The oracle asks each image for its text, then each text for its image, one by one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Draw,
    Formula,
    RoundedOnceContract,
    bare,
    fail,
    half_precisions,
    robust,
)


def pair_by_pair(image: Tensor, text: Tensor, log_scale: Tensor) -> Tensor:
    images, texts = (
        torch.stack([row / torch.linalg.vector_norm(row).clamp_min(1e-12) for row in side]) for side in (image, text)
    )
    losses = []
    for asking, others in ((images, texts), (texts, images)):
        for own, one in enumerate(asking):
            logits = log_scale.exp() * (others * one).sum(-1)
            losses.append(logits.logsumexp(0) - logits[own])
    return sum(losses[1:], losses[0]) / len(losses)


def of_logits(logits_of: Formula) -> Formula:
    """The loss of the scaled cosines that `logits_of` makes."""

    def loss(image: Tensor, text: Tensor, log_scale: Tensor) -> Tensor:
        logits = logits_of(image, text, log_scale)
        own = torch.arange(len(logits))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    return loss


def of_directions(loss_of: Formula) -> Formula:
    """The loss that `loss_of` makes of directions and their scale."""

    def loss(image: Tensor, text: Tensor, log_scale: Tensor) -> Tensor:
        return loss_of(F.normalize(image, dim=-1), F.normalize(text, dim=-1), log_scale.exp())

    return loss


def by_log_softmax(images: Tensor, texts: Tensor, scale: Tensor) -> Tensor:
    logits = images @ texts.T * scale
    return -(logits.log_softmax(0) + logits.log_softmax(1)).diagonal().mean() / 2


def by_own_products(images: Tensor, texts: Tensor, scale: Tensor) -> Tensor:
    """The logits of the pairs taken row by row, and not from the table."""
    logits, own = scale * (images @ texts.T), scale * (images * texts).sum(-1)
    return ((logits.logsumexp(0) - own).mean() + (logits.logsumexp(1) - own).mean()) / 2


def by_stretched_products(images: Tensor, texts: Tensor, scale: Tensor) -> Tensor:
    logits = torch.einsum("id,jd->ij", scale * images, texts)
    own = torch.einsum("id,id->i", images, scale * texts)
    return torch.cat([(logits - own[:, None]).logsumexp(1), (logits - own).logsumexp(0)]).mean()


def by_inverse_roots(image: Tensor, text: Tensor, log_scale: Tensor) -> Tensor:
    images, texts = (x * x.square().sum(-1, keepdim=True).clamp_min(1e-24).rsqrt() for x in (image, text))
    return images @ texts.T / torch.exp(-log_scale)


def one_by_one(image: Tensor, text: Tensor, log_scale: Tensor) -> Tensor:
    return F.cosine_similarity(image[:, None], text[None], dim=-1, eps=1e-12) * log_scale.exp()


def divided_last(image: Tensor, text: Tensor, log_scale: Tensor) -> Tensor:
    images, texts = (torch.linalg.vector_norm(x, dim=-1).clamp_min(1e-12) for x in (image, text))
    return log_scale.exp() * (image @ text.T / images[:, None] / texts)


class TestClipLoss(RoundedOnceContract):
    name = "clip_loss"
    oracle = pair_by_pair
    variants = (
        *map(of_directions, (by_log_softmax, by_own_products, by_stretched_products)),
        *map(of_logits, (by_inverse_roots, divided_last, one_by_one)),
    )
    holds = {
        "Scale": ("test_hard",),
        "Zero rows": ("test_a_row_of_zeros",),
        "Half precision": ("test_half", "test_float16", "test_the_scale"),
        "Errors": ("test_other_shapes",),
    }
    cases = {
        "pairs": {},
        "more_pairs_than_features": {"pairs": 7, "dim": 3},
        "as_many_pairs_as_features": {"pairs": 4, "dim": 4},
        "a_scale_beyond_100": {"log_scale": 5.5},
        "a_scale_below_1": {"log_scale": -1.5},
        "directions_that_are_much_alike": {"offset": 10.0, "log_scale": 5.5},
    }
    more_shapes = {"two_pairs": {"pairs": 2}}
    hard_cases = {"cosines_times_1000": {"log_scale": 7.0}}
    representative = ("pairs", "directions_that_are_much_alike")
    near_300 = {"offset": 300.0}
    grows = {"pairs": "pairs", "features": "dim"}
    timed = {"pairs": 512, "dim": 8}

    @classmethod
    def call(cls, d: Draw, pairs: int = 5, dim: int = 6, log_scale: float = 1.5, offset: float = 0.0) -> Call:
        """Rows of unlike lengths."""
        image, text = ((offset + d.normal(pairs, dim)) * d.uniform(pairs, 1, low=0.3, high=3.0) for _ in range(2))
        return Call({"image": image, "text": text, "log_scale": torch.tensor(log_scale)})

    @robust
    def test_a_row_of_zeros_gives_finite_results(self, attempt: Attempt, draw: Draw) -> None:
        """0 / 0 is nan, and with it the loss of the whole batch, and then every weight."""
        call = self.call(draw)
        for side, row in (("image", 1), ("text", 0)):
            call.inputs[side][row] = 0.0
        self.verify(attempt, draw, "a row of zeros on both sides", call)
        callee, args, kwargs = self.prepare_call(attempt, call)
        grads = callee.ask(do="forward_backward", target=callee.target, args=args, kwargs=kwargs)["inputs"]
        for name, grad in zip(call.inputs, grads, strict=False):
            if grad is not None and not grad.isfinite().all():
                fail("gradients are finite beside a row of zeros", f"that of {name} has {grad[~grad.isfinite()][0]}")

    @robust
    @half_precisions
    def test_the_scale_is_computed_in_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """A logarithm of 8.03 is 8 in bfloat16: all logits shrink by 3 percent. exp(12) is infinite in float16."""
        made = self.call(draw, log_scale=8.0275)
        call = made.cast(dtype).with_inputs(log_scale=made.inputs["log_scale"])
        told = f"log_scale in float32, the rest in {bare(dtype)}"
        with self.case_context(attempt, told, call):
            callee, args, kwargs = self.prepare_call(attempt, call)
            got = {"result": callee.request(args, kwargs)["value"]}
        self.compare(attempt, draw, told, call, got, dtype)
        alike = self.call(draw, pairs=32, offset=100.0, log_scale=12.0)
        self.verify(attempt, draw, "directions almost the same, a log_scale of 12", alike, dtype)

    @robust
    def test_other_shapes_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """One text too many or too few broadcasts, or fails deep in the loss."""
        call = self.call(draw)
        image, text, _ = call.inputs.values()
        self.refuses_each(attempt, call, text=(text[:4], text[:1], text[:, :5]))
        self.refuses_each(attempt, call.with_inputs(text=text[None]), image=[image[None]])
