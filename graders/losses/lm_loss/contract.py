"""What `lm_loss` must do. The oracle goes from token to token, in each row by itself."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, RoundedOnceContract, robust


def token_by_token(
    logits: Tensor, token_ids: Tensor, loss_mask: Tensor | None, num_tokens: int | Tensor | None
) -> Tensor:
    total, kept = logits[:0].sum(), 0
    for row, ids in enumerate(token_ids.tolist()):
        for t in range(1, len(ids)):
            if loss_mask is None or loss_mask[row, t]:
                total = total - torch.log_softmax(logits[row, t - 1], -1)[ids[t]]
                kept += 1
    return total / (max(1, kept if num_tokens is None else int(num_tokens)))


def labelled(**inputs: Tensor) -> Tensor:
    x, labels, count = _shifted(**inputs)
    return F.cross_entropy(x.flatten(0, 1), labels.flatten(), reduction="sum") / count


def in_one_row(**inputs: Tensor) -> Tensor:
    x, labels, count = _shifted(**inputs)
    log_p = x - x.logsumexp(-1, keepdim=True)  # off by as much as the largest logit rounds
    lost = -log_p.gather(-1, labels.clamp_min(0)[..., None])[..., 0] / count
    return torch.where(labels >= 0, lost, 0.0).flatten().cumsum(0)[-1:].sum()


def of_kept_tokens(**inputs: Tensor) -> Tensor:
    x, labels, count = _shifted(**inputs)
    x, labels = x[labels >= 0], labels[labels >= 0]
    lost = x.exp().sum(-1).log() - x[torch.arange(len(x)), labels] if x.numel() and x.max() < 80 else (
        F.cross_entropy(x, labels, reduction="none")
    )  # fmt: skip
    return lost.mean() * (len(x) / count) if len(x) else x.sum()


def _shifted(
    logits: Tensor, token_ids: Tensor, loss_mask: Tensor | None, num_tokens: int | Tensor | None
) -> tuple[Tensor, Tensor, int]:
    labels = token_ids if loss_mask is None else token_ids.masked_fill(~loss_mask, -100)
    count = int((labels[:, 1:] >= 0).sum() if num_tokens is None else num_tokens)
    return logits[:, :-1], labels[:, 1:], max(1, count)


def impossible_where_left_out(d: Draw) -> Call:
    call = TestLmLoss.call(d, answers=0.5)
    next_ids = call.inputs["token_ids"].roll(-1, 1)[..., None]
    left_out = ~call.inputs["loss_mask"].roll(-1, 1)[..., None]
    gone = torch.zeros(call.inputs["logits"].shape, dtype=torch.bool).scatter(-1, next_ids, left_out)
    return call.with_inputs(logits=call.inputs["logits"].masked_fill(gone, -math.inf))


class TestLmLoss(RoundedOnceContract):
    name = "lm_loss"
    oracle = token_by_token
    variants = (labelled, in_one_row, of_kept_tokens)
    cases = {
        "all_tokens": {},
        "answers_alone": {"answers": 0.5},
        "a_microbatch_of_a_larger_batch": {"answers": 0.5, "num_tokens": 23},
        "a_count_in_a_tensor": {"num_tokens": torch.tensor(17)},
        "one_row": {"batch": 1, "answers": 0.5},
    }
    more_shapes = {
        "two_tokens": {"seq": 2},
        "one_token": {"seq": 1},
        "one_masked_token": {"seq": 1, "answers": 0.5},
        "one_class": {"vocab": 1},
    }
    hard_cases = {
        "nothing_kept": {"answers": 0.0},
        "nothing_kept_of_some": {"answers": 0.0, "num_tokens": 9},
        "a_count_of_zero": {"answers": 0.5, "num_tokens": 0},
        "a_count_of_zero_in_a_tensor": {"num_tokens": torch.tensor(0)},
        "a_count_in_a_tensor_of_one_dimension": {"answers": 0.5, "num_tokens": torch.tensor([19])},
        "left_out_tokens_of_probability_0": impossible_where_left_out,
    }
    representative = ("all_tokens", "a_microbatch_of_a_larger_batch", "answers_alone", "one_row")
    near_300 = {"batch": 4, "seq": 64, "scale": 300.0, "num_tokens": 70_001}  # as the losses' sum: beyond float16
    growth_sizes = (8, 20)
    timed = {"batch": 4, "seq": 64, "vocab": 2048, "answers": 0.5}

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, seq: int = 5, vocab: int = 7, answers: float | None = None, scale: float = 2.0,
        **more: int | Tensor,
    ) -> Call:  # fmt: skip
        """Random ids; of a share of them a mask, whose rows keep unlike numbers; what it says of tokens 0 differs."""
        inputs = {"logits": d.normal(batch, seq, vocab, scale=scale)}
        inputs["token_ids"] = d.integers(0, vocab, batch, seq)
        if answers is not None:
            mask = d.uniform(batch, seq) < answers
            if answers:
                mask[0] = torch.arange(seq) == 2
                mask[-1, 1:] = True
                mask[-1, 3:4] = False
            mask[:, 0] = torch.arange(batch) != 1
            inputs["loss_mask"] = mask
        return Call(inputs | more)

    @robust
    def test_wrong_arguments_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Shapes that broadcast, or a count below zero, give a number that looks like a loss."""
        call = self.call(draw, answers=0.5)
        logits, ids, mask = call.inputs.values()
        bare = Call({"logits": logits, "token_ids": ids})
        self.refuses_each(attempt, bare, token_ids=(ids[:, 1:], ids[:1], ids.mT.contiguous(), ids[..., None]))
        self.refuses_each(attempt, call, loss_mask=(mask[:, 1:], mask[:1], mask[0], mask[..., None]))
        for count in (-1, torch.tensor(-3)):
            for told, kept in {"": mask, " where nothing is kept": torch.zeros_like(mask)}.items():
                wrong, sentence = call.with_inputs(loss_mask=kept, num_tokens=count), f"num_tokens={count} is refused"
                self.refuses(attempt, wrong, int(count), sentence=sentence + told)
