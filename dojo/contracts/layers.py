"""What is asked besides of a layer with dropout, and of a norm."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor

from dojo.contracts.checks.assertions import fail, tensor
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.harness import core, half_precisions, robust
from dojo.contracts.module import ModuleContract
from dojo.judge.proxy import Attempt, Module


class DropoutContract(ModuleContract):
    """A module that takes `dropout`. All other checks see it in evaluation mode."""

    dropping: ClassVar[Callable[[Draw, float], Call]]  # a call of a module that is built with the dropout given
    needs: ClassVar[dict[str, str]] = ModuleContract.needs | {
        "test_entries_of_each_branch_are_dropped_or_scaled": "branches",
        "test_dropout_acts_within_the_feed_forward_layer": "hidden",
    }
    branches: ClassVar[dict[str, str]] = {}  # what may be dropped before it is added, and the bias that ends it
    still: ClassVar[str] = "o_proj|fc2"  # without these parameters nothing else is random there
    hidden: ClassVar[tuple[str, str]]  # the feed-forward layer to look into, and what to silence then

    def ready(self, attempt: Attempt, call: Call, dtype: torch.dtype = torch.float32) -> Module:
        return super().ready(attempt, call, dtype).eval()

    def fullest_call(self, draw: Draw) -> Call:
        return type(self).dropping(draw, 0.5)

    @core
    def test_training_without_dropout_is_exact(self, attempt: Attempt, draw: Draw) -> None:
        call = type(self).dropping(draw, 0.0)
        self.exact(attempt, draw, call, True, "in training mode, dropout=0.0")

    @core
    def test_nothing_is_dropped_in_evaluation_mode(self, attempt: Attempt, draw: Draw) -> None:
        call = type(self).dropping(draw, 0.5)
        self.exact(attempt, draw, call, False, "in evaluation mode, dropout=0.5")

    @core
    def test_training_drops_at_random(self, attempt: Attempt, draw: Draw) -> None:
        call = type(self).dropping(draw, 0.5)
        first, second = self.noisy(attempt, call, 2, "in training mode, dropout=0.5")
        if first.shape == second.shape and torch.equal(first, second):
            fail("in training mode dropout draws anew in every call", "two calls gave the same")

    @core
    def test_entries_of_each_branch_are_dropped_or_scaled(self, attempt: Attempt, draw: Draw) -> None:
        """A branch that is a bias of two entries alone: if it is dropped, each is gone or divided by 1 - dropout."""
        share, size = 0.5, 3.0
        for place, bias in self.branches.items():
            bare = silenced(type(self).dropping(draw, share), self.still)
            told = f"in training mode, dropout={share}, {bias} is [{size}, {size}, 0, …], zero: {self.still}"

            def branch(*entries: float, call: Call = bare, name: str = bias) -> Call:
                value = torch.zeros_like(call.params[name])
                value[:2] = torch.tensor(entries)
                return replace(call, params=call.params | {name: value})

            kept = size / (1 - share)
            outcomes = [self.expected(branch(*each)) for each in product((0.0, kept), repeat=2)]
            calls = self.noisy(attempt, branch(size, size), 8, told)
            for each in calls:
                if each.shape != outcomes[0].shape:
                    seen = f"got {tuple(each.shape)}, expected {tuple(outcomes[0].shape)}; {told}"
                    fail("the result has the same shape in training as in evaluation", seen)
            got = torch.stack(calls).cpu().double()
            if torch.allclose(got, self.expected(branch(size, size)).expand(got.shape), rtol=1e-3, atol=1e-3):
                continue  # the contract leaves it open whether dropout acts here
            which = torch.stack([torch.isclose(got, each, rtol=1e-3, atol=1e-3).all(-1) for each in outcomes])
            if not which.any(0).all():
                fail(f"dropout on {place} takes an entry away or divides it by 1 - dropout", told)
            drawn = which.int().argmax(0)
            together = [(drawn == drawn[:, :1]).all(), (drawn == drawn[:, :, :1]).all(), len(drawn.unique()) < 4]
            if any(together):
                fail(f"each entry of {place} is dropped on its own", told)

    @core
    def test_dropout_acts_within_the_feed_forward_layer(self, attempt: Attempt, draw: Draw) -> None:
        """One hidden unit feeds every feature: where it is dropped, the whole branch of a token is gone."""
        ffn, silent = self.hidden
        call = silenced(type(self).dropping(draw, 0.5), rf"{silent}|{re.escape(ffn)}(fc1\.weight|fc2)")
        gone = self.ready(attempt, call)
        args, kwargs = self.arguments(call.to(attempt.device))
        without = tensor(gone.request(args, kwargs)["value"], attempt.device)
        only = torch.zeros_like(call.params[f"{ffn}fc2.weight"])
        only[:, 0] = 3.0
        ones = torch.ones_like(call.params[f"{ffn}fc1.bias"])
        call = replace(call, params=call.params | {f"{ffn}fc2.weight": only, f"{ffn}fc1.bias": ones})
        told = "in training mode, dropout=0.5, one hidden unit that feeds every feature"
        calls = self.noisy(attempt, call, 6, told)
        if not any(
            torch.isclose(each, without, atol=1e-5).all(-1).any() for each in calls if each.shape == without.shape
        ):
            fail("dropout acts within the feed-forward layer", f"{told}: it was never dropped in {len(calls)} calls")

    def noisy(self, attempt: Attempt, call: Call, count: int, told: str) -> list[Tensor]:
        """Results of one module in training mode. They start from a seeded generator, so that runs see the same."""
        module = self.ready(attempt, call).train()
        args, kwargs = self.arguments(call.to(attempt.device))
        with torch.no_grad(), self.case_context(attempt, told, call):
            replies = [module.request(args, kwargs, watch=number == 0) for number in range(count)]
            return [tensor(reply["value"], attempt.device) for reply in replies]

    def exact(self, attempt: Attempt, draw: Draw, call: Call, training: bool, told: str) -> None:
        """Hold one call in this mode against the oracle."""
        module = self.ready(attempt, call).train(training)
        args, kwargs = self.arguments(call.to(attempt.device))
        with torch.no_grad(), self.case_context(attempt, told, call):
            reply = module.request(args, kwargs, watch=True)
        self.compare(attempt, draw, told, call, {"result": reply["value"]})
        if reply["changed"] and not training:
            seen = f"{told}: changed: {', '.join(reply['changed'])}"
            fail("a call in evaluation mode leaves global state alone", seen)


def silenced(call: Call, pattern: str) -> Call:
    """The call with the parameters whose names match set to zero."""
    return replace(call, params={k: v * 0 if re.search(pattern, k) else v for k, v in call.params.items()})


def off_the_grid(x: Tensor) -> Tensor:
    """Vectors of mean 0 and lengths from which a norm moves each entry off the grid it was rounded to.

    Multiplied by nearly 1 or 3/2, the entries of half precision would all be rounded to the same side.
    """
    centred = x - x.mean(-1, keepdim=True)
    lengths = torch.linspace(0.64, 0.66, len(x))[:, None]
    return lengths * centred / centred.square().mean(-1, keepdim=True).sqrt()


class NormContract(ModuleContract):
    """A module that normalises each vector by itself. A subclass adds its cases to these, and says which `near_300`."""

    cases: ClassVar[dict[str, Any]] = {
        "one_vector_in_a_batch": {"shape": (1,)},
        "a_batch": {"shape": (2, 5)},
        "as_many_tokens_as_entries": {"shape": (7, 7)},
        "inputs_as_small_as_eps": {"std": 0.003},
        "another_eps": {"eps": 0.5},
        "a_tiny_eps": {"std": 1e-5, "eps": 1e-12},
        "no_eps": {"std": 1e-3, "eps": 0.0},
        "large_inputs": {"std": 1e4},
    }
    more_shapes: ClassVar[dict[str, Any]] = {
        "no_leading_dimensions": {"shape": ()},
        "three_leading_dimensions": {"shape": (2, 3, 4)},
        "one_entry": {"shape": (3,), "d_model": 1, "eps": 0.5},
    }
    grows: ClassVar[dict[str, str]] = {"batch": "batch", "seq": "seq", "width": "d_model"}
    memory_in = "seq"
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, shape: tuple | None = None, batch: int = 2, seq: int = 5, d_model: int = 7,
        std: float | list = 1.0, offset: float | list = 0.0, **eps: float,
    ) -> Call:  # fmt: skip
        """A call on inputs whose mean is half their deviation, moved by `offset`."""
        shape = (batch, seq) if shape is None else shape
        x = (0.5 + d.normal(*shape, d_model)) * torch.tensor(std) + torch.tensor(offset)
        init = {"d_model": d_model, **eps}
        return Call({"x": x}, init, cls.params(d, init))

    @classmethod
    def timed(cls, d: Draw) -> Call:
        return cls.call(d, shape=(1024,), d_model=512)

    @core
    def test_weight_starts_as_ones_and_bias_as_zeros(self, attempt: Attempt, draw: Draw) -> None:
        call = type(self).call(draw)
        found = self.build(attempt, call).describe()["parameters"]
        for name, like in call.params.items():
            start = torch.ones_like(like) if name == "weight" else torch.zeros_like(like)
            got = found.get(name)
            if got is None or not torch.equal(got, start):
                fail(f"{name} is initialised to {start.tolist()}", f"got {None if got is None else got.tolist()}")

    @robust
    @half_precisions
    def test_half_precision_vectors_get_their_exact_length(
        self, attempt: Attempt, draw: Draw, dtype: torch.dtype
    ) -> None:
        """A factor rounded to half precision scales a whole vector, and so does the next layer's."""
        # Roundings of the entries average out over a long vector; a factor that was rounded before does not.
        made = type(self).timed(draw)
        plain = {k: torch.full_like(v, 1.0 if k == "weight" else 0.0) for k, v in made.params.items()}
        made = replace(made, inputs={"x": off_the_grid(made.inputs["x"][:32])}, params=plain).cast(dtype)
        here = made.to(attempt.device)
        with torch.no_grad(), self.case_context(attempt, "long vectors, weights of one", made):
            got = tensor(self.ready(attempt, made, dtype)(here.inputs["x"]), attempt.device).cpu().double()
        expected = self.expected(made)
        if got.shape != expected.shape:
            fail("the result has the shape of x", f"got {tuple(got.shape)} for {tuple(expected.shape)}")
        off = ((got * expected).sum(-1) / expected.square().sum(-1) - 1).abs().max().item()
        # 512 roundings come to at most 0.09 eps on the whole, an inverse that was itself rounded to 0.27 or more.
        allowed = torch.finfo(dtype).eps / 6
        if off > allowed:
            seen = f"in {dtype} a vector is {off:.2g} longer or shorter than it should be, allowed {allowed:.2g}"
            fail("half precision is reduced and normalised in float32, and rounded once at the end", seen)
