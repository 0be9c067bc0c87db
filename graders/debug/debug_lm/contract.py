"""What the mended GPT must do. The oracle works head by head and target by target in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    CandidateTest,
    Contract,
    Draw,
    ModuleContract,
    core,
    fail,
    match,
    oracles,
    tensor,
)
from dojo.judge.proxy import Module

KEPT = (
    "test_values_match_the_definition",
    "test_gradients_match_the_definition",
    "test_holds_exactly_the_parameters_of_the_contract",
)
GIVEN = "the program is given: it is mended and not written"
OFF = {check: GIVEN for check in dir(ModuleContract) if check.startswith("test_") and check not in KEPT}
INSIDE = (oracles.stage_by_stage, oracles.normalised_last, oracles.term_by_term)
NORMS = (oracles.layer_norm, oracles.library_layer_norm, oracles.layer_norm)


def by_heads(attend: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def formula(init: dict, params: dict, q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Tensor:
        parts = zip(*(t.chunk(num_heads, -1) for t in (q, k, v)), strict=True)
        return torch.cat([attend(*part, oracles.causal(q.shape[1])) for part in parts], -1)

    return formula


def block(attend: Callable[..., Tensor], norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def formula(init: dict, params: dict, x: Tensor) -> Tensor:
        def normed(name: str, x: Tensor) -> Tensor:
            return norm(x, params[f"{name}.weight"], params[f"{name}.bias"], 1e-5)

        h = normed("attn_norm", x)
        q, k, v = (oracles.project(params, name, h) for name in ("q_proj", "k_proj", "v_proj"))
        x = x + oracles.project(params, "o_proj", by_heads(attend)({}, {}, q, k, v, init["num_heads"]))
        hidden = F.gelu(oracles.project(params, "fc1", normed("ffn_norm", x)))
        return x + oracles.project(params, "fc2", hidden)

    return formula


def model(attend: Callable[..., Tensor], norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def formula(init: dict, params: dict, ids: Tensor) -> Tensor:
        x = params["token_embedding.weight"][ids] + params["position_embedding.weight"][: ids.shape[1]]
        for number in range(init["num_layers"]):
            x = block(attend, norm)(init, oracles.sub_params(f"blocks.{number}.", params), x)
        x = norm(x, params["final_norm.weight"], params["final_norm.bias"], 1e-5)
        return oracles.project(params, "lm_head", x)

    return formula


class TestAttend(Contract):
    name = "attend"
    holds = {"Attention": ("test_values", "test_gradients")}
    oracle = by_heads(oracles.library)
    variants = tuple(by_heads(attend) for attend in INSIDE)
    off = OFF
    cases = {"three_heads": {}, "one_head": {"heads": 1}, "one_token": {"seq": 1}}

    @classmethod
    def call(cls, d: Draw, heads: int = 3, seq: int = 5) -> Call:
        q, k, v = (d.normal(2, seq, 5 * heads, scale=1.5) for _ in "qkv")  # half of 4 is its root
        return Call({"q": q, "k": k, "v": v, "num_heads": heads})


class TestBlock(ModuleContract):
    name = "Block"
    holds = {"Model": KEPT}
    oracle = block(oracles.library, oracles.library_layer_norm)
    variants = tuple(map(block, INSIDE, NORMS))
    off = OFF
    cases = {"three_heads": {}, "one_head": {"heads": 1}}

    @classmethod
    def call(cls, d: Draw, heads: int = 3, seq: int = 5) -> Call:
        init = {"d_model": 4 * heads, "num_heads": heads}
        return Call({"x": d.normal(2, seq, 4 * heads)}, init, cls.params(d, init))


class TestMiniGPT(ModuleContract):
    name = "MiniGPT"
    holds = {"Model": KEPT, "Loss": ("test_loss",), "Training": ("test_train", "test_each_step", "test_steps")}
    oracle = model(oracles.library, oracles.library_layer_norm)
    variants = tuple(map(model, INSIDE, NORMS))
    off = OFF
    cases = {
        "one_block": {},
        "as_long_as_allowed": {"seq": 9},
        "three_blocks": {"layers": 3},
        "fewer_tokens_than_entries": {"vocab": 7},
    }

    @classmethod
    def call(
        cls, d: Draw, vocab: int = 17, layers: int = 1, seq: int = 5, dropout: float = 0.0, ids: Tensor | None = None
    ) -> Call:
        init = dict(zip(cls.signature.init, (vocab, 12, layers, 3, 9, dropout), strict=True))
        ids = d.integers(1, vocab, 2, seq) if ids is None else ids
        return Call({"ids": ids}, init, cls.params(d, init))

    @core
    def test_loss_is_the_mean_over_next_tokens_that_are_no_padding(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, ids=padded(draw))
        expected = self.right_loss(made)[0]
        with self.case_context(attempt, "padded", made):
            got = self.ask(attempt, "loss", self.ready(attempt, made), made.inputs["ids"])["value"]
            got = tensor(got, attempt.device).cpu().double()
            match(got, expected, 1e-4 * expected.abs(), "loss matches the definition", "")

    @core
    def test_train_gives_the_losses_before_each_step_without_dropout(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, dropout=0.5, ids=padded(draw))
        with self.case_context(attempt, "three steps of lr=0, dropout=0.5", made):
            losses, _ = self.trained(attempt, made, 3, 0.0)
            expected = self.right_loss(made)[0].expand(3)
            match(losses, expected, 1e-4 * expected, "train gives the loss before each step, without dropout", "step")

    @core
    def test_each_step_follows_the_gradient_of_its_own_loss_alone(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, ids=padded(draw))
        with self.case_context(attempt, "three steps of lr=0", made):
            found = self.trained(attempt, made, 3, 0.0)[1].describe()
            expected = self.right_loss(made)[1]
            for name, value in found["parameters"].items():
                match(value.cpu(), made.params[name], None, f"a learning rate of 0 keeps the weights: {name}", "out in")
            for name, got in found["gradients"].items():
                if got.any():
                    sentence = f"each step follows the gradient of its own loss alone: {name}"
                    allowed = 1e-3 * expected[name].abs() + 1e-5
                    match(got.cpu().double(), expected[name], allowed, sentence, "out in")

    @core
    def test_train_makes_the_loss_fall(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, ids=padded(draw))
        losses, _ = self.trained(attempt, made, 20, 0.01)
        if not losses.min() < losses[0]:
            fail("train makes the loss fall", f"{losses[0]:.4f} at first, and never below in 20 steps with lr=0.01")

    @core
    def test_steps_are_made_with_dropout_which_stays_on(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, dropout=0.5, ids=padded(draw))
        trained = [self.trained(attempt, made, 1, 0.01)[1] for _ in range(2)]
        first, second = (module.describe()["parameters"] for module in trained)
        if all(torch.equal(value, second[name]) for name, value in first.items()):
            fail("steps have dropout", "dropout=0.5, lr=0.01: a step from the same weights gave the same twice")
        first, second = (trained[0].request((made.inputs["ids"].to(attempt.device),), {})["value"] for _ in "ab")
        if torch.equal(first, second):
            fail("train ends in training mode", "dropout=0.5: two calls afterwards gave the same")

    def right_loss(self, made: Call) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss in float64, target by target, and its gradients."""
        params = {name: value.double().requires_grad_() for name, value in made.params.items()}
        ids = made.inputs["ids"]
        chances = type(self).oracle(made.init, params, ids=ids).log_softmax(-1)
        rows, length = ids.shape
        targets = [(row, at) for row in range(rows) for at in range(1, length) if ids[row, at] != 0]
        loss = -torch.stack([chances[row, at - 1, ids[row, at]] for row, at in targets]).mean()
        return loss.detach(), dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))

    def trained(self, attempt: Attempt, made: Call, steps: int, lr: float) -> tuple[Tensor, Module]:
        """The losses that `train` gives, and the model afterwards, which was in evaluation mode before."""
        module = self.ready(attempt, made).eval()
        losses = self.ask(attempt, "train", module, made.inputs["ids"], steps, lr)["value"]
        if not (isinstance(losses, list) and len(losses) == steps and all(isinstance(each, float) for each in losses)):
            fail("train gives a list of floats, one for each step", f"got {losses!r:.200} for {steps} steps")
        return torch.tensor(losses, dtype=torch.float64), module

    @staticmethod
    def ask(attempt: Attempt, name: str, module: Module, *args: Any) -> Any:
        """The worker's answer to a call of a function that takes the model first."""
        args = (module.target, *(a.to(attempt.device) if isinstance(a, Tensor) else a for a in args))
        return attempt.ask_of([module], {"do": "call", "target": name, "args": args, "kwargs": {}, "grad": True})


class Testtest(CandidateTest):
    planted = ("scale by d_model", "heads merged without transpose", "positions counted from 1", "zero_grad missing")
    but = ("no mask at all", "scale without the root")  # others of their kinds stand for them


def padded(d: Draw) -> Tensor:
    ids = d.integers(1, 17, 3, 9)
    ids[1, 6:], ids[2, 4:] = 0, 0
    return ids
