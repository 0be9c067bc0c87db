"""What dropout asks of a module: silent in evaluation, at work in training, and gone where it is 0."""

from __future__ import annotations

from typing import ClassVar

import torch

from dojo.contract import ModuleContract, core
from dojo.expect import Call, Draw, fail, tensor
from dojo.judge.proxy import Attempt, Callee, Module


class DropoutContract(ModuleContract):
    """A module that takes `dropout`. All other checks see it in evaluation mode."""

    dropping: ClassVar  # a call of a module that is built with the dropout given

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
        module = self.ready(attempt, call).train()
        args, kwargs = self.arguments(self.on_device(attempt, call))
        with torch.no_grad(), self.told(attempt, "in training mode, dropout=0.5", call):
            # Watching starts from a seeded generator, so that every run of this check sees the same noise.
            replies = [module.request(args, kwargs, watch=number == 0) for number in range(2)]
            first, second = (tensor(reply["value"], attempt.device) for reply in replies)
        if first.shape == second.shape and torch.equal(first, second):
            fail("in training mode dropout draws anew in every call", "two calls gave the same")

    def exact(self, attempt: Attempt, draw: Draw, call: Call, training: bool, told: str) -> None:
        """Hold one call in this mode against the oracle."""
        module = self.ready(attempt, call).train(training)
        args, kwargs = self.arguments(self.on_device(attempt, call))
        with torch.no_grad(), self.told(attempt, told, call):
            got = {"result": module.request(args, kwargs, watch=True)["value"]}
        self.compare(attempt, draw, told, call, got, torch.float32, None)
