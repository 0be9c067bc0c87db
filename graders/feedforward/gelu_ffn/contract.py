"""What `FeedForward` must do. The oracle composes torch's own parts in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, DropoutContract, core, fail, half_precisions, match, robust, tensor
from dojo.contracts.oracles import feed_forward, library_feed_forward


def by_normal_distribution(params: dict, x: Tensor) -> Tensor:
    hidden = x @ params["fc1.weight"].mT + params["fc1.bias"]
    wide = hidden.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * torch.special.ndtr(wide)).to(x.dtype) @ params["fc2.weight"].mT + params["fc2.bias"]


class TestFeedForward(DropoutContract):
    name = "FeedForward"
    oracle = library_feed_forward
    variants = (library_feed_forward, feed_forward, by_normal_distribution)
    sizes = {"d_model": 6, "d_ff": 11}
    scales = {"fc1": 1.5}
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    off = {"test_a_dropout_of_one_gives_no_nan": "it is asked here together with its gradients"}
    cases = {
        "a_batch": {},
        "narrow": {"d_model": 7, "d_ff": 2},
        "as_wide_inside_as_outside": {"d_ff": 6},
        "far_from_zero": {"fc1": 20.0},
    }
    near_300 = {"offset": 300.0, "fc1": 0.1}
    holds = {
        "GELU": ("test_values_match",),
        "Dropout": ("test_training", "test_nothing_is_dropped", "test_gradients_flow", "test_dropout_stands"),
        "Dropout of 1": ("test_dropout_of_one",),
        "Half precision": ("test_half_precision",),
    }
    memory_in = "shape"
    timed = {"shape": (256,), "d_model": 128, "d_ff": 512}
    time_limit = 10.0

    @classmethod
    def dropping(cls, d: Draw, dropout: float) -> Call:
        return cls.call(d, dropout=dropout)

    @robust
    @half_precisions
    def test_half_precision_gelu_is_rounded_once(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """Below 0 little is left of 1 + erf in half precision: gates that should be nearly closed stand open, or shut.
        BERT's own gelu does this too: fine in float32.
        """
        made = type(self).call(draw, d_ff=6).with_inputs(x=torch.tensor([[-3.5, -3.0, -2.0, -1.0, 0.5, 3.0]]))
        made = made.with_params(**{k: torch.eye(6) if v.dim() == 2 else 0 * v for k, v in made.params.items()})
        got, expected = self.run(attempt, "both layers the identity", made.cast(dtype), dtype), self.expected(made)
        allowed = 2 * torch.finfo(dtype).eps * expected.abs()
        with self.case_context(attempt, "both layers the identity", made.cast(dtype)):
            match(got, expected, allowed, "gelu is computed in float32 and rounded once", self.axes["result"])

    @core
    def test_training_drops_entries_and_scales_the_others(self, attempt: Attempt, draw: Draw) -> None:
        lost, factor = self.dropped(attempt, draw, 6.0)  # of 6 gelu is 6, so that dropout may also stand before it
        if abs(lost.float().mean().item() - 0.2) > 0.03:  # eight standard deviations for 12,800 entries
            share = round(lost.float().mean().item(), 1)
            fail("each entry is dropped with the probability that was given", f"dropout=0.2: {share} were dropped")
        if abs(factor - 1.25) > 1e-3:
            fail("what is not dropped is divided by 1 - dropout", f"dropout=0.2: multiplied by {factor:.2f}, not 1.25")
        if any((lost == lost.roll(1, axis)).float().mean() > 0.85 for axis in range(3)):  # apart: 0.68
            fail("each entry of each token is dropped on its own", "neighbors along an axis were dropped together")

    @robust
    def test_dropout_stands_after_gelu_or_after_the_second_layer(self, attempt: Attempt, draw: Draw) -> None:
        """Training and evaluation see different activations: gelu bends what dropout has scaled."""
        _, factor = self.dropped(attempt, draw, 1.0)
        if abs(factor - 1.25) > 1e-3:
            sentence = "dropout stands after gelu, or after the second layer"
            fail(sentence, f"dropout=0.2: gelu(1) is multiplied by {factor:.2f} where it is kept, not by 1.25")

    def dropped(self, attempt: Attempt, draw: Draw, hidden: float) -> tuple[Tensor, float]:
        """Which entries were dropped in training, and by what the others were multiplied.

        Each hidden unit is gelu of this number, and fc2 is the identity and adds 3.
        """
        made = type(self).call(draw, (40, 40), d_model=8, d_ff=8, dropout=0.2)
        plain = {"fc1.weight": torch.zeros(8, 8), "fc2.weight": torch.eye(8)}
        plain |= {"fc1.bias": torch.full((8,), hidden), "fc2.bias": torch.full((8,), 3.0)}
        made = made.with_params(**plain)
        label = "in training mode, dropout=0.2, every hidden entry alike, fc2 is the identity and adds 3"
        got = self.noisy(attempt, made, 1, label)[0].cpu().double()
        full = self.expected(made)
        if got.shape != full.shape:
            fail("the result has the same shape in training as in evaluation", f"got {tuple(got.shape)}; {label}")
        after_gelu = int(got.isclose(torch.tensor(3.0).double()).sum()) >= int((got == 0).sum())
        start = 3.0 if after_gelu else 0.0
        lost = (got - start).abs() < 1e-4
        kept = (got[~lost] - start) / (full[~lost] - start)
        if kept.numel() and not kept.isclose(kept[0], 1e-3).all():
            sentence = "each entry is dropped or divided by 1 - dropout"
            fail(sentence, f"equal entries were multiplied by different numbers; {label}")
        return lost, kept[0].item() if kept.numel() else 0.0

    @core
    def test_gradients_flow_through_what_is_kept_alone(self, attempt: Attempt, draw: Draw) -> None:
        value, grads = self.backward(attempt, draw, 0.5)
        start = 3.0 if (value == 3).any() else 0.0
        lost = (value - start).abs() < 1e-4
        flows = grads["fc1.bias"].abs() > 1e-6
        if not torch.equal(flows, ~lost):
            through, seen = int((flows & lost).sum()), int((~flows & ~lost).sum())
            what = "dropped entries have one" if through else f"{'some' if seen else 'no'} kept entries have none"
            fail("no gradient flows through an entry that was dropped, and one through every other", what)

    @robust
    def test_dropout_of_one_leaves_finite_values_and_gradients(self, attempt: Attempt, draw: Draw) -> None:
        """A sweep over dropout rates ends in nan: dividing by 1 - dropout divides by zero."""
        value, grads = self.backward(attempt, draw, 1.0)
        if not ((value == 3).all() or (value == 0).all()):
            fail("with dropout=1.0 zeros are left, or the bias of fc2", f"got {value[:4].tolist()} …")
        for name, grad in grads.items():
            if not grad.isfinite().all():
                fail("with dropout=1.0 gradients are finite", f"that of {name} is not")

    def backward(self, attempt: Attempt, draw: Draw, dropout: float) -> tuple[Tensor, dict[str, Tensor]]:
        """One token in training, fc2 is the identity and adds 3: its 32 entries, and the gradients of their sum."""
        made = type(self).call(draw, shape=(1,), d_model=32, d_ff=32, fc1=0.1, dropout=dropout)
        ones, three = torch.ones(32), torch.full((32,), 3.0)
        made = made.with_params(**{"fc1.bias": ones, "fc2.weight": torch.eye(32), "fc2.bias": three})
        module = self.ready(attempt, made).train()
        args, kwargs = self.arguments(made.to(attempt.device))
        request = {"do": "forward_backward", "target": module.target, "args": args, "kwargs": kwargs}
        request["cotangents"] = [torch.ones(1, 32, device=attempt.device)]
        label = f"in training mode, dropout={dropout}, one token, fc2 is the identity and adds 3"
        with self.case_context(attempt, label, made):
            answer = next(attempt.ask_each([(module, request)]))
            found = module.renamed(answer["gradients"])
            missing = [name for name in made.params if found.get(name) is None]
            if missing and dropout < 1:
                fail(f"the result is differentiable: no gradient of {missing[0]} comes back")
        value = tensor(answer["value"], attempt.device).cpu().flatten()
        return value, {name: grad.cpu() for name, grad in found.items() if grad is not None}
