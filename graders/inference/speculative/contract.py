"""What verifying must give. The oracle goes row by row and place by place, in Python."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Ban,
    Call,
    Contract,
    Draw,
    core,
    match,
    oracles,
    robust,
)  # fmt: skip

APART = 2e-3  # how far uniform numbers lie from any border
GRID = (2 * torch.arange(128) + 1) / 256
EVERY, SOME = -1, -2  # how many draft tokens are accepted in each row: all of them, or another number in each


def row_by_row(
    draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, accept_uniform: Tensor,
    sample_uniform: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    tensors = draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform
    rows = [_row(*each) for each in zip(*(tensor.tolist() for tensor in tensors), strict=True)]
    places = draft_tokens.shape[1] + 1
    tokens = [row + [-1] * (places - len(row)) for row in rows]
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
    cases = {
        "some_are_accepted": {},
        "all_are_accepted": {"accepted": EVERY},
        "none_is_accepted": {"accepted": 0},
        "a_draft_of_one": {"k": 1, "batch": 8},
        "a_draft_of_six": {"k": 6, "batch": 14, "vocab": 12},
        "the_first_of_many": {"k": 5, "accepted": 1},
    }
    more_shapes = {
        "one_row": {"batch": 1, "accepted": 2},
        "one_row_of_one": {"batch": 1, "k": 1, "accepted": EVERY},
        "a_vocabulary_of_one": {"vocab": 1, "possible": 1, "accepted": EVERY},
        "a_vocabulary_of_two": {"vocab": 2, "possible": 1, "k": 2},
    }
    hard_cases = {
        "draft_and_target_alike": {"alike": True, "accepted": EVERY},
        "every_token_possible": {"possible": 20, "batch": 12},
        "one_possible_token_each": {"possible": 1, "accepted": 0},
        "tokens_that_the_draft_never_gives": {"possible": 4, "unlikely": True, "batch": 12},
    }
    growth_sizes = (8, 20)
    timed = {"batch": 64, "k": 4, "vocab": 4096}
    timed_scale = (1.0, 1.0)  # other inputs would bring choices near a border

    @classmethod
    def call(
        cls, d: Draw, batch: int = 8, k: int = 3, vocab: int = 9, possible: int = 5, accepted: int = SOME,
        alike: bool = False, unlikely: bool = False,
    ) -> Call:  # fmt: skip
        """Distributions over some tokens, one of which only the draft has, one only the target; numbers on a grid."""
        rank = d.positions(vocab, batch, k + 1, vocab)
        possible, shift = min(possible, vocab), int(vocab > possible and not alike)
        q = d.normal(batch, k + 1, vocab, scale=1.2).masked_fill(rank >= possible, -torch.inf).softmax(-1)
        gone = (rank < shift) | (rank >= possible + shift)
        p = d.normal(batch, k + 1, vocab, scale=1.2).masked_fill(gone, -torch.inf).softmax(-1)
        p = q.clone() if alike else p
        count = {SOME: torch.arange(batch) % (k + 1), EVERY: torch.full((batch,), k)}.get(accepted)
        count = torch.full((batch,), accepted) if count is None else count
        place, given = torch.arange(k), (q > 0)[:, :k] != unlikely
        taken, refused = place < count[:, None], place == count[:, None]
        ratio = torch.where(q > 0, p.double() / q, 9.0 * (p > 0))[:, :k]  # of a token that the draft never gives: any
        fits = torch.where(taken[..., None], ratio > 0.1, torch.where(refused[..., None], ratio < 0.9, True))
        best = torch.where(refused[..., None], -ratio, ratio)  # where none fits well, the one that fits best
        score = torch.where(fits, 99 + d.uniform(*fits.shape), best)
        tokens = torch.where(given, score, -99.0).argmax(-1)
        border = ratio.gather(-1, tokens[..., None])
        side = torch.where(taken[..., None], border - GRID, torch.where(refused[..., None], GRID - border, 1.0))
        accept = _on_grid(d, border, side > 0)
        count = (accept < border.squeeze(-1)).long().cumprod(-1).sum(-1)
        here = torch.arange(batch), count
        rest = (p[here].double() - q[here] * (count < k)[:, None]).clamp_min(0)
        borders = (rest / rest.sum(-1, keepdim=True)).cumsum(-1)
        inputs = {"draft_tokens": tokens, "draft_probs": q[:, :k], "target_probs": p, "accept_uniform": accept}
        return Call(inputs | {"sample_uniform": _on_grid(d, borders, torch.ones(batch, 128, dtype=torch.bool))})

    @core
    def test_the_first_token_has_the_distribution_of_the_target(self, attempt: Attempt, draw: Draw) -> None:
        n, vocab, apart = 80, 5, 0.0
        while apart < 0.25:  # in total variation
            q, p, last = draw.normal(3, vocab, scale=1.2).softmax(-1)
            apart = float((p - q).clamp_min(0).sum())
        numbers = (torch.arange(n) + 0.5) / n
        token, accept, sample = torch.cartesian_prod(torch.arange(vocab).float(), numbers, numbers).unbind(1)
        rows = len(token)
        call = Call(
            {
                "draft_tokens": token.long()[:, None],
                "draft_probs": q.expand(rows, 1, vocab),
                "target_probs": torch.stack([p, last]).expand(rows, 2, vocab),
                "accept_uniform": accept[:, None],
                "sample_uniform": sample,
            }
        )
        told = f"every draft token, and {n} × {n} evenly spaced numbers"
        with self.case_context(attempt, told, call):
            callee, args, kwargs = self.prepare_call(attempt, call)
            got = self.named(callee.request(args, kwargs)["value"])["tokens"].cpu()
            first = got[:, 0].clamp(0, vocab - 1)
            share = torch.zeros(vocab).double().index_add(0, first, q.double()[token.long()] / n**2)
            sentence = "the first token has the distribution of the target, to within the grid"
            match(share, p.double(), torch.full((vocab,), 2.0 / n).double(), sentence, "vocab")

    @robust
    def test_a_residual_of_zeros_is_replaced_by_the_target(self, attempt: Attempt, draw: Draw) -> None:
        """Once in many tokens 0 is divided by 0, and the text goes on with token 0 or with nan."""
        call = self.call(draw, accepted=0, alike=True)
        q, tokens = call.inputs["draft_probs"], call.inputs["draft_tokens"]
        rounded = q.scatter(-1, tokens[..., None], 1.02 * q.gather(-1, tokens[..., None]))
        call = call.with_inputs(draft_probs=rounded, accept_uniform=torch.full(tokens.shape, 255 / 256))
        borders = call.inputs["target_probs"][:, 0].double().cumsum(-1)
        sample = _on_grid(draw, borders, torch.ones(len(tokens), 128, dtype=torch.bool))
        zeros, other = call.with_inputs(sample_uniform=sample), self.call(draw, accepted=0)
        self.verify(attempt, draw, "a residual of zeros", zeros)
        both = Call({name: torch.cat([each, other.inputs[name]]) for name, each in zeros.inputs.items()})
        self.verify(attempt, draw, "residuals of zeros in some rows", both)
        small = {
            "draft_tokens": torch.zeros(1, 1, dtype=torch.int64),
            "draft_probs": torch.tensor([[[0.005, 0.995, 0.0]]]),
        }
        small |= {"target_probs": torch.tensor([[[0.0, 0.995, 0.005]]]).expand(1, 2, 3)}
        small |= {"accept_uniform": torch.full((1, 1), 0.5), "sample_uniform": torch.full((1,), 0.5)}
        self.verify(attempt, draw, "a residual that sums to 0.005", Call(small))

    @robust
    def test_the_ends_accept_and_draw_what_is_possible(self, attempt: Attempt, draw: Draw) -> None:
        """Once in millions of tokens one comes that has probability 0, or an id one behind the vocabulary."""
        rows, vocab = 144, 600
        ids, row = torch.arange(vocab), torch.arange(rows)
        first, last = 3 + row % 5, vocab - 7 - row % 11
        logits = draw.normal(rows, 2, vocab)
        logits[(ids == first[:, None])[:, None].expand(rows, 2, vocab)] = 4.0
        logits[(ids == last[:, None])[:, None].expand(rows, 2, vocab)] = 4.0
        outside = (ids < first[:, None]) | (ids > last[:, None]) | ((ids == 300) & (row % 2 == 0)[:, None])
        p = logits.masked_fill(outside[:, None], -torch.inf).softmax(-1)
        drafted = (ids == 300) | (ids == last[:, None])  # so the residual ends before the target
        q = drafted[:, None] / torch.tensor(2.0)
        low, high = torch.zeros(rows), torch.full((rows,), 1 - 2.0**-24)
        for told, u in {"0": low, "1 - 2^-24": high, "0 or 1 - 2^-24": torch.where(row % 3 == 0, low, high)}.items():
            inputs = {"draft_tokens": torch.full((rows, 1), 300), "draft_probs": q, "target_probs": p}
            inputs |= {"accept_uniform": torch.zeros(rows, 1), "sample_uniform": u}
            self.verify(attempt, draw, f"accept_uniform=0, sample_uniform={told}", Call(inputs))

    @robust
    def test_a_token_that_both_models_give_alike_is_accepted(self, attempt: Attempt, draw: Draw) -> None:
        """An epsilon beside a rare probability: of what the target agrees with, some is drawn again."""
        call = self.call(draw, k=1, possible=9, accepted=EVERY, alike=True)
        q, tokens = call.inputs["draft_probs"], call.inputs["draft_tokens"]
        rare = q.scatter(-1, tokens[..., None], 10.0 ** -torch.arange(8.0)[:, None, None])
        rare = rare / rare.sum(-1, keepdim=True)
        both = {"draft_probs": rare, "target_probs": torch.cat([rare, call.inputs["target_probs"][:, 1:]], 1)}
        call = call.with_inputs(**both, accept_uniform=torch.full((8, 1), 1 - 2.0**-24))
        with self.case_context(attempt, "p = q, accept_uniform=1 - 2^-24", call):
            callee, args, kwargs = self.prepare_call(attempt, call)
            got = self.named(callee.request(args, kwargs)["value"])["tokens"].cpu()
            match(got[:, :1], tokens, None, "where p = q the draft's token is accepted", "batch k")

    @robust
    def test_shapes_that_do_not_fit_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Distributions one place or one vocabulary apart broadcast, or are cut, and the text is quietly another."""
        call = self.call(draw, batch=8, k=3, vocab=11)
        p, q, tokens = (call.inputs[name] for name in ("target_probs", "draft_probs", "draft_tokens"))
        wrong = {
            "target_probs with k places": ({"target_probs": p[:, 1:]}, 3),
            "target_probs with k + 2 places": ({"target_probs": torch.cat([p, p[:, :1]], 1)}, 5),
            "another vocabulary of the draft": ({"draft_probs": q[..., :10], "draft_tokens": tokens.clamp_max(9)}, 10),
            "a row too many of the draft": ({"draft_probs": torch.cat([q, q[:1]])}, 9),
            "a row too few of the draft": ({"draft_probs": q[:7]}, 7),
            "another vocabulary of the target": ({"target_probs": p[..., :10]}, 10),
            "another batch of the target": ({"target_probs": p[:7]}, 7),
            "one row of the target": ({"target_probs": p[:1]}, 1),
            "another batch of draft_tokens": ({"draft_tokens": tokens[:7]}, 7),
            "another batch of accept_uniform": ({"accept_uniform": call.inputs["accept_uniform"][:1]}, 1),
            "another batch of sample_uniform": ({"sample_uniform": call.inputs["sample_uniform"][:1]}, 1),
        }
        for told, (inputs, value) in wrong.items():
            self.refuses(attempt, call.with_inputs(**inputs), value, sentence=f"{told}: it is refused")

    @robust
    def test_tokens_and_numbers_outside_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Padding of -1 takes the probability of the last token, and a number of 1.0 an id behind the vocabulary."""
        call = self.call(draw, batch=8, k=3, vocab=11)
        for value in (-1, 11, 50):
            tokens = call.inputs["draft_tokens"].clone()
            tokens[2, 1] = value
            sentence = f"a draft token of {value}: it is refused"
            self.refuses(attempt, call.with_inputs(draft_tokens=tokens), value, sentence=sentence)
        for name in ("accept_uniform", "sample_uniform"):
            for value in (1.0, 1.5, -0.25):
                uniform = call.inputs[name].clone()
                uniform.view(8, -1)[3, -1] = value
                told = (value, f"{value:.4f}", f"{value:.2f}", *((int(value), "1.") if value == 1 else ()))
                sentence = f"{value} in {name}: it is refused"
                self.refuses(attempt, call.with_inputs(**{name: uniform}), told, sentence=sentence)


def _on_grid(d: Draw, borders: Tensor, allowed: Tensor) -> Tensor:
    """For each row of borders a number of the grid, exact in float32, that is allowed and near none of them."""
    near = (GRID[:, None] - borders.unsqueeze(-2)).abs().amin(-1)
    score = torch.where(near > APART, 1.0 + d.uniform(*near.shape), near.float())
    return GRID[torch.where(allowed, score, near.float() - 9.0).argmax(-1)]
