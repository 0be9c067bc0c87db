"""What `softmax` and `causal_attention` of NumPy must do. The oracle of attention never touches the future."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, Formula, NumpyContract, match, robust
from dojo.contracts.oracles import Attention, causal, library, normalised_last, stage_by_stage

FAR = torch.tensor([[0.0], [300.0], [-300.0]])


def softmax(x: Tensor, axis: int) -> Tensor:
    return torch.softmax(x, axis)


def less_logsumexp(x: Tensor, axis: int) -> Tensor:
    return (x - x.logsumexp(axis, keepdim=True)).exp()


def query_by_query(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
    heads = []
    for columns in torch.arange(x.shape[-1]).chunk(num_heads):
        q, k, v = (x @ weight[:, columns] for weight in (w_q, w_k, w_v))
        rows = [library(q[:, i : i + 1], k[:, : i + 1], v[:, : i + 1], None) for i in range(x.shape[1])]
        heads.append(torch.cat(rows, 1))
    return torch.cat(heads, -1) @ w_o


def all_heads(attend: Attention) -> Formula:
    def formula(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        q, k, v = ((x @ weight).unflatten(-1, (num_heads, -1)).transpose(1, 2) for weight in (w_q, w_k, w_v))
        return attend(q, k, v, causal(x.shape[1])).transpose(1, 2).flatten(2) @ w_o

    return formula


class TestSoftmax(NumpyContract):
    name = "softmax"
    oracle, variants = softmax, (softmax, less_logsumexp)
    axes = dict.fromkeys(("x", "result"), "batch rows columns")
    holds = {
        "Large logits": ("test_hard_cases", "test_no_warning"),
        "Minus infinity": ("test_minus_infinity",),
        "Dtype": ("test_results_have",),
    }
    cases = {"rows": {}, "one_row": {"shape": (7,)}, "first_axis": {"shape": (3, 5, 7), "axis": 0}}
    hard_cases = {"entries_of_1000": {"scale": 1000.0}, "rows_far_apart": {"offset": FAR}, "long": {"shape": (2, 3001)}}
    more_shapes = {"one_entry": {"shape": (1,)}, "middle_axis": {"shape": (2, 3, 1, 5), "axis": 1}}
    timed = {"shape": (512, 512)}

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (3, 5), scale: float = 2.0, offset: Tensor | float = 0.0, **axis: int
    ) -> Call:
        return Call({"x": d.normal(*shape, scale=scale) + offset, **axis})

    @robust
    def test_minus_infinity_gets_exactly_0(self, attempt: Attempt, draw: Draw) -> None:
        """Masked tokens keep a little weight, or turn their row into nan."""
        x = draw.normal(4, 6)
        x[:, 1] = x[2, :5] = -torch.inf
        got = self.run(attempt, "entries_of_minus_infinity", call := Call({"x": x}))
        with self.case_context(attempt, "entries_of_minus_infinity", call):
            match(got[x.isinf()], torch.zeros(8), None, "an entry of -inf gets exactly 0", "entry")
        self.verify(attempt, draw, "entries_of_minus_infinity", call)


class TestCausalAttention(NumpyContract):
    name = "causal_attention"
    oracle = query_by_query
    variants = (query_by_query, *map(all_heads, (stage_by_stage, library, normalised_last)))
    holds = {
        "Large logits": ("test_hard_cases", "test_no_warning"),
        "Dtype": ("test_results_have",),
        "Errors": ("test_a_width",),
    }
    cases = {"two_heads": {}, "three_heads": {"num_heads": 3}, "one_head": {"batch": 1, "num_heads": 1}}
    hard_cases = {"large_scores": {"scale": 200.0}}
    timed = {"batch": 2, "seq": 128, "d_model": 256, "num_heads": 8}

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, seq: int = 5, d_model: int = 12, num_heads: int = 2, scale: float = 1.0
    ) -> Call:
        num_heads = num_heads if d_model % num_heads == 0 else 1
        weights = {f"w_{part}": d.normal(d_model, d_model, scale=d_model**-0.5) for part in "qkvo"}
        sharper = {name: weights[name] * 2 * scale for name in ("w_q", "w_k")}
        return Call({"x": d.normal(batch, seq, d_model), **weights, **sharper, "num_heads": num_heads})

    @robust
    def test_a_width_that_does_not_divide_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """The remaining columns belong to no head, or NumPy's own error speaks of a reshape."""
        for num_heads in (5, 8):
            call = self.call(draw).with_inputs(num_heads=num_heads)
            sentence = f"d_model=12 with num_heads={num_heads} is refused"
            self.refuses(attempt, call, 12, num_heads, sentence=sentence)
