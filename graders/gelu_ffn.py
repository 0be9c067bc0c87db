"""What `FeedForward` must do. The oracle composes torch's own parts in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.bugs import Bug
from dojo.contract import core, half_precisions, robust
from dojo.dropping import DropoutContract
from dojo.expect import Call, Draw, Wrong, match, tensor
from dojo.formulas import feed_forward, library_feed_forward
from dojo.judge.proxy import Attempt
from dojo.verdict import Label, Section


def by_parts(init: dict, params: dict, x: Tensor) -> Tensor:
    return library_feed_forward(params, x)


def by_erf(init: dict, params: dict, x: Tensor) -> Tensor:
    return feed_forward(params, x)


def by_normal_distribution(init: dict, params: dict, x: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    hidden = torch.addmm(params["fc1.bias"], x.flatten(0, -2) if x.dim() > 1 else x[None], params["fc1.weight"].mT)
    hidden = (hidden.to(wide) * torch.special.ndtr(hidden.to(wide))).to(x.dtype)
    return torch.addmm(params["fc2.bias"], hidden, params["fc2.weight"].mT).reshape(x.shape)


def call(d: Draw, *shape: int, d_model: int = 6, d_ff: int = 11, sharp: float = 1.5, **more: float) -> Call:
    """A call whose hidden values have a standard deviation of about `sharp` before gelu."""
    params = {
        "fc1.weight": d.normal(d_ff, d_model, scale=sharp * d_model**-0.5),
        "fc1.bias": d.normal(d_ff, scale=0.5 * sharp),
        "fc2.weight": d.normal(d_model, d_ff, scale=d_ff**-0.5),
        "fc2.bias": d.normal(d_model),
    }
    return Call({"x": d.normal(*shape, d_model)}, {"d_model": d_model, "d_ff": d_ff, **more}, params)


class TestFeedForward(DropoutContract):
    name = "FeedForward"
    oracle = staticmethod(by_parts)
    variants = (by_parts, by_erf, by_normal_distribution)
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "a_batch": lambda d: call(d, 2, 5),
        "one_token": lambda d: call(d, 1),
        "narrow": lambda d: call(d, 2, 3, d_model=7, d_ff=2),
        "as_wide_inside_as_outside": lambda d: call(d, 2, 5, d_ff=6),
        "far_from_zero": lambda d: call(d, 2, 5, sharp=20.0),
    }
    more_shapes = {
        "no_leading_dimensions": lambda d: call(d),
        "three_leading_dimensions": lambda d: call(d, 2, 3, 5),
        "one_hidden_unit": lambda d: call(d, 2, d_ff=1),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5),
        "seq": lambda d, n: call(d, 2, n),
        "width": lambda d, n: call(d, 2, 3, d_model=n),
        "hidden width": lambda d, n: call(d, 2, 3, d_ff=n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        quiet = call(d, 3, sharp=0.1)
        return quiet.with_inputs(x=300 + d.normal(3, 6))

    @staticmethod
    def linear_in(d: Draw, n: int) -> Call:
        return call(d, 1, n)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 256, d_model=128, d_ff=512)

    @staticmethod
    def dropping(d: Draw, dropout: float) -> Call:
        return call(d, 5, 7, dropout=dropout)

    @robust
    @half_precisions
    def test_half_precision_gelu_is_rounded_once(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        points = torch.tensor([[-3.5, -3.0, -2.0, -1.0, 0.5, 3.0]])
        size = points.shape[-1]
        shown = {f"{name}.weight": torch.eye(size) for name in ("fc1", "fc2")}
        shown |= {f"{name}.bias": torch.zeros(size) for name in ("fc1", "fc2")}
        made = Call({"x": points}, {"d_model": size, "d_ff": size}, shown).cast(dtype)
        with torch.no_grad(), self.told(attempt, "both layers the identity", made):
            result = self.ready(attempt, made, dtype)(*self.on_device(attempt, made).inputs.values())
            got = tensor(result, attempt.device).cpu()
        expected = F.gelu(points.double())
        allowed = 2 * torch.finfo(dtype).eps * expected.abs()
        about = Section(Label.INPUT, f"both layers the identity, {dtype}, x = {points[0].tolist()}")
        match(got, expected, allowed, "gelu is computed in float32 and rounded once", self.axes["result"], about)

    @core
    def test_training_drops_hidden_entries_and_scales_the_others(self, attempt: Attempt, draw: Draw) -> None:
        """With fc2 the identity and a bias of 3, the result shows the hidden vector as it leaves the dropout."""
        size, share, bias = 8, 0.25, 3.0
        made = call(draw, 40, 40, d_model=size, d_ff=size, dropout=share)
        shown = {"fc2.weight": torch.eye(size), "fc2.bias": torch.full((size,), bias)}
        made = Call(made.inputs, made.init, made.params | shown)
        inputs = self.on_device(attempt, made).inputs
        with torch.no_grad():
            reply = self.ready(attempt, made).train().request((inputs["x"],), {}, watch=True)  # from a seeded generator
        got = tensor(reply["value"], attempt.device).cpu()
        hidden = F.gelu(F.linear(made.inputs["x"], made.params["fc1.weight"], made.params["fc1.bias"]))
        if got.shape != hidden.shape:
            raise Wrong("in training mode the result has the shape of x", self.setting(attempt, "dropout=0.25", made))
        dropped = (got - bias).abs() < 1e-6
        expected = bias + torch.where(dropped, 0.0, hidden / (1 - share)).double()
        about = Section(
            Label.INPUT, f"FeedForward({size}, {size}, dropout={share}) in training mode, fc2 the identity plus {bias}"
        )
        sentence = "each hidden entry is either dropped or divided by 1 - dropout, after gelu"
        match(got, expected, 1e-4 + 1e-4 * expected.abs(), sentence, self.axes["result"], about)
        lost = float(dropped.float().mean())
        if abs(lost - share) > 0.03:  # eight standard deviations for 12,800 entries
            seen = Section(Label.FACTS, f"{lost:.3f} of the entries were dropped with dropout={share}")
            raise Wrong("each entry is dropped with the probability that was given", seen, about)
        alive = hidden.abs() > 1e-3  # of a hidden entry near 0 it cannot be told whether it was dropped
        for axis in range(dropped.dim()):
            pairs = [each.narrow(axis, start, each.shape[axis] - 1) for each in (dropped, alive) for start in (0, 1)]
            alike = (pairs[0] == pairs[1])[pairs[2] & pairs[3]].float().mean()
            if alike < 0.8:  # for entries apart, p² + (1 - p)² = 0.63
                continue
            seen = Section(Label.FACTS, f"entries that are neighbours along axis {axis} were dropped together")
            raise Wrong("each entry of each token is dropped on its own", seen, about)


BUGS = [
    Bug(
        "the tanh approximation of gelu",
        "GPT-2's approximation differs by up to 5e-4; the exact gelu goes by erf.",
        "hidden = F.gelu(self.fc1(x))",
        'hidden = F.gelu(self.fc1(x), approximate="tanh")',
    ),
    Bug(
        "relu instead of gelu",
        "that is the layer of 2017; gelu is smooth and slightly negative below 0.",
        "hidden = F.gelu(self.fc1(x))",
        "hidden = F.relu(self.fc1(x))",
    ),
    Bug(
        "silu instead of gelu",
        "silu weights by a logistic distribution, gelu by a normal one.",
        "hidden = F.gelu(self.fc1(x))",
        "hidden = F.silu(self.fc1(x))",
    ),
    Bug(
        "no activation",
        "without a bend between them two matrices are one.",
        "hidden = F.gelu(self.fc1(x))",
        "hidden = self.fc1(x)",
    ),
    Bug(
        "gelu after the second layer",
        "the bend stands between the layers; after the second it would cut the residual stream.",
        "return self.fc2(hidden)",
        "return F.gelu(self.fc2(self.fc1(x)))",
    ),
    Bug(
        "a residual added",
        "the residual belongs to the block around this layer.",
        "return self.fc2(hidden)",
        "return x + self.fc2(hidden)",
    ),
    Bug(
        "dropout in evaluation mode too",
        "dropout is noise for training; what is evaluated must not depend on chance.",
        "hidden = self.dropout(hidden)",
        "hidden = F.dropout(hidden, self.dropout.p)",
    ),
    Bug(
        "dropout after the second layer",
        "it is the hidden entries that are dropped.",
        "hidden = self.dropout(hidden)",
        "return self.dropout(self.fc2(hidden))",
    ),
    Bug(
        "dropout before gelu",
        "the entries are dropped after the bend, and gelu is not linear: scaling before it is not scaling after it.",
        "hidden = self.dropout(hidden)",
        "hidden = F.gelu(self.dropout(self.fc1(x)))",
    ),
    Bug(
        "dropout without the scale 1 / (1 - p)",
        "what survives is divided by 1 - p, so that the expected value is the same in both modes.",
        "hidden = self.dropout(hidden)",
        "hidden = hidden if not self.training else hidden * (hidden.detach().clone().uniform_() >= self.dropout.p)",
    ),
    Bug(
        "dropout ignored",
        "the argument asks for it.",
        "self.dropout = nn.Dropout(dropout)",
        "self.dropout = nn.Dropout(0.0)",
    ),
    Bug(
        "keeps with the probability to drop",
        "dropout is the share that is lost, not the share that is kept.",
        "self.dropout = nn.Dropout(dropout)",
        "self.dropout = nn.Dropout(1 - dropout if dropout else 0.0)",
    ),
    Bug(
        "the same entries dropped for every token",
        "each entry of each token is drawn on its own.",
        "hidden = self.dropout(hidden)",
        "hidden = hidden * self.dropout(torch.ones_like(hidden.flatten(0, -2)[:1] if hidden.dim() > 1 else hidden)[0])",
    ),
    Bug(
        "layers without biases",
        "fc1 and fc2 have biases here.",
        "self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)",
        "self.fc2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)",
    ),
    Bug(
        "an explicit dtype ignored",
        "parameters are made in the dtype that the constructor is given.",
        "self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)",
        "self.fc1 = nn.Linear(d_model, d_ff, device=device)",
    ),
]
