"""What `sequence_logprobs` and `dpo_loss` must do. The oracles go from token to token and from pair to pair."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Call, Draw, RoundedOnceContract


def token_by_token(logits: Tensor, token_ids: Tensor, response_mask: Tensor) -> Tensor:
    sums = []
    for row, ids, mask in zip(logits, token_ids.tolist(), response_mask.tolist(), strict=True):
        said = [torch.log_softmax(row[t - 1], -1)[ids[t]] for t in range(1, len(ids)) if mask[t]]
        sums.append(torch.stack(said).sum() if said else row[:0].sum())
    return torch.stack(sums)


def labeled(logits: Tensor, token_ids: Tensor, response_mask: Tensor) -> Tensor:
    labels = token_ids.masked_fill(~response_mask, -100)[:, 1:]
    return -F.cross_entropy(logits[:, :-1].mT, labels, reduction="none").sum(-1)


def in_two_sums(logits: Tensor, token_ids: Tensor, response_mask: Tensor) -> Tensor:
    taken, kept = logits[:, :-1].gather(-1, token_ids[:, 1:, None])[..., 0], response_mask[:, 1:]
    return taken.where(kept, 0.0).sum(-1) - logits[:, :-1].logsumexp(-1).where(kept, 0.0).sum(-1)


def impossible_where_left_out(d: Draw) -> Call:
    """Tokens that the mask leaves out have the logit -inf; the first row is without a response."""
    logits, ids, mask = TestSequenceLogprobs.call(d).inputs.values()
    mask[0] = False
    gone = F.one_hot(ids.roll(-1, 1), logits.shape[-1]).bool() & ~mask.roll(-1, 1)[..., None]
    return Call({"logits": logits.masked_fill(gone, -math.inf), "token_ids": ids, "response_mask": mask})


def long_and_even(d: Draw) -> Call:
    """Each token has probability 1/2, and logits so large that half precision holds no difference to ln 2 + 192."""
    ids, everywhere = d.integers(0, 2, 1, 401), torch.ones(1, 401, dtype=torch.bool)
    return Call({"logits": torch.full((1, 401, 2), 192.0), "token_ids": ids, "response_mask": everywhere})


class TestSequenceLogprobs(RoundedOnceContract):
    name = "sequence_logprobs"
    oracle = token_by_token
    variants = (labeled, in_two_sums)
    holds = {"Left-out tokens": ("test_hard_cases",), "Half precision": ("test_half_precision",)}
    cases = {"responses": {}, "everything_a_response": {"share": 1.0}}
    hard_cases = {"left_out_tokens_of_probability_0": impossible_where_left_out, "a_long_response": long_and_even}
    representative = (*cases, "a_long_response")

    @classmethod
    def call(cls, d: Draw, batch: int = 3, seq: int = 6, vocab: int = 7, share: float = 0.5) -> Call:
        """Random ids, and a mask that keeps one token of the first row, and says True of tokens 0."""
        mask = d.mask(batch, seq, share=share)
        mask[0] &= torch.arange(seq) == 2
        mask[-1, -1:] = mask[:, 0] = True
        logits = d.normal(batch, seq, vocab, scale=2.0)
        return Call({"logits": logits, "token_ids": d.integers(0, vocab, batch, seq), "response_mask": mask})


def pair_by_pair(beta: float, label_smoothing: float, **four: Tensor) -> Tensor:
    losses = []
    for pi_c, pi_r, ref_c, ref_r in zip(*four.values(), strict=True):
        margin = beta * (pi_c - pi_r - ref_c.detach() + ref_r.detach())
        won, lost = (torch.logaddexp(sign * margin, 0 * margin) for sign in (-1, 1))
        losses.append((1 - label_smoothing) * won + label_smoothing * lost)
    return torch.stack(losses).mean()


def by_logsigmoid(beta: float, label_smoothing: float, **four: Tensor) -> Tensor:
    pi_c, pi_r, ref_c, ref_r = four.values()
    margin = beta * ((pi_c - pi_r) - (ref_c - ref_r))
    return (-F.logsigmoid(margin) * (1 - label_smoothing) - F.logsigmoid(-margin) * label_smoothing).mean()


def of_rewards(beta: float, label_smoothing: float, **four: Tensor) -> Tensor:
    pi_c, pi_r, ref_c, ref_r = four.values()
    margin = beta * (pi_c - ref_c) - beta * (pi_r - ref_r)
    return (F.softplus(-margin) + label_smoothing * margin).sum() / len(margin)  # softplus(m) = softplus(-m) + m


LARGE = {"batch": 4, "scale": 0.0, "policy_chosen": torch.tensor([1e4, -1e4, 200.0, -200.0]), "beta": 1.0}


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
    variants = (by_logsigmoid, of_rewards)
    constants = ("ref_chosen", "ref_rejected")
    holds = {"Large margins": ("test_hard",), "Reference": ("test_constants",), "Half precision": ("test_half",)}
    cases = {
        "pairs": {"scale": 10.0},
        "another_beta": {"scale": 3.0, "beta": 0.7},
        "smoothed": {"scale": 4.0, "beta": 0.4, "label_smoothing": 0.3},
        "the_policy_is_the_reference": {"scale": 0.0, "offset": -20.0, "label_smoothing": 0.1},
    }
    hard_cases = {
        "margins_of_10000": LARGE,
        "margins_of_10000_smoothed": LARGE | {"label_smoothing": 0.2},
        "a_short_response_and_a_long_one": partial(unlike_sums, far=1),
        "a_policy_far_from_the_reference": partial(unlike_sums, far=2),
    }
    representative = (*cases, "a_short_response_and_a_long_one", "a_policy_far_from_the_reference")
    timed = {"batch": 4096}
    time_limit = 6.0
