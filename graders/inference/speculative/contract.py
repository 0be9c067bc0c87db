"""What verifying must give. The oracle goes row by row and place by place, in Python."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Contract, Draw, oracles, robust

EVERY, SOME = -1, -2  # how many draft tokens are accepted in each row: all of them, or another number in each


def row_by_row(
    draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, accept_uniform: Tensor, sample_uniform: Tensor
) -> tuple[Tensor, Tensor]:
    tensors = draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform
    rows = [_row(*each) for each in zip(*(tensor.tolist() for tensor in tensors), strict=True)]
    tokens = [row + [-1] * (draft_tokens.shape[1] + 1 - len(row)) for row in rows]
    return torch.tensor(tokens), torch.tensor([len(row) for row in rows])


def _row(draft: list[int], q: list[list[float]], p: list[list[float]], accept: list[float], sample: float) -> list:
    for place, token in enumerate(draft):
        if not accept[place] * q[place][token] < p[place][token]:
            rest = [max(a - b, 0.0) for a, b in zip(p[place], q[place], strict=True)]
            return [*draft[:place], oracles.drawn(rest if sum(rest) > 0 else p[place], sample)]
    return [*draft, oracles.drawn(p[-1], sample)]


class TestSpeculativeVerify(Contract):
    name = "speculative_verify"
    oracle = row_by_row
    variants = (row_by_row,)
    results = ("tokens", "lengths")
    axes = {"tokens": "batch places", "lengths": "batch"}
    differentiable = False
    half = ()
    off = {
        "test_half_precision_is_computed_in_float32": "probabilities are float32 or float64",
        "test_each_call_stands_alone": "other uniform numbers would leave [0, 1)",
    }
    ban = Ban(r"multinomial", ("torch.distributions.distribution.Distribution.__init__",))
    holds = {
        "Rare tokens": ("test_a_token_that",),
        "Drawn id": ("test_the_ends",),
        "Zero residual": ("test_a_residual",),
        "Errors": ("test_a_target",),
    }
    cases = {
        "some_are_accepted": {},
        "every_token_possible": {"possible": 9},
        "all_are_accepted": {"accepted": EVERY},
        "none_is_accepted": {"accepted": 0},
        "a_draft_of_one": {"k": 1},
        "a_draft_of_six": {"k": 6, "batch": 14, "vocab": 12},
    }
    more_shapes = {
        "one_row": {"batch": 1, "accepted": 2},
        "a_vocabulary_of_one": {"vocab": 1, "accepted": EVERY},
    }
    representative = ("every_token_possible",)  # tokens of other rows are possible too, as layouts have them
    timed = {"batch": 64, "k": 4, "vocab": 4096}
    timed_scale = (1.0, 1.0)  # other inputs would bring choices near a border

    @classmethod
    def call(cls, d: Draw, batch: int = 8, k: int = 3, vocab: int = 9, accepted: int = SOME, possible: int = 5) -> Call:
        """Distributions over some tokens, one of which only the draft has, and one only the target.

        Numbers lie well inside of what is accepted, of what is not, and of the drawn token's share.
        """
        rank, only = d.positions(vocab, batch, k + 1, vocab), int(vocab > possible)
        q = d.normal(batch, k + 1, vocab).masked_fill(rank >= possible, -torch.inf).softmax(-1)
        p = d.normal(batch, k + 1, vocab).masked_fill((rank < only) | (rank >= possible + only), -torch.inf).softmax(-1)
        counts = {SOME: torch.arange(batch) % (k + 1), EVERY: torch.full((batch,), k)}
        count = counts.get(accepted, torch.full((batch,), accepted))
        refused = torch.arange(k) == count[:, None]
        ratio = (p / q).nan_to_num(0.0).clamp_max(1.0)[:, :k]
        fit = torch.where(refused[..., None], 1 - ratio, ratio) * (q > 0)[:, :k]
        tokens = (fit * d.uniform(*fit.shape, low=0.5)).argmax(-1)
        border, inside = ratio.gather(-1, tokens[..., None])[..., 0], d.uniform(batch, k, low=0.2, high=0.8)
        accept = torch.where(refused, border + (1 - border) * inside, border * inside)
        here = torch.arange(batch), count
        weights = (p[here] - q[here] * (count < k)[:, None]).clamp_min(0)
        inputs = {"draft_tokens": tokens, "draft_probs": q[:, :k], "target_probs": p, "accept_uniform": accept}
        return Call(inputs | {"sample_uniform": _middle(d, weights)})

    @robust
    def test_a_token_that_both_models_give_alike_is_accepted(self, attempt: Attempt, draw: Draw) -> None:
        """An epsilon beside a rare probability: of what the target agrees with, some is drawn again."""
        call = self.call(draw, k=1, accepted=EVERY)
        q, tokens = call.inputs["draft_probs"], call.inputs["draft_tokens"]
        rare = q.scatter(-1, tokens[..., None], 10.0 ** -torch.arange(8.0)[:, None, None])
        rare = rare / rare.sum(-1, keepdim=True)
        target = torch.cat([rare, call.inputs["target_probs"][:, 1:]], 1)
        call = call.with_inputs(draft_probs=rare, target_probs=target, accept_uniform=torch.full((8, 1), 1 - 2.0**-24))
        self.verify(attempt, draw, "p = q, accept_uniform=1 - 2^-24", call)

    @robust
    def test_a_residual_of_zeros_is_replaced_by_the_target(self, attempt: Attempt, draw: Draw) -> None:
        """Once in many tokens 0 is divided by 0, and the text goes on with token 0 or with nan."""
        call = self.call(draw, accepted=0)
        q, tokens = call.inputs["draft_probs"], call.inputs["draft_tokens"]
        target = torch.cat([q, call.inputs["target_probs"][:, -1:]], 1)
        rounded = q.scatter(-1, tokens[..., None], 1.02 * q.gather(-1, tokens[..., None]))
        zeros = call.with_inputs(
            draft_probs=rounded, target_probs=target, accept_uniform=torch.full(tokens.shape, 255 / 256),
            sample_uniform=_middle(draw, target[:, 0]),
        )  # fmt: skip
        both = Call({name: torch.cat([each, call.inputs[name]]) for name, each in zeros.inputs.items()})
        self.verify_all(attempt, draw, {"zeros in all rows": zeros, "zeros in some rows": both}.items())

    @robust
    def test_the_ends_accept_and_draw_what_is_possible(self, attempt: Attempt, draw: Draw) -> None:
        """Once in millions of tokens one comes that has probability 0, or an id one after the vocabulary."""
        rows, vocab, drafted = 48, 600, 300
        ids, row = torch.arange(vocab), torch.arange(rows)[:, None]
        first, last = 3 + row % 5, vocab - 7 - row % 11
        possible = (ids >= first) & (ids <= last) & ((ids != drafted) | (row % 2 == 0))
        logits = draw.normal(rows, vocab).masked_fill((ids == first) | (ids == last), 4.0)
        p = logits.masked_fill(~possible, -torch.inf).softmax(-1)
        q = 0.5 * ((ids == drafted) | (ids == last))  # so the residual ends before the target
        for u in (0.0, 1 - 2.0**-24):
            inputs = {"draft_tokens": torch.full((rows, 1), drafted), "draft_probs": q[:, None]}
            inputs |= {"target_probs": torch.stack([p, p], 1), "accept_uniform": torch.zeros(rows, 1)}
            call = Call(inputs | {"sample_uniform": torch.full((rows,), u)})
            self.verify(attempt, draw, f"accept_uniform=0, sample_uniform={u:.8f}", call)

    @robust
    def test_a_target_that_does_not_fit_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Distributions one place or one vocabulary apart are cut or gathered from, and the text is another."""
        call = self.call(draw, vocab=11)
        p = call.inputs["target_probs"]
        self.refuses_each(attempt, call, target_probs=(p[:, 1:], F.pad(p, (0, 0, 0, 1)), F.pad(p, (0, 1))))


def _middle(d: Draw, weights: Tensor) -> Tensor:
    """For each row of weights the middle of the share of an id, one that is not small."""
    share = weights / weights.sum(-1, keepdim=True)
    chosen = (share * d.uniform(*share.shape, low=0.5)).argmax(-1, keepdim=True)
    return (share.cumsum(-1) - share / 2).gather(-1, chosen)[:, 0]
