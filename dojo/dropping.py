"""What dropout asks of a module: silent in evaluation, at work in training, and gone where it is 0."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import ClassVar

import torch
from torch import Tensor

from dojo.contract import ModuleContract, core
from dojo.expect import Call, Draw, fail, tensor
from dojo.judge.proxy import Attempt, Callee, Module


class DropoutContract(ModuleContract):
    """A module that takes `dropout`. All other checks see it in evaluation mode."""

    dropping: ClassVar  # a call of a module that is built with the dropout given
    branches: ClassVar[dict[str, str]] = {}  # what may be dropped before it is added, and the bias that ends it
    still: ClassVar[str] = "o_proj|fc2"  # without these parameters nothing else is random there
    hidden: ClassVar[tuple[str, str]] | None = None  # the feed-forward layer to look into, and what to silence then

    def ready(self, attempt: Attempt, call: Call, dtype: torch.dtype = torch.float32) -> Callee:
        callee = super().ready(attempt, call, dtype)
        return callee.eval() if isinstance(callee, Module) else callee

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
        if self.hidden is None:
            return
        ffn, silent = self.hidden
        call = silenced(type(self).dropping(draw, 0.5), rf"{silent}|{re.escape(ffn)}(fc1\.weight|fc2)")
        gone = self.ready(attempt, call)
        args, kwargs = self.arguments(self.on_device(attempt, call))
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
        args, kwargs = self.arguments(self.on_device(attempt, call))
        with torch.no_grad(), self.told(attempt, told, call):
            replies = [module.request(args, kwargs, watch=number == 0) for number in range(count)]
            return [tensor(reply["value"], attempt.device) for reply in replies]

    def exact(self, attempt: Attempt, draw: Draw, call: Call, training: bool, told: str) -> None:
        """Hold one call in this mode against the oracle."""
        module = self.ready(attempt, call).train(training)
        args, kwargs = self.arguments(self.on_device(attempt, call))
        with torch.no_grad(), self.told(attempt, told, call):
            reply = module.request(args, kwargs, watch=True)
        self.compare(attempt, draw, told, call, {"result": reply["value"]}, torch.float32, None)
        if reply["changed"] and not training:
            seen = f"{told}: changed: {', '.join(reply['changed'])}"
            fail("a call in evaluation mode leaves global state alone", seen)


def silenced(call: Call, pattern: str) -> Call:
    """The call with the parameters whose names match set to zero."""
    return replace(call, params={k: v * 0 if re.search(pattern, k) else v for k, v in call.params.items()})
