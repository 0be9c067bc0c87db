"""What the trainer must do, stage by stage. The oracle takes one loss of all tokens, and AdamW by its formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import Attempt, Callee, Draw, core, fail, fast, match, robust, tensor, too_much

VOCAB, DIM = 13, 6
Script = list[list[Any]]
Values = dict[str, Tensor]
UNEVEN = ((9, 7, 3, 2), (2, 9, 8, 5), (9, 2, 2, 3), (4, 2, 9, 9))  # lengths of rows, by batch


def values(d: Draw, vocab: int = VOCAB, dim: int = DIM) -> Values:
    """What the driver's `NextToken` is made of; one has no gradients, one gets none."""
    found = {"embedding": d.normal(vocab, dim), "scale": d.uniform(dim, low=0.5, high=2.0)}
    found |= {"head": d.normal(vocab, dim), "bias": d.normal(vocab)}
    return found | {"frozen": d.normal(3, 2), "unused": d.normal(2, 3)}


def texts(d: Draw, *lengths: int) -> Tensor:
    """Rows of these lengths, padded with 0."""
    ids = d.integers(1, VOCAB, len(lengths), max(lengths))
    return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def mean_loss(params: Values, batch: Tensor) -> Tensor:
    """The mean of the losses of all targets that are no padding, one by one."""
    x = torch.tanh(params["embedding"] * params["scale"])
    chances = (x @ params["head"].T + params["bias"]).log_softmax(-1)
    pairs = [(row[at - 1], row[at]) for row in batch.tolist() for at in range(1, len(row)) if row[at]]
    return -torch.stack([chances[given, wanted] for given, wanted in pairs]).mean()


def right_rate(step: int, lr: float, warmup: int = 0, total: int | None = None, min_ratio: float = 0.1) -> float:
    if step < warmup:
        return lr / warmup * step
    if total is None:
        return lr
    low, angle = min_ratio * lr, math.pi * (min(step, total) - warmup) / (total - warmup)
    return low + (lr - low) * math.cos(angle / 2) ** 2


class Run:
    """Training by the formulas, in float64."""

    def __init__(self, made: Values, lr: float, clip: float | None = None, **schedule: Any) -> None:
        self.params = {name: value.double() for name, value in made.items()}
        self.clip, self.schedule, self.count = clip, {"lr": lr} | schedule, 0
        self.moments = {name: (torch.zeros_like(value),) * 2 for name, value in self.params.items()}
        self.loss, self.norm, self.rate, self.moved = 0.0, 0.0, 0.0, 0.0

    def step(self, batch: Tensor) -> Run:
        learnt = [name for name in self.params if name not in ("frozen", "unused")]
        leaves = [self.params[name].requires_grad_() for name in learnt]
        loss = mean_loss(self.params, batch)
        grads = dict(zip(learnt, torch.autograd.grad(loss, leaves), strict=True))
        self.loss, self.count = loss.item(), self.count + 1
        self.norm = torch.cat([grad.flatten() for grad in grads.values()]).norm().item()
        self.rate = right_rate(self.count, **self.schedule)
        self.moved += self.rate
        factor = 1.0 if self.clip is None else min(1.0, self.clip / self.norm)
        self.params = {name: value.detach() for name, value in self.params.items()}
        for name, grad in grads.items():
            first, second = self.moments[name]
            first, second = 0.9 * first + 0.1 * factor * grad, 0.95 * second + 0.05 * (factor * grad) ** 2
            self.moments[name], value = (first, second), self.params[name]
            kept = value * (1 - self.rate * 0.1) if value.dim() > 1 else value
            root = (second / (1 - 0.95**self.count)).sqrt() + 1e-8
            self.params[name] = kept - self.rate * first / (1 - 0.9**self.count) / root
        return self


def asked(script: Script, device: str) -> dict[str, Any]:
    """The request of a script, its tensors on this device."""

    def there(given: Any) -> Any:
        if isinstance(given, dict):
            return {name: there(value) for name, value in given.items()}
        return given.to(device) if isinstance(given, Tensor) else given

    return {"do": "trained", "target": "Trainer", "script": [[there(each) for each in line] for line in script]}


def trained(attempt: Attempt, script: Script, device: str = "") -> list[Any]:
    """What the steps and readings of a script give."""
    found: list[Any] = attempt.Trainer.ask(**asked(script, device or attempt.device))["value"]
    return found


def number(what: str, got: Any) -> float:
    if type(got) is not float:
        fail(f"{what} is a float", f"got {got!r:.80}")
    return float(got)


def near(sentence: str, what: str, got: Any, expected: float, told: str, within: float = 1e-4) -> None:
    if not abs(number(what, got) - expected) <= within * abs(expected):
        fail(sentence, f"got {got:.6g}, expected {expected:.6g}", call=told)


def follows(sentence: str, got: dict[str, Any], right: Run, told: str) -> None:
    """Hold the loss of a step, and the parameters after it, against the formulas."""
    near(f"{sentence}: the loss", "a loss", got["loss"], right.loss, told)
    for name, expected in right.params.items():
        allowed = (1e-2 * right.moved if name not in ("frozen", "unused") else 0.0) + 1e-6 * expected.abs()
        axes = "out in" if expected.dim() > 1 else "entry"
        match(got["values"][name].cpu().double(), expected, allowed, f"{sentence}: {name}, {told}", axes)


def follow(
    attempt: Attempt, d: Draw, sentence: str, batches: Sequence[Tensor], pieces: Sequence[int] = (), **settings: Any
) -> None:
    """Train on these batches, each in so many pieces, and hold every step against the formulas."""
    made, words = values(d), ", ".join(f"{name}={value}" for name, value in settings.items())
    more = [{"microbatches": count} for count in pieces] or [{} for _ in batches]
    steps = [["step", batch, each, ""] for batch, each in zip(batches, more, strict=True)]
    found, right = trained(attempt, [["make", made, settings, 0.0], *steps]), Run(made, **settings)
    for count, (batch, each, got) in enumerate(zip(batches, more, found, strict=True), 1):
        targets = [int((row[1:] != 0).sum()) for row in batch]
        told = f"step {count} of Trainer(model, {words}), rows of {targets} targets"
        follows(sentence, got, right.step(batch), told + (f", {each}" if each else ""))


class TestTrainer:
    stage = 1
    holds = {
        "Loss": ("test_a_step_gives",),
        "Optimizer": ("test_weights",),
        "Mode": ("test_each_step_has",),
    }

    @core
    def test_a_step_gives_the_mean_loss_before_it(self, attempt: Attempt, draw: Draw) -> None:
        made, batch = values(draw), texts(draw, 9, 3, 2)
        (got,) = trained(attempt, [["make", made, {"lr": 0.05}, 0.0], ["step", batch, {}, ""]])
        right = mean_loss({name: value.double() for name, value in made.items()}, batch).item()
        near("a step gives the mean loss before it", "a loss", got["loss"], right, "rows of 8, 2 and 1 targets")

    @core
    def test_weights_follow_adamw(self, attempt: Attempt, draw: Draw) -> None:
        batches = [texts(draw, *lengths) for lengths in UNEVEN]
        follow(attempt, draw, "weights follow AdamW", batches, lr=0.2)

    @core
    def test_each_step_has_dropout(self, attempt: Attempt, draw: Draw) -> None:
        made, batch = values(draw), texts(draw, 9, 7, 3)
        for told, before in ("after model.eval()", [["eval"]]), ("before it", []):
            script = [["make", made, {"lr": 0.05}, 0.5], *before, ["step", batch, {}, ""]]
            first, second = trained(attempt, [["seed", 1], *script, ["seed", 2], *script])
            if first["loss"] == second["loss"]:
                fail("each step has dropout", f"twice the same step gave {first['loss']!r:.40}, {told}")


class TestMicrobatches:
    stage = 2
    holds = {"Same step": ("test_however",), "Memory": ("test_one_graph",), "Waits": ("test_the_cpu",)}

    @core
    def test_however_it_is_cut_it_is_the_step_of_the_whole_batch(self, attempt: Attempt, draw: Draw) -> None:
        batches = [texts(draw, *lengths) for lengths in UNEVEN]
        follow(attempt, draw, "microbatches make the step of the whole batch", batches, (4, 2, 4, 3), lr=0.1)

    @core
    def test_one_graph_at_a_time_is_in_memory(self, attempt: Attempt, draw: Draw) -> None:
        made, batch = values(draw, 64), texts(draw, *[200] * 16)

        def peak(pieces: int) -> int:
            script = [["make", made, {"lr": 0.1}, 0.0], ["step", batch, {"microbatches": pieces}, ""]]
            request = {"do": "observe", "inner": [asked(script, attempt.device)], "watched": None}
            return int(attempt.Trainer.ask(**request)["readings"]["peak"])

        whole, cut = peak(1), peak(8)
        if cut > whole / 4:
            seen = f"{cut} bytes at most with 8 microbatches, {whole} with one"
            fail("one microbatch's graph is in memory at a time", seen)

    @fast
    def test_the_cpu_waits_no_more_often(self, attempt: Attempt, draw: Draw) -> None:
        made, batch = values(draw), texts(draw, *[5] * 8)

        def waits(pieces: int) -> int:
            script = [["make", made, {"lr": 0.1}, 0.0], ["step", batch, {"microbatches": pieces}, ""]]
            request = {"do": "observe", "inner": [asked(script, attempt.device)], "watched": None}
            return int(attempt.Trainer.ask(**request)["readings"]["operations"].get("_local_scalar_dense", 0))

        few, many = waits(2), waits(8)
        if many > few:
            seen = f"{few} times with 2 microbatches, {many} with 8"
            too_much("the CPU waits for the device no more often with more microbatches", seen)


class TestSchedule:
    stage = 3
    holds = {
        "Norm": ("test_last_norm",),
        "Clipping": ("test_the_whole",),
        "Warmup": ("test_the_rate_rises",),
        "Cosine": ("test_the_rate_falls",),
        "Non-finite": ("test_a_step_without",),
    }

    @core
    def test_last_norm_is_that_of_the_whole_gradient_before_clipping(self, attempt: Attempt, draw: Draw) -> None:
        made, batch = values(draw), texts(draw, 9, 3, 2)
        right = Run(made, 0.05).step(batch).norm
        for clip in (None, 10 * right, right / 10):
            script = [["make", made, {"lr": 0.05, "clip": clip}, 0.0], ["step", batch, {}, ""], ["read", "last_norm"]]
            got, told = trained(attempt, script)[1], f"clip={clip}"
            near("last_norm is the norm before clipping", "last_norm", got, right, told)

    @core
    def test_the_whole_gradient_is_clipped_by_its_norm(self, attempt: Attempt, draw: Draw) -> None:
        batches = [texts(draw, *lengths) for lengths in UNEVEN]
        sentence = "the whole gradient is clipped by its norm"
        follow(attempt, draw, sentence, batches, (2, 4, 1, 2), lr=0.1, clip=0.05)
        follow(attempt, draw, "what is below clip stays as it is", batches, lr=0.1, clip=1000.0)

    @core
    def test_the_rate_rises_to_the_end_of_the_warmup(self, attempt: Attempt, draw: Draw) -> None:
        batches = [texts(draw, *UNEVEN[step % 4]) for step in range(5)]
        follow(attempt, draw, "the rate rises to the end of the warmup", batches, lr=0.1, warmup=3)

    @core
    def test_the_rate_falls_to_min_ratio_at_total(self, attempt: Attempt, draw: Draw) -> None:
        for settings in ({"warmup": 2, "total": 6, "min_ratio": 0.3}, {"total": 5}, {"warmup": 1, "total": 4}):
            made, batches = values(draw), [texts(draw, *UNEVEN[step % 4]) for step in range(8)]
            given = {"lr": 0.1, **settings}
            found = trained(attempt, [["make", made, given, 0.0], *(["step", batch, {}, ""] for batch in batches)])
            right = Run(made, **given)
            for step, (batch, got) in enumerate(zip(batches, found, strict=True), 1):
                told = f"step {step} of Trainer(model, {', '.join(f'{k}={v}' for k, v in given.items())})"
                before = right.params["bias"]
                right.step(batch)
                follows("the rate falls along a cosine to min_ratio at total", got, right, told)
                moved = (right.params["bias"] - before).norm().item()
                last = found[step - 2]["values"]["bias"] if step > 1 else made["bias"]
                mine = (got["values"]["bias"].cpu() - last.cpu()).norm().item()
                if not abs(mine / moved - 1) < 0.02:
                    rates = f"the rate is {right.rate * mine / moved:.4g}, expected {right.rate:.4g}"
                    fail("the rate falls along a cosine to min_ratio at total", rates, call=told)

    @core
    def test_a_step_without_a_finite_norm_is_skipped_and_counted(self, attempt: Attempt, draw: Draw) -> None:
        for fault in ("gradient", "loss"):
            made, settings = values(draw), {"lr": 0.1, "clip": 1.0, "warmup": 1, "total": 2}
            batches = [texts(draw, *lengths) for lengths in UNEVEN]
            script: Script = [["make", made, settings, 0.0], ["read", "skipped"]]
            for batch, bad in zip(batches, ("", "", fault, ""), strict=True):
                script.append(["step", batch, {"microbatches": 2}, bad])
            first, _, two, bad, last, skipped = trained(attempt, [*script, ["read", "skipped"]])
            told = f"the first microbatch of step 3 has a {fault} that is not finite"
            for name, value in bad["values"].items():
                match(value.cpu(), two["values"][name].cpu(), None, f"a skipped step leaves {name} alone: {told}", "")
            right = Run(made, **settings).step(batches[0])
            right.step(batches[1]).step(batches[3])
            follows("the step after a skipped one goes on from the moments before it", last, right, told)
            if (first, skipped) != (0, 1) or type(skipped) is not int:
                fail("`skipped` counts", f"{first!r:.40} at first, {skipped!r:.40} after one skipped step", call=told)


class TestResume:
    stage = 4
    holds = {
        "Resumption": ("test_a_new_trainer", "test_the_count"),
        "Random state": ("test_dropout",),
        "Snapshot": ("test_a_state",),
        "File": ("test_it_comes",),
    }
    settings = {"lr": 0.1, "clip": 0.5, "warmup": 5, "total": 12}

    @core
    def test_a_new_trainer_goes_on_bit_for_bit(self, attempt: Attempt, draw: Draw) -> None:
        self.resumes(attempt, draw, "a new trainer goes on bit for bit", [["save"]], [["load"]])

    @core
    def test_dropout_goes_on_with_the_same_random_numbers(self, attempt: Attempt, draw: Draw) -> None:
        self.resumes(attempt, draw, "dropout goes on with the same random numbers", [["save"]], [["load"]], 0.5)

    @core
    def test_a_state_stays_as_it_is(self, attempt: Attempt, draw: Draw) -> None:
        other = [["step", texts(draw, 5, 9), {}, ""] for _ in range(2)]
        again = [["load"], *other, ["make", values(draw)], ["load"]]
        sentence = "a state is left alone by the trainer that gave it, and by one that loaded it"
        self.resumes(attempt, draw, sentence, [["save"]], again, skip=2)

    @robust
    def test_it_comes_back_from_a_file(self, attempt: Attempt, draw: Draw) -> None:
        """After a crash nothing but the file is left, and `torch.load` refuses what is not plain data."""
        self.resumes(attempt, draw, "a state comes back from a file", [["save"], ["file"]], [["load"]])

    @robust
    def test_the_count_of_skipped_steps_goes_on(self, attempt: Attempt, draw: Draw) -> None:
        """A run that skips a step an hour looks healthy, because it also crashes."""
        made, batch = values(draw), texts(draw, 5, 9)
        script = [["make", made, self.settings, 0.0], ["step", batch, {}, "gradient"], ["save"]]
        script += [["make", made, self.settings, 0.0], ["load"], ["step", batch, {}, "loss"], ["read", "skipped"]]
        got = trained(attempt, script)[-1]
        if got != 2:
            fail("`skipped` goes on after loading", f"got {got!r:.40}, one before and one after it")

    def resumes(
        self, attempt: Attempt, d: Draw, sentence: str, save: Script, load: Script, dropout: float = 0.0, skip: int = 0
    ) -> None:
        """Two steps, a state, three steps; then a new trainer of another model loads it and takes these three.

        On the CPU, whose generator is meant, and which adds in the same order each time.
        """
        made, batches = values(d), [texts(d, *UNEVEN[step % 4]) for step in range(5)]
        steps: Script = [["step", batch, {"microbatches": 2}, ""] for batch in batches]
        for more in ({}, {"warmup": 0, "total": None}):
            settings = self.settings | more
            script = [["seed", 1], ["make", made], *steps[:2], *save, *steps[2:]]
            script += [["seed", 2], ["make", values(d)], *load, *steps[2:]]
            script = [[*line, settings, dropout] if line[0] == "make" else line for line in script]
            found = trained(attempt, script, "cpu")
            for count, (one, other) in enumerate(zip(found[2:5], found[5 + skip :], strict=True), 3):
                told = f"step {count}, resumed after step 2, " + ", ".join(f"{k}={v}" for k, v in settings.items())
                if one["loss"] != other["loss"]:
                    fail(f"{sentence}: the loss", f"got {other['loss']!r:.40}, expected {one['loss']!r:.40}", call=told)
                for name, value in one["values"].items():
                    axes = "out in" if value.dim() > 1 else "entry"
                    match(other["values"][name].cpu(), value.cpu(), None, f"{sentence}: {name}, {told}", axes)


class TestLoader:
    stage = 5
    holds = {"Batches": ("test_every_batch",), "Epochs": ("test_a_window", "test_epochs")}

    @staticmethod
    def windows(attempt: Attempt, count: int, rows: int, batches: int, seed: int = 3) -> list[list[int]]:
        """The numbers of the windows in so many batches, of a text in which each window tells its number."""
        ids = torch.arange(1, count * 5 + 3).to(attempt.device)
        loader = Callee(attempt, attempt.Loader.keep(ids, rows, 5, seed))
        request = {"do": "call", "target": loader.target, "method": "__next__", "args": (), "kwargs": {}}
        answers = attempt.ask_each([(loader, dict(request)) for _ in range(batches)])
        found = []
        for answer in answers:
            batch = tensor(answer["value"], attempt.device).cpu()
            if batch.dim() != 2 or batch.shape[1] != 5 or bool((batch != batch[:, :1] + torch.arange(5)).any()):
                fail("a batch holds windows of the text", f"got the shape {tuple(batch.shape)}")
            found.append(((batch[:, 0] - 1) // 5).tolist())
        return found

    @core
    def test_every_batch_has_all_rows(self, attempt: Attempt, draw: Draw) -> None:
        for count, rows in ((11, 4), (13, 3), (12, 4)):
            sizes = [len(batch) for batch in self.windows(attempt, count, rows, 12)]
            if {*sizes} != {rows}:
                fail("every batch has `rows` windows", f"got {sizes}", call=f"{count} windows, rows={rows}")

    @core
    def test_a_window_comes_once_an_epoch(self, attempt: Attempt, draw: Draw) -> None:
        for count, rows in ((31, 4), (29, 3), (24, 4)):
            stream = [each for batch in self.windows(attempt, count, rows, 3 * count) for each in batch]
            ends = (count // rows * rows, count)  # where what is left over is dropped, and where it is carried over
            epochs = {end: [stream[at : at + end] for at in range(0, 3 * end, end)] for end in ends}
            if not any(all(len({*epoch}) == end for epoch in found) for end, found in epochs.items()):
                seen = f"epochs of {count} windows in batches of {rows} begin with {stream[: count + 9]}"
                fail("no window comes twice in an epoch, whether what is left over is dropped or carried over", seen)

    @core
    def test_epochs_have_orders_of_their_own(self, attempt: Attempt, draw: Draw) -> None:
        one, again = (self.windows(attempt, 24, 4, 12) for _ in range(2))
        if one[:6] == one[6:]:
            fail("each epoch has an order of its own", f"the first two are {one[:6]}")
        if one != again:
            fail("the same seed gives the same orders", "two loaders with seed 3 differ")
        if one == self.windows(attempt, 24, 4, 12, seed=4):
            fail("another seed gives other orders", "loaders with the seeds 3 and 4 are alike")


class Testdiagnose:
    stage = 5
    holds = {"Log": ("test_it_names",)}

    @core
    def test_it_names_the_cause_that_explains_every_column(self, attempt: Attempt, draw: Draw) -> None:
        got = attempt.diagnose()
        if got != "short_batch":
            fail("diagnose names the cause that explains every column of the log", f"got {got!r:.40}")
