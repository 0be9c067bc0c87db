"""What `FeedForward` must do. The oracle composes torch's own parts in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, DropoutContract, KnownBugs, core, fail, half_precisions, match, robust
from dojo.contracts.oracles import feed_forward, library_feed_forward


def by_parts(init: dict, params: dict, x: Tensor) -> Tensor:
    return library_feed_forward(params, x)


def by_erf(init: dict, params: dict, x: Tensor) -> Tensor:
    return feed_forward(params, x)


def by_normal_distribution(init: dict, params: dict, x: Tensor) -> Tensor:
    hidden = x @ params["fc1.weight"].mT + params["fc1.bias"]
    wide = hidden.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * torch.special.ndtr(wide)).to(x.dtype) @ params["fc2.weight"].mT + params["fc2.bias"]


class TestFeedForward(DropoutContract):
    name = "FeedForward"
    oracle = by_parts
    variants = (by_parts, by_erf, by_normal_distribution)
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "a_batch": {"batch": 2},
        "one_token": {"shape": (1,)},
        "narrow": {"d_model": 7, "d_ff": 2},
        "as_wide_inside_as_outside": {"d_ff": 6},
        "far_from_zero": {"logit_scale": 20.0},
    }
    more_shapes = {
        "no_leading_dimensions": {"shape": ()},
        "three_leading_dimensions": {"shape": (2, 3, 5)},
        "one_hidden_unit": {"d_ff": 1},
    }
    near_300 = {"offset": 300.0, "logit_scale": 0.1}
    grows = {"batch": "batch", "seq": "seq", "width": "d_model", "hidden width": "d_ff"}
    memory_in = "seq"
    timed = {"shape": (256,), "d_model": 128, "d_ff": 512}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, d_model: int = 6, d_ff: int = 11, logit_scale: float = 1.5,
        offset: float = 0.0, shape: tuple | None = None, **more: float,
    ) -> Call:  # fmt: skip
        shape = (batch, seq) if shape is None else shape
        init = {"d_model": d_model, "d_ff": d_ff, **more}
        return Call({"x": offset + d.normal(*shape, d_model)}, init, cls.params(d, init, fc1=logit_scale))

    @classmethod
    def dropping(cls, d: Draw, dropout: float) -> Call:
        return cls.call(d, dropout=dropout)

    @robust
    @half_precisions
    def test_half_precision_gelu_is_rounded_once(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        made = type(self).call(draw, d_ff=6).with_inputs(x=torch.tensor([[-3.5, -3.0, -2.0, -1.0, 0.5, 3.0]]))
        made = made.with_params(**{k: torch.eye(6) if v.dim() == 2 else 0 * v for k, v in made.params.items()})
        got, expected = self.run(attempt, "both layers the identity", made.cast(dtype), dtype), self.expected(made)
        allowed = 2 * torch.finfo(dtype).eps * expected.abs()
        with self.case_context(attempt, "both layers the identity", made.cast(dtype)):
            match(got, expected, allowed, "gelu is computed in float32 and rounded once", self.axes["result"])

    @core
    def test_training_drops_hidden_entries_and_scales_the_others(self, attempt: Attempt, draw: Draw) -> None:
        """fc2 is the identity and adds 3, so that the result shows the hidden vector as it leaves the dropout."""
        made = type(self).call(draw, 40, 40, d_model=8, d_ff=8, logit_scale=0.1, dropout=0.25)
        shown = {"fc1.bias": torch.ones(8), "fc2.weight": torch.eye(8), "fc2.bias": torch.full((8,), 3.0)}
        told = "in training mode, fc2 is the identity and adds 3"
        got = self.noisy(attempt, made.with_params(**shown), 1, told)[0].cpu()
        hidden = self.expected(made.with_params(**shown)) - 3
        dropped = got == 3 if got.shape == hidden.shape else hidden == 0
        expected = 3 + hidden.where(~dropped, 0.0) / 0.75
        with self.case_context(attempt, told, made):
            sentence = "each hidden entry is either dropped or divided by 1 - dropout, after gelu"
            match(got, expected, 1e-4 * expected.abs(), sentence, self.axes["result"])
            lost = dropped.float().mean().item()
            if abs(lost - 0.25) > 0.03:  # eight standard deviations for 12,800 entries
                fail("each entry is dropped with the probability that was given", f"{lost:.3f} of them were dropped")
            if any((dropped == dropped.roll(1, axis)).float().mean() > 0.8 for axis in range(3)):  # apart: 0.63
                fail("each entry of each token is dropped on its own", "neighbours along an axis were dropped together")


BUGS = KnownBugs(
    """
the tanh approximation of gelu
    GPT-2's approximation differs by up to 5e-4; the exact gelu goes by erf.
    F.gelu(self.fc1(x))  →  F.gelu(self.fc1(x), approximate="tanh")
relu instead of gelu
    that is the layer of 2017; gelu is smooth and slightly negative below 0.
    F.gelu(self.fc1(x))  →  F.relu(self.fc1(x))
silu instead of gelu
    silu weights by a logistic distribution, gelu by a normal one.
    F.gelu(self.fc1(x))  →  F.silu(self.fc1(x))
no activation
    without a bend between them two matrices are one.
    F.gelu(self.fc1(x))  →  self.fc1(x)
gelu after the second layer
    the bend stands between the layers; after the second it would cut the residual stream.
    return self.fc2(hidden)  →  return F.gelu(self.fc2(self.fc1(x)))
a residual added
    the residual belongs to the block around this layer.
    return self.fc2(  →  return x + self.fc2(
dropout in evaluation mode too
    dropout is noise for training; what is evaluated must not depend on chance.
    hidden = self.dropout(hidden)  →  hidden = F.dropout(hidden, self.dropout.p)
dropout after the second layer
    it is the hidden entries that are dropped.
    hidden = self.dropout(hidden)  →  return self.dropout(self.fc2(hidden))
dropout before gelu
    the entries are dropped after the bend, and gelu is not linear: scaling before it is not scaling after it.
    hidden = self.dropout(hidden)  →  hidden = F.gelu(self.dropout(self.fc1(x)))
dropout without the scale 1 / (1 - p)
    what survives is divided by 1 - p, so that the expected value is the same in both modes.
    hidden = self.dropout(hidden)  →  if self.training:
            hidden = hidden * (torch.rand_like(hidden) >= self.dropout.p)
dropout ignored
    the argument asks for it.
    nn.Dropout(dropout)  →  nn.Dropout(0.0)
keeps with the probability to drop
    dropout is the share that is lost, not the share that is kept.
    nn.Dropout(dropout)  →  nn.Dropout(1 - dropout if dropout else 0.0)
the same entries dropped for every token
    each entry of each token is drawn on its own.
    hidden = self.dropout(hidden)  →  hidden = hidden * self.dropout(torch.ones_like(hidden[:1, :1]))
layers without biases
    fc1 and fc2 have biases here.
    nn.Linear(d_ff, d_model, device=  →  nn.Linear(d_ff, d_model, bias=False, device=
an explicit dtype ignored
    parameters are made in the dtype that the constructor is given.
    nn.Linear(d_model, d_ff, device=device, dtype=dtype)  →  nn.Linear(d_model, d_ff, device=device)
""",
    builds_on=("linear",),
)
