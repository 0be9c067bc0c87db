"""What the GPT of each stage must do. The oracle is that of `debug_lm`: whole sequences in float64, no cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dojo.content import catalog
from dojo.contracts import Attempt, Call, Draw, assert_raises, core, fail, fast, match, robust, tensor, too_much
from dojo.judge.protocol import Remote
from dojo.judge.proxy import Module
from dojo.verdict.failures import Fault

given = catalog.load(Path(__file__).parents[2] / "debug" / "debug_lm" / "contract.py")
VOCAB, CLASSES = 29, 5
APART = 1e-3  # by which the best logit beats the next one


def screened(d: Draw, ids: Tensor, layers: int = 2, d_model: int = 15, max_len: int = 16, dropout: float = 0.0) -> Call:
    """A call of a GPT, which never finds the ids 0 and `VOCAB - 1` the most probable."""
    init = dict(zip(TestMiniGPT.signature.init, (VOCAB, d_model, layers, 3, max_len, dropout), strict=True))
    params = TestMiniGPT.params(d, init)
    head = params["lm_head.weight"]
    head[0], head[-1] = head[1:3].mean(0), head[3:5].mean(0)  # a mean is never above both
    return Call({"ids": ids}, init, params)


class TestAttend(given.TestAttend):
    stage = 1
    holds = {"Kinds": ("test_values", "test_gradients")}


class TestBlock(given.TestBlock):
    stage = 1
    holds = {"Count": given.KEPT}


class TestMiniGPT(given.TestMiniGPT):
    stage = 1
    holds = {
        "Positions": given.KEPT,
        "Padding": ("test_loss",),
        "Loss": ("test_each_target",),
        "Training": ("test_train", "test_each_step", "test_steps"),
    }

    @core
    def test_each_target_weighs_the_same(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, ids=draw.integers(1, 17, 3, 9))
        expected = self.right_loss(made)[0]
        with self.case_context(attempt, "no padding", made):
            got = tensor(
                self.ask(attempt, "loss", self.ready(attempt, made), made.inputs["ids"])["value"], attempt.device
            )
            match(got.cpu().double(), expected, 1e-4 * expected.abs(), "loss matches the definition", "")


class TestCached(given.TestMiniGPT):
    stage = 2
    off = dict.fromkeys((name for name in dir(given.TestMiniGPT) if name.startswith("test_")), "stage 1 asks for it")
    holds = {
        "Chunks": ("test_one_token", "test_any_cut", "test_other_dtypes"),
        "Next positions": ("test_a_prompt",),
        "Mask": ("test_several",),
        "Room": ("test_more_than",),
        "Cost": ("test_a_call_on_one_token",),
        "Without cache": ("test_caches",),
    }

    def cut(
        self, attempt: Attempt, draw: Draw, steps: tuple[int, ...], dtype: torch.dtype = torch.float32, beside: int = 0
    ) -> None:
        """Calls of so many tokens give what one call gives; `beside` other rows go through another cache by turns."""
        made = screened(draw, draw.integers(1, VOCAB, 3, sum(steps))).cast(dtype)
        module, ids = self.ready(attempt, made, dtype).eval(), made.inputs["ids"].to(attempt.device)
        caches = [kept(module, rows) for rows in (3, beside) if rows]
        asked, start = [], 0
        for step in steps:
            asked.append((module, told(module, ids[:, start : start + step], caches[0])))
            start += step
            if beside:
                asked.append((module, told(module, ids[:beside, :2], caches[1]) if start < 8 else told(module, ids)))
        label = f"calls of {steps} tokens" + ", by turns with another cache and calls without" * bool(beside)
        try:
            answers = [tensor(each["value"], attempt.device) for each in attempt.ask_each(asked)]
            self.compare(attempt, draw, label, made, {"result": torch.cat(answers[:: 1 + bool(beside)], 1)}, dtype)
        except Fault as fault:
            if not fault.failure.inputs:
                fault.failure.inputs.append(f"case `{label}`: {made.describe(self.axes, 'cpu')}")
            fault.failing = None  # it is not that of one call
            raise

    @core
    def test_one_token_a_call_gives_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        self.cut(attempt, draw, (1,) * 16)

    @core
    def test_a_prompt_then_one_token_a_call_gives_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        self.cut(attempt, draw, (5, 1, 1, 1))

    @core
    def test_several_new_tokens_behind_others_give_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        self.cut(attempt, draw, (2, 5))

    @core
    def test_any_cut_gives_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        for steps in ((7,), (1, 4, 1, 3), (3, 2, 1, 6)):
            self.cut(attempt, draw, steps)

    @core
    def test_caches_and_calls_without_one_do_not_know_of_each_other(self, attempt: Attempt, draw: Draw) -> None:
        self.cut(attempt, draw, (2, 1, 3, 1), beside=2)

    @robust
    def test_other_dtypes_with_a_cache_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        """A cache in float32 stands beside queries in half precision: the first cached call raises, or rounds."""
        for dtype in (torch.float64, torch.bfloat16):
            self.cut(attempt, draw, (3, 1, 2), dtype)

    @robust
    def test_more_than_max_len_tokens_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """An index error from inside the GPU, or a cache that was half written and can no longer be used."""
        made = screened(draw, draw.integers(1, VOCAB, 2, 16))
        module, ids = self.ready(attempt, made).eval(), made.inputs["ids"].to(attempt.device)
        for start, new in ((16, 1), (13, 4), (0, 17)):
            cache, more = kept(module, 2), ids[:, :1].expand(-1, new)
            parts = [module.request((ids[:, :start], cache), {})["value"]] if start else []
            sentence = f"{start} tokens and {new} more are refused where max_len is 16"
            assert_raises(partial(module.request, (more, cache), {}), 16, (start + new, new), sentence=sentence)
            if start < 16:
                parts.append(module.request((ids[:, start:], cache), {})["value"])
                label = f"{16 - start} tokens after {start}, and after {new} were refused"
                self.compare(attempt, draw, label, made, {"result": torch.cat(parts, 1)})

    @fast
    def test_a_call_on_one_token_projects_one_token(self, attempt: Attempt, draw: Draw) -> None:
        made = screened(draw, draw.integers(1, VOCAB, 1, 401), d_model=24, max_len=500)
        module, ids, flops = self.ready(attempt, made).eval(), made.inputs["ids"].to(attempt.device), []
        for length in (40, 400):
            cache = kept(module, 1)
            module.request((ids[:, :length], cache), {})
            flops.append(attempt.observed([(module, (ids[:, length : length + 1], cache), {})], None)["flops"])
        projected, attended = per_token(made), per_token(made, 500) - per_token(made)  # a buffer may be read whole
        if flops[1] - flops[0] > 2 * attended or flops[0] > 2 * (projected + attended):
            seen = f"{flops[0]} FLOPs after 40 tokens, {flops[1]} after 400; {projected + attended} are enough"
            too_much("a call on one token projects one token", seen)


def kept(module: Module, rows: int) -> Remote:
    """A new cache of a GPT in the worker."""
    return module.stage(rows).go(method="new_cache")


def told(module: Module, *args: Any) -> dict[str, Any]:
    return {"do": "call", "target": module.target, "args": args, "kwargs": {}}


def per_token(made: Call, keys: int = 0) -> int:
    """The FLOPs of one token which sees so many keys."""
    d, layers = made.init["d_model"], made.init["num_layers"]
    return layers * (24 * d * d + 4 * d * keys) + 2 * d * VOCAB


GPT = TestMiniGPT()


def loaded(attempt: Attempt, made: Call, training: bool = False) -> Module:
    """A GPT in the worker, for which nothing waits."""
    module = GPT.ready(attempt, made).train(training)
    module.outline()
    return module


class Batch(NamedTuple):
    """A call of `generate`, and what each prompt gets alone."""

    made: Call
    prompts: list[list[int]]
    most: int
    stop: int
    rows: list[list[int]]

    @property
    def words(self) -> str:
        return f"generate(model, {self.prompts}, max_new_tokens={self.most}, stop_id={self.stop})"


@torch.no_grad()
def alone(made: Call, prompt: list[int], most: int) -> tuple[list[int], float]:
    """The ids that the whole text gives, anew for each, and the least by which one was the best."""
    text, params, least = [*prompt], {name: value.double() for name, value in made.params.items()}, 1.0
    for _ in range(most):
        best = TestMiniGPT.oracle(made.init, params, ids=torch.tensor([text]))[0, -1].topk(2)
        text.append(int(best.indices[0]))
        least = min(least, float(best.values[0] - best.values[1]))
    return text[len(prompt) :], least


def batches(
    d: Draw, count: int, lengths: tuple[int, ...], ends: int = 0, most: int = 6, **sizes: Any
) -> Iterator[Batch]:
    """Calls whose choices are clear. So many rows end early, at different places, and no others."""
    pick, last = d.random(), VOCAB - 1
    while count:
        fresh = Draw(pick.getrandbits(30))
        made = screened(fresh, fresh.integers(1, last, 1, 1), **sizes)
        prompts = [fresh.integers(1, last, length).tolist() for length in lengths]
        found = [alone(made, prompt, most) for prompt in prompts]
        for stop in {token for row, _ in found for token in row[: most - 1]} if ends else {last}:
            cut = [row[: row.index(stop) + 1] if stop in row else row for row, _ in found]
            early = [len(row) for row in cut if len(row) < most]
            late = all(stop not in row for row in cut if len(row) == most)
            if len(early) == len({*early}) == ends and late and min(least for _, least in found) > APART:
                yield Batch(made, prompts, most, stop, cut)
                count -= 1
                break


class TestGenerate:
    stage = 3
    holds = {
        "Padding side": ("test_short",),
        "Equality": ("test_each_prompt", "test_prompts_stay"),
        "Stop": ("test_a_row_ends", "test_a_stop_id", "test_no_call"),
        "Finished rows": ("test_rows_go_on",),
        "Cache use": ("test_each_token",),
        "Mode": ("test_the_model_runs", "test_the_mode"),
    }

    def agrees(self, attempt: Attempt, batch: Batch, training: bool = False, sentence: str = "") -> Module:
        """The rows are those that each prompt gets alone; gives the model."""
        module = loaded(attempt, batch.made, training)
        asked = {"do": "call", "target": "generate", "args": (module.target, *batch[1:4]), "kwargs": {}}
        got = attempt.ask_of([module], asked)["value"]
        if not (isinstance(got, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in got)):
            fail("the new ids are a list of lists", f"got {got!r:.200}", call=batch.words)
        if [*map(list, got)] != batch.rows:
            facts = f"got {got!r:.400}", f"expected {batch.rows}"
            fail(sentence or "each prompt gets the ids that it gets alone", *facts, call=batch.words)
        return module

    @core
    def test_each_prompt_gets_what_it_gets_alone(self, attempt: Attempt, draw: Draw) -> None:
        for batch in batches(draw, 2, (2, 5, 3)):
            self.agrees(attempt, batch)

    @core
    def test_short_prompts_stand_beside_a_long_one(self, attempt: Attempt, draw: Draw) -> None:
        for batch in batches(draw, 2, (1, 8, 1, 2)):
            self.agrees(attempt, batch)

    @core
    def test_a_row_ends_with_its_stop_id(self, attempt: Attempt, draw: Draw) -> None:
        for batch in batches(draw, 2, (4, 2), ends=2):
            self.agrees(attempt, batch, sentence="a row ends with its first stop id, which it keeps")

    @core
    def test_rows_go_on_while_others_have_ended(self, attempt: Attempt, draw: Draw) -> None:
        for batch in batches(draw, 2, (3, 1, 5), ends=1):
            self.agrees(attempt, batch, sentence="a row that has ended changes no other one")

    @core
    def test_the_mode_is_evaluation_and_then_what_it_was(self, attempt: Attempt, draw: Draw) -> None:
        (batch,) = batches(draw, 1, (2, 4), dropout=0.5)
        for training in (True, False):
            module = self.agrees(attempt, batch, training, "the model runs in evaluation mode")
            if module.read("training") is not training:
                was = "training" if training else "evaluation"
                fail("the model is in the mode that it was in", f"it was in {was} mode before", call=batch.words)

    @robust
    def test_the_model_runs_without_autograd(self, attempt: Attempt, draw: Draw) -> None:
        """The graph of each step is kept for a backward that never comes, and memory grows with every token."""
        (batch,) = batches(draw, 1, (2, 4))
        target = loaded(attempt, batch.made).target
        modes = attempt.generate.ask(do="overheard", target="generate", args=(target, *batch[1:4]), kwargs={})["modes"]
        if any(grad for _, grad in modes):
            fail("the model runs without autograd", "it is on when modules of the model are called", call=batch.words)

    @robust
    def test_prompts_stay_as_they_are(self, attempt: Attempt, draw: Draw) -> None:
        """Who sends the same prompts again finds the last answers, or padding, behind them."""
        (batch,) = batches(draw, 1, (2, 4, 1))
        target = loaded(attempt, batch.made).target
        left = attempt.generate.ask(do="left_of", target="generate", args=(target, *batch[1:4]))["value"][1]
        if left != batch.prompts:
            fail("prompts stay as they are", f"afterwards they are {left!r:.300}", call=batch.words)

    @robust
    def test_a_stop_id_in_a_prompt_ends_nothing(self, attempt: Attempt, draw: Draw) -> None:
        """A chat has the stop id behind each turn: who looks for it in the whole row answers only once."""
        last = VOCAB - 1
        for batch in batches(draw, 2, (3, 5, 1)):
            prompts = [[last, *batch.prompts[0]], *batch.prompts[1:], [4, last]]
            rows = [alone(batch.made, prompt, batch.most)[0] for prompt in prompts]
            if min(alone(batch.made, prompt, batch.most)[1] for prompt in prompts) > APART:
                self.agrees(
                    attempt, batch._replace(prompts=prompts, rows=rows), sentence="a stop id in a prompt ends nothing"
                )

    @fast
    def test_each_token_goes_through_the_model_once(self, attempt: Attempt, draw: Draw) -> None:
        (batch,) = batches(draw, 1, (20, 24), d_model=24, max_len=64)
        self.cost(attempt, batch, "each token goes through the model once", 30, 54)

    @fast
    def test_no_call_is_made_when_all_rows_have_ended(self, attempt: Attempt, draw: Draw) -> None:
        for batch in batches(draw, 50, (4, 2), 2, 7, d_model=24, max_len=64):
            endless = [alone(batch.made, prompt, 35)[0] for prompt in batch.prompts]
            if (batch.stop, batch.stop) not in zip(*endless, strict=True):  # who forgets one that has ended goes on
                break
        self.cost(attempt, batch, "when all rows have ended the model is not called again", 50, 11)

    def cost(self, attempt: Attempt, batch: Batch, sentence: str, most: int, places: int) -> None:
        """The FLOPs are those of so many places in each row."""
        args = (loaded(attempt, batch.made).target, batch.prompts, most, batch.stop)
        flops = attempt.observed([(attempt.generate, args, {})])["flops"]
        enough = len(batch.prompts) * places * per_token(batch.made, 64)
        if flops > 1.5 * enough:
            too_much(sentence, f"{flops} FLOPs, {enough} are enough")


class TestClassifier:
    stage = 4
    holds = {
        "Pooling": ("test_scores",),
        "Padded rows": ("test_more_padding",),
        "Causal mask": ("test_a_sentence",),
        "Weights": ("test_one_linear", "test_the_weights", "test_the_gpt"),
    }

    def made(self, draw: Draw, lengths: tuple[int, ...] = (9, 4, 1)) -> Call:
        ids = draw.integers(1, VOCAB, len(lengths), max(lengths))
        for row, length in enumerate(lengths):
            ids[row, length:] = 0
        made = screened(draw, ids)
        new = {"weight": draw.normal(CLASSES, made.init["d_model"]), "bias": draw.normal(CLASSES)}
        return made.with_params(**new)

    def built(self, attempt: Attempt, made: Call) -> tuple[Module, Module]:
        """A GPT and its classifier, whose new layer has the parameters of the call."""
        new = {name: made.params[name] for name in ("weight", "bias")}
        gpt = loaded(attempt, self.without(made))
        classifier = attempt.Classifier.build(gpt.target, CLASSES).to(attempt.device).eval()
        found, own = classifier.outline()["shapes"], {}
        for name, value in new.items():
            own[name] = [each for each, shape in found.items() if tuple(shape) == tuple(value.shape)]
            if len(own[name]) != 1:
                seen = f"{len(own[name])} parameters have the shape {tuple(value.shape)}: {', '.join(found)}"
                fail("new is one linear layer with bias", seen)
        classifier.names = {name: each[0] for name, each in own.items()}
        return gpt, classifier.load_state_dict({name: value.to(attempt.device) for name, value in new.items()})

    @staticmethod
    def without(made: Call) -> Call:
        return replace(made, params={name: value for name, value in made.params.items() if "." in name})

    def expected(self, made: Call) -> Tensor:
        """Row by row, without its padding."""
        params = {name: value.double() for name, value in made.params.items()}
        params["lm_head.weight"] = torch.eye(made.init["d_model"]).double()
        means = [
            TestMiniGPT.oracle(made.init, params, ids=row[row != 0][None])[0].mean(0) for row in made.inputs["ids"]
        ]
        return torch.stack(means) @ params["weight"].T + params["bias"]

    def agrees(
        self, attempt: Attempt, classifier: Module, made: Call, sentence: str, ids: Tensor | None = None
    ) -> None:
        ids = made.inputs["ids"] if ids is None else ids
        got = tensor(classifier.request((ids.to(attempt.device),), {})["value"], attempt.device).cpu()
        expected = self.expected(made)
        match(got.double(), expected, 1e-4 * (1 + expected.abs()), sentence, "batch num_classes")

    @core
    def test_scores_come_from_the_mean_over_real_tokens(self, attempt: Attempt, draw: Draw) -> None:
        made = self.made(draw, (7, 3, 5))
        self.agrees(attempt, self.built(attempt, made)[1], made, "scores come from the mean over real tokens")

    @core
    def test_a_sentence_without_padding_gets_the_mean_of_causal_states(self, attempt: Attempt, draw: Draw) -> None:
        made = self.made(draw, (6, 6))
        self.agrees(attempt, self.built(attempt, made)[1], made, "scores come from the mean of causal states")

    @core
    def test_more_padding_changes_nothing(self, attempt: Attempt, draw: Draw) -> None:
        made = self.made(draw)
        padded = torch.nn.functional.pad(made.inputs["ids"], (0, 5))
        self.agrees(attempt, self.built(attempt, made)[1], made, "more padding changes nothing", padded)

    @core
    def test_one_linear_layer_is_new(self, attempt: Attempt, draw: Draw) -> None:
        made = self.made(draw)
        found = sorted(map(tuple, self.built(attempt, made)[1].outline()["shapes"].values()))
        shapes = {name: tuple(value.shape) for name, value in made.params.items()}
        headless = [shape for name, shape in shapes.items() if name != "lm_head.weight"]
        if found not in (sorted(shapes.values()), sorted(headless)):
            seen = f"there are {len(found)} parameters, the GPT has {len(shapes) - 2}"
            fail("a classifier has the GPT's parameters and one linear layer with bias", seen)

    @core
    def test_the_weights_are_shared(self, attempt: Attempt, draw: Draw) -> None:
        made, other = self.made(draw), self.made(draw)
        gpt, classifier = self.built(attempt, made)
        gpt.load_state_dict(self.without(other).to(attempt.device).params)
        gpt.outline()
        both = made.with_params(**self.without(other).params)
        self.agrees(attempt, classifier, both, "the classifier follows the GPT's weights, which it shares")

    @core
    def test_the_weights_of_the_gpt_train_along(self, attempt: Attempt, draw: Draw) -> None:
        made = self.made(draw)
        classifier = self.built(attempt, made)[1]
        asked = {"do": "forward_backward", "target": classifier.target, "kwargs": {}}
        asked["args"] = (made.inputs["ids"].to(attempt.device),)
        gradients = attempt.ask_of([classifier], asked)["gradients"]
        idle = [name for name, grad in gradients.items() if grad is None or not grad.any()]
        if [name for name in idle if "lm_head" not in name]:
            fail("the GPT's weights train along", f"no gradient comes to {', '.join(idle)}")

    @core
    def test_the_gpt_still_gives_its_logits(self, attempt: Attempt, draw: Draw) -> None:
        made = self.made(draw, (5, 5))
        gpt, _ = self.built(attempt, made)
        plain = self.without(made)
        got = gpt.request((made.inputs["ids"].to(attempt.device),), {})["value"]
        GPT.compare(attempt, draw, "a GPT that has become part of a classifier", plain, {"result": got})
