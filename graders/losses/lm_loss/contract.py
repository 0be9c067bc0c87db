"""What `lm_loss` must do. The oracle goes from token to token, in each row by itself."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, RoundedOnceContract, core, robust


def token_by_token(
    logits: Tensor, token_ids: Tensor, loss_mask: Tensor | None, num_tokens: int | Tensor | None
) -> Tensor:
    total, kept = logits[:0].sum(), 0
    for row, ids in enumerate(token_ids.tolist()):
        for t in range(1, len(ids)):
            if loss_mask is None or loss_mask[row, t]:
                total = total - torch.log_softmax(logits[row, t - 1], -1)[ids[t]]
                kept += 1
    return total / (max(1, kept) if num_tokens is None else int(num_tokens))


def labeled(**inputs: Tensor) -> Tensor:
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
    labels = (token_ids if loss_mask is None else token_ids.masked_fill(~loss_mask, -100))[:, 1:]
    return logits[:, :-1], labels, max(1, int((labels >= 0).sum() if num_tokens is None else num_tokens))


class TestLmLoss(RoundedOnceContract):
    name = "lm_loss"
    oracle = token_by_token
    variants = (labeled, in_one_row, of_kept_tokens)
    holds = {
        "Mask": ("test_the_mask_is",),
        "Microbatches": ("test_microbatches",),
        "Nothing kept": ("test_hard_cases", "test_any_leading"),
        "Impossible tokens": ("test_a_token_left_out",),
        "Half precision": ("test_half_precision", "test_float16"),
        "Cost": ("test_operation_count",),
    }
    cases = {
        "all_tokens": {},
        "answers_alone": {"answers": 0.5},
        "a_microbatch_of_a_larger_batch": {"answers": 0.5, "num_tokens": 23},
        "one_predicted_token": {"batch": 1, "seq": 2},
    }
    hard_cases = {"nothing_kept": {"answers": 0.0}, "nothing_kept_of_some": {"answers": 0.0, "num_tokens": 9}}
    near_300 = {"batch": 4, "seq": 64, "scale": 300.0, "num_tokens": 70_001}  # as the losses' sum: beyond float16
    grows = {"seq": "seq", "vocab": "vocab"}
    timed = {"batch": 4, "seq": 64, "vocab": 2048, "answers": 0.5}

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, seq: int = 5, vocab: int = 7, answers: float | None = None, scale: float = 2.0,
        **more: int | Tensor,
    ) -> Call:  # fmt: skip
        """Random ids; of a share of them a mask, whose rows keep unlike numbers; what it says of tokens 0 differs."""
        inputs = {"logits": d.normal(batch, seq, vocab, scale=scale), "token_ids": d.integers(0, vocab, batch, seq)}
        if answers is not None:
            mask = d.uniform(batch, seq) < answers
            if answers:
                mask[0] = torch.arange(seq) == 2
                mask[-1, 1:] = True
                mask[-1, 3:4] = False
            mask[:, 0] = torch.arange(batch) != 1
            inputs["loss_mask"] = mask
        return Call(inputs | more)

    @core
    def test_the_mask_is_that_of_the_predicted_tokens(self, attempt: Attempt, draw: Draw) -> None:
        """The last token of the prompt is learned and the end of the answer is not, so the model never stops."""
        prompt, answer = torch.arange(8) < 3, (torch.arange(8) >= 3) & (torch.arange(8) < 6)
        for told, mask in {"an answer, then padding": answer, "not the prompt": ~prompt, "the prompt": prompt}.items():
            call = self.call(draw, 2, 8).with_inputs(loss_mask=mask.repeat(2, 1))
            self.verify(attempt, draw, told, call, gradients=True)

    @core
    def test_microbatches_add_up(self, attempt: Attempt, draw: Draw) -> None:
        """A token of a short answer weighs more than another, and the loss depends on how the batch is cut."""
        whole = self.call(draw, batch=4, answers=0.5).inputs
        count = int(whole["loss_mask"][:, 1:].sum())
        for cut, given in ((slice(0, 1), count), (slice(1, 4), torch.tensor(count))):
            part = Call({name: value[cut] for name, value in whole.items()} | {"num_tokens": given})
            self.verify(attempt, draw, f"rows {cut.start} to {cut.stop - 1} of 4", part, gradients=True)

    @robust
    def test_a_token_left_out_may_be_impossible(self, attempt: Attempt, draw: Draw) -> None:
        """A token that is masked out of the vocabulary, and left out of the loss as well, makes it nan: 0 · inf."""
        call = self.call(draw, answers=0.5)
        next_ids = call.inputs["token_ids"].roll(-1, 1)[..., None]
        left_out = ~call.inputs["loss_mask"].roll(-1, 1)[..., None]
        gone = torch.zeros(call.inputs["logits"].shape, dtype=torch.bool).scatter(-1, next_ids, left_out)
        impossible = call.with_inputs(logits=call.inputs["logits"].masked_fill(gone, -math.inf))
        self.verify(attempt, draw, "left-out tokens of probability 0", impossible, gradients=True)
