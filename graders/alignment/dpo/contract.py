"""What `sequence_logprobs` and `dpo_loss` must do. The oracles go from token to token and from pair to pair."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, RoundedOnceContract, robust


def token_by_token(logits: Tensor, token_ids: Tensor, response_mask: Tensor) -> Tensor:
    sums = []
    for row, ids, mask in zip(logits, token_ids.tolist(), response_mask.tolist(), strict=True):
        said = [torch.log_softmax(row[t - 1], -1)[ids[t]] for t in range(1, len(ids)) if mask[t]]
        sums.append(torch.stack(said).sum() if said else row[:0].sum())
    return torch.stack(sums)


def labelled(logits: Tensor, token_ids: Tensor, response_mask: Tensor) -> Tensor:
    labels = token_ids.masked_fill(~response_mask, -100)[:, 1:]
    return -F.cross_entropy(logits[:, :-1].mT, labels, reduction="none").sum(-1)


def gathered(logits: Tensor, token_ids: Tensor, response_mask: Tensor) -> Tensor:
    taken = logits[:, :-1].gather(-1, token_ids[:, 1:, None])[..., 0]
    return torch.where(response_mask[:, 1:], taken - logits[:, :-1].logsumexp(-1), 0.0).sum(-1)


def in_two_sums(logits: Tensor, token_ids: Tensor, response_mask: Tensor) -> Tensor:
    taken, kept = logits[:, :-1].gather(-1, token_ids[:, 1:, None])[..., 0], response_mask[:, 1:]
    return taken.where(kept, 0.0).sum(-1) - logits[:, :-1].logsumexp(-1).where(kept, 0.0).sum(-1)


def impossible_where_left_out(d: Draw, share: float = 0.5) -> Call:
    call = TestSequenceLogprobs.call(d, share=share)
    logits, ids, mask = call.inputs.values()
    mask &= share > 0  # without a response not even token 0 is one
    gone = torch.zeros(logits.shape, dtype=torch.bool).scatter(
        -1, ids.roll(-1, 1)[..., None], ~mask.roll(-1, 1)[..., None]
    )
    return call.with_inputs(logits=logits.masked_fill(gone, -math.inf))


class TestSequenceLogprobs(RoundedOnceContract):
    name = "sequence_logprobs"
    oracle = token_by_token
    variants = (labelled, gathered, in_two_sums)
    cases = {
        "responses": {},
        "everything_a_response": {"share": 1.0},
        "long_responses": {"batch": 2, "seq": 200, "share": 1.0},  # a sum in half precision stands still
    }
    more_shapes = {
        "one_row": {"batch": 1},
        "one_token": {"seq": 1},
        "two_tokens": {"seq": 2},
        "one_class": {"vocab": 1},
    }
    hard_cases = {
        "no_response": {"share": 0.0},
        "one_row_without_a_response": {"empty": True},
        "left_out_tokens_of_probability_0": impossible_where_left_out,
        "no_response_and_tokens_of_probability_0": partial(impossible_where_left_out, share=0.0),
    }
    near_300 = {"scale": 300.0}
    growth_sizes = (8, 20)
    timed = {"batch": 4, "seq": 64, "vocab": 2048}

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, seq: int = 6, vocab: int = 7, share: float = 0.5, scale: float = 2.0,
        empty: bool = False,
    ) -> Call:  # fmt: skip
        """Random ids, and a mask whose rows keep unlike numbers of tokens, and which says True of tokens 0."""
        mask = d.uniform(batch, seq) < share
        if 0 < share < 1:
            mask[0] = torch.arange(seq) == 2
            mask[-1, 1:] = torch.arange(1, seq) != 3
        mask[:, 0] = True
        mask[:1, 1:] &= not empty
        logits = d.normal(batch, seq, vocab, scale=scale)
        return Call({"logits": logits, "token_ids": d.integers(0, vocab, batch, seq), "response_mask": mask})

    @robust
    def test_wrong_shapes_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Shapes that broadcast give each row the tokens, or the mask, of another one."""
        call = self.call(draw)
        _, ids, mask = call.inputs.values()
        self.refuses_each(attempt, call, response_mask=(mask[:, 1:], mask[:1], mask[0], mask[..., None]))
        for bad in (ids[:, 1:], ids[:1], ids.mT.contiguous(), ids[..., None]):
            self.refuses_each(attempt, call.with_inputs(response_mask=bad > 0), token_ids=[bad])


def pair_by_pair(beta: float, label_smoothing: float, **four: Tensor) -> Tensor:
    losses = []
    for pi_c, pi_r, ref_c, ref_r in zip(*four.values(), strict=True):
        margin = beta * (pi_c - pi_r - ref_c.detach() + ref_r.detach())
        won, lost = (
            torch.log1p(torch.exp(-m)) if m >= 0 else -m + torch.log1p(torch.exp(m)) for m in (margin, -margin)
        )
        losses.append((1 - label_smoothing) * won + label_smoothing * lost)
    return torch.stack(losses).mean()


def by_logsigmoid(beta: float, label_smoothing: float, **four: Tensor) -> Tensor:
    pi_c, pi_r, ref_c, ref_r = four.values()
    margin = beta * ((pi_c - pi_r) - (ref_c - ref_r))
    return (-F.logsigmoid(margin) * (1 - label_smoothing) - F.logsigmoid(-margin) * label_smoothing).mean()


def of_rewards(beta: float, label_smoothing: float, **four: Tensor) -> Tensor:
    pi_c, pi_r, ref_c, ref_r = four.values()
    margin = beta * (pi_c - ref_c) - beta * (pi_r - ref_r)
    # softplus(m) = softplus(-m) + m
    return (F.softplus(-margin) + label_smoothing * margin).sum() / len(margin)


def by_cross_entropy(beta: float, label_smoothing: float, **four: Tensor) -> Tensor:
    pi_c, pi_r, ref_c, ref_r = four.values()
    margin = beta * (pi_c + ref_r) - beta * (pi_r + ref_c)
    return F.binary_cross_entropy_with_logits(margin, torch.full_like(margin, 1 - label_smoothing))


def unlike_sums(d: Draw, far: int) -> Call:
    """Sums near -1 and near -300, the latter those of input `far` and of the last.

    The differences of two such sums are no numbers of half precision, and are all rounded to the same side.
    """
    long = -256 - 2 * d.positions(20, 7)[:, None] * torch.ones(4)
    long[:, 0], long[:, 3 - far] = -0.90625, -2.0
    names = ("policy_chosen", "policy_rejected", "ref_chosen", "ref_rejected")
    return Call(dict(zip(names, long.unbind(1), strict=True)) | {"beta": 1.0})


class TestDpoLoss(RoundedOnceContract):
    name = "dpo_loss"
    oracle = pair_by_pair
    variants = (by_logsigmoid, of_rewards, by_cross_entropy)
    constants = ("ref_chosen", "ref_rejected")
    cases = {
        "pairs": {},
        "another_beta": {"beta": 0.7},
        "smoothed": {"label_smoothing": 0.3, "beta": 0.4},
    }
    hard_cases = {
        "nearly_even_labels": {"label_smoothing": 0.49},
        "the_policy_is_the_reference": {"moved": 0.0},
        "the_policy_is_the_reference_smoothed": {"moved": 0.0, "label_smoothing": 0.2},
        "a_margin_of_10000": {"margins": [1e4], "beta": 1.0},
        "a_margin_of_minus_10000": {"margins": [-1e4], "beta": 1.0},
        "margins_of_10000_smoothed": {"margins": [1e4, -1e4, 200.0, -200.0], "beta": 1.0, "label_smoothing": 0.2},
        "a_short_response_and_a_long_one": partial(unlike_sums, far=1),
        "a_policy_far_from_the_reference": partial(unlike_sums, far=2),
    }
    representative = (*cases, "a_short_response_and_a_long_one", "a_policy_far_from_the_reference")
    growth_sizes = (8, 20)
    timed = {"batch": 4096}
    time_limit = 6.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 5, moved: float = 3.0, low: float = 10.0, high: float = 60.0,
        margins: list[float] | None = None, **more: float,
    ) -> Call:  # fmt: skip
        """A policy that has moved a little from the reference; or, with beta 1, pairs of these margins."""
        chosen, rejected = -d.uniform(2, len(margins) if margins else batch, low=low, high=high)
        pi_c, pi_r = chosen + d.normal(len(chosen), scale=moved), rejected + d.normal(len(chosen), scale=moved)
        if margins:
            chosen = rejected = torch.full((len(margins),), -1.0)
            pi_c, pi_r = torch.tensor(margins).clamp(max=0.0), (-torch.tensor(margins)).clamp(max=0.0)
        names = ("policy_chosen", "policy_rejected", "ref_chosen", "ref_rejected")
        return Call(dict(zip(names, (pi_c, pi_r, chosen, rejected), strict=True)) | more)

    @robust
    def test_wrong_settings_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """With beta 0 nothing is learnt, and from a half on label smoothing turns every preference around."""
        self.refuses_each(attempt, self.call(draw), beta=(0.0, -0.5), label_smoothing=(-0.1, 0.5, 0.7))
