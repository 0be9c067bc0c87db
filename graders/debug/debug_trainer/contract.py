"""What the mended trainer must do. The oracle takes one loss of all tokens, and AdamW by its formula, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Callee, CandidateTest, Draw, ModuleContract, core, fail, match, oracles
from dojo.judge.protocol import Remote, mapped
from dojo.judge.proxy import Module

VOCAB = 13
KEPT = ("test_values_match_the_definition", "test_holds_exactly_the_parameters_of_the_contract")
GIVEN = "the program is given: it is mended and not written"
OFF = {check: GIVEN for check in dir(ModuleContract) if check.startswith("test_") and check not in KEPT}
SETTINGS = {"max_lr": 0.05, "warmup": 2, "total": 7, "max_norm": 100.0, "weight_decay": 0.0}
DEFAULTS = {"max_norm": 1.0, "weight_decay": 0.1}
UNEVEN = (((9, 7), (3,)), ((2, 4), (8,), (5, 5)), ((6, 2),), ((9,), (2, 2, 3), (4,)))  # lengths of rows, by microbatch
EVEN = (((4,), (4,)), ((6, 2), (4, 4)), ((3,), (3,), (3,)), ((5, 2), (2, 5)))  # as many targets in each
SINGLE = (((9, 7),), ((3,),), ((2, 4, 6),), ((8,),))


def model(norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def formula(init: dict, params: dict, ids: Tensor) -> Tensor:
        x = norm(params["embedding.weight"][ids], params["norm.weight"], params["norm.bias"], 1e-5)
        return oracles.project(params, "lm_head", x)

    return formula


def of_targets(params: dict[str, Tensor], batches: list[Tensor]) -> Tensor:
    """The loss of each target that is no padding, in float64."""
    params, found = {name: value.double() for name, value in params.items()}, []
    for ids in batches:
        chances = TestModel.oracle({}, params, ids=ids).log_softmax(-1)
        found += [-chances[row, at - 1, ids[row, at]] for row, at in ids.nonzero().tolist() if at]
    return torch.stack(found)


def right_rate(step: int, max_lr: float, warmup: int, total: int) -> float:
    if step < warmup:
        return max_lr / warmup * (step + 1)
    return max_lr - max_lr / (total - warmup) * (step - warmup)


def right_run(made: Call, work: list[list[Tensor]], max_norm: float, weight_decay: float, **schedule: Any) -> list:
    """Of each update its loss, the weights after it, and the sum of the rates so far."""
    params, moved, found = {name: value.double() for name, value in made.params.items()}, 0.0, []
    moments = {name: (torch.zeros_like(value),) * 2 for name, value in params.items()}
    for count, batches in enumerate(work, 1):
        leaves = {name: value.requires_grad_() for name, value in params.items()}
        loss = of_targets(leaves, batches).mean()
        grads = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
        norm = torch.cat([grad.flatten() for grad in grads.values()]).norm()
        lr, params = right_rate(count - 1, **schedule), {}
        for name, grad in grads.items():
            grad, value = grad * min(1.0, max_norm / norm), leaves[name].detach()
            first, second = moments[name]
            moments[name] = first, second = 0.9 * first + 0.1 * grad, 0.95 * second + 0.05 * grad**2
            root = (second / (1 - 0.95**count)).sqrt() + 1e-5
            kept = value * (1 - lr * weight_decay) if value.dim() > 1 else value
            params[name] = kept - lr * first / (1 - 0.9**count) / root
        moved += lr
        found.append((loss.detach(), params, moved))
    return found


class TestModel(ModuleContract):
    name = "Model"
    holds = {
        "Loss": ("test_loss_sum", "test_evaluate_gives", "test_an_update_follows"),
        "Update": ("test_gradients_are", "test_matrices_alone"),
        "Rate": ("test_the_rate",),
        "Modes": ("test_updates_have", "test_evaluate_gives"),
        "Checkpoint": ("test_a_new_trainer", "test_a_snapshot"),
    }
    oracle = model(oracles.library_layer_norm)
    variants = (oracle, model(oracles.layer_norm))
    off = OFF
    cases = {"some_tokens": {}, "one_token": {"seq": 1}}

    @classmethod
    def call(cls, d: Draw, seq: int = 5, dropout: float = 0.0) -> Call:
        init = {"vocab_size": VOCAB, "dim": 6, "dropout": dropout}
        return Call({"ids": d.integers(0, VOCAB, 2, seq)}, init, cls.params(d, init))

    @core
    def test_the_rate_rises_and_falls_in_lines(self, attempt: Attempt, draw: Draw) -> None:
        for schedule in ((2.0, 4, 9), (1.0, 1, 3), (0.3, 3, 4)):
            for step in range(schedule[2] + 1):
                got, right = attempt.rate.request((step, *schedule), {})["value"], right_rate(step, *schedule)
                if not isinstance(got, (int, float)) or abs(got - right) > 1e-6 * schedule[0]:
                    facts, call = f"got {got!r:.80}, expected {right:.6g}", f"rate{(step, *schedule)}"
                    fail("the rate rises in a line and falls in a line", facts, call=call)

    @core
    def test_loss_sum_adds_the_losses_of_targets_that_are_no_padding(self, attempt: Attempt, draw: Draw) -> None:
        made, (ids,) = self.call(draw), texts(draw, (7, 3, 5))
        with self.case_context(attempt, f"rows of 7, 3 and 5 tokens: ids={ids.tolist()}", made):
            module, right = self.ready(attempt, made), of_targets(made.params, [ids])
            got = self.ask(attempt, module, "loss_sum", module.target, ids)
            parts = got if isinstance(got, (tuple, list)) else []
            if [isinstance(each, (Tensor, int, float)) for each in parts] != [True] * 2:
                fail("loss_sum gives a sum and a number", f"got {got!r:.200}")
            same_loss("loss_sum gives the sum of the losses", float(got[0]), right.sum())
            if float(got[1]) != len(right):
                fail("loss_sum gives the number of targets", f"got {got[1]!r:.80}, expected {len(right)}")

    @core
    def test_evaluate_gives_the_mean_over_targets_without_dropout(self, attempt: Attempt, draw: Draw) -> None:
        made, batches = self.call(draw, dropout=0.5), texts(draw, (9, 7), (3,), (2, 5))
        with self.case_context(attempt, "batches of 14, 2 and 5 targets, dropout=0.5", made):
            module = self.ready(attempt, made)
            got = self.ask(attempt, module, "evaluate", module.target, batches)
            same_loss("evaluate gives the mean over all targets", got, of_targets(made.params, batches).mean())

    @core
    def test_an_update_follows_the_mean_over_all_its_targets(self, attempt: Attempt, draw: Draw) -> None:
        self.follow(attempt, draw, UNEVEN, "an update follows the mean over all its targets")

    @core
    def test_gradients_are_clipped_by_their_norm_once_all_are_there(self, attempt: Attempt, draw: Draw) -> None:
        # Adam's first step is the same for a gradient of any norm, but for eps.
        self.follow(attempt, draw, EVEN, "the whole gradient is clipped by its norm", start=1, max_norm=0.1)

    @core
    def test_matrices_alone_decay(self, attempt: Attempt, draw: Draw) -> None:
        self.follow(attempt, draw, SINGLE, "parameters of two or more axes alone decay", weight_decay=0.5)

    @core
    def test_the_rate_goes_by_updates(self, attempt: Attempt, draw: Draw) -> None:
        self.follow(attempt, draw, EVEN, "the rate is that of the update", warmup=1, total=4)

    @core
    def test_updates_have_dropout_after_an_evaluation_too(self, attempt: Attempt, draw: Draw) -> None:
        made, batches = self.call(draw, dropout=0.5), texts(draw, (9, 7), (3,))
        for evaluated in (False, True):
            with self.case_context(attempt, f"dropout=0.5, {'after' if evaluated else 'without'} an evaluation", made):
                found = []
                for _ in "ab":
                    module = self.ready(attempt, made)
                    trainer = self.trainer(attempt, module, SETTINGS)
                    if evaluated:
                        self.ask(attempt, module, "evaluate", module.target, batches)
                    found.append(self.ask(attempt, module, trainer, batches, method="update"))
                if found[0] == found[1]:
                    fail("updates have dropout", f"the same update twice had a loss of {found[0]!r:.80} both times")

    @core
    def test_a_new_trainer_goes_on_from_a_snapshot(self, attempt: Attempt, draw: Draw) -> None:
        self.follow(attempt, draw, SINGLE, "a new trainer goes on as if nothing had stopped", loads=1, **DEFAULTS)

    @core
    def test_a_snapshot_stays_as_it_is(self, attempt: Attempt, draw: Draw) -> None:
        sentence = "a snapshot is left alone by later updates, and by those of a trainer that loaded it"
        self.follow(attempt, draw, SINGLE, sentence, loads=3)

    def follow(self, attempt: Attempt, d: Draw, lengths: Sequence, sentence: str, loads: int = 0, **more: Any) -> None:
        """Hold losses and weights after each update, from the one of number `start` on, against the oracle.

        After the second one the run is saved, and loaded into a new trainer of a new model: once, or several times,
        before each of which the one that was there trains on.
        """
        start, made, work = more.pop("start", 0), self.call(d), [texts(d, *each) for each in lengths]
        module, settings = self.ready(attempt, made), SETTINGS | more
        trainer = self.trainer(attempt, module, settings)
        words = ", ".join(f"{name}={value}" for name, value in settings.items())
        for number, (batches, right) in enumerate(zip(work, right_run(made, work, **settings), strict=True)):
            counts = ", ".join(str(int((ids[:, 1:] != 0).sum())) for ids in batches)
            told = f"update {number} with {counts} targets in its microbatches, {words}"
            with self.case_context(attempt, told + ", saved before update 2" * (loads > 0), made):
                if number == 2 and loads:
                    snapshot = Callee(attempt, trainer).stage().go(method="save")
                    for _ in range(loads):
                        if loads > 1:
                            self.ask(attempt, module, trainer, batches, method="update")
                        module = self.ready(attempt, self.call(d))
                        trainer = self.trainer(attempt, module, settings)
                        self.ask(attempt, module, trainer, snapshot, method="load")
                got = self.ask(attempt, module, trainer, batches, method="update")
                if number < start:
                    continue
                same_loss(f"{sentence}: the loss", got, right[0])
                for name, value in module.describe()["parameters"].items():
                    expected, axes = right[1][name], "out in" if value.dim() > 1 else "entry"
                    match(value.cpu().double(), expected, 1e-2 * right[2] + 0 * expected, f"{sentence}: {name}", axes)

    def trainer(self, attempt: Attempt, module: Module, settings: dict[str, Any]) -> Remote:
        """A trainer of this model, kept in the worker."""
        module.outline()  # what waits for the model is done
        stated = {name: value for name, value in settings.items() if DEFAULTS.get(name) != value}
        return attempt.Trainer.keep(module.target, **stated)

    @staticmethod
    def ask(attempt: Attempt, module: Module, target: Any, *args: Any, method: str = "") -> Any:
        """What a function gives, or a method of a kept object, once all is done that waits for the model."""
        args = mapped(lambda a: a.to(attempt.device) if isinstance(a, Tensor) else a, args)
        request = {"do": "call", "target": target, "args": args, "kwargs": {}, "method": method, "grad": True}
        return attempt.ask_of([module], request)["value"]


def texts(d: Draw, *lengths: Sequence[int]) -> list[Tensor]:
    """Batches of rows of these lengths, padded."""
    rows = [[d.integers(1, VOCAB, length) for length in each] for each in lengths]
    return [torch.nn.utils.rnn.pad_sequence(each, batch_first=True) for each in rows]


def same_loss(sentence: str, got: Any, expected: Tensor) -> None:
    if type(got) is not float:
        fail("losses are floats", f"got {got!r:.80}")
    match(torch.tensor(got).double(), expected.detach(), 1e-4 * expected.detach(), sentence, "")


class Testtest(CandidateTest):
    planted = (
        "mean of the microbatches' means",
        "schedule stepped for each microbatch",
        "model left in eval",
        "optimizer state lost on resume",
    )
