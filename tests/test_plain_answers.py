"""What is said of plain answers: numbers, text and nested lists, and the simplest call that fails."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dojo.content.signature import signature_of
from dojo.contracts.checks.inputs import Draw
from dojo.contracts.checks.timing import race
from dojo.contracts.plain import programs, texts
from dojo.contracts.plain.shrinking import TRIES, shorter, smallest
from dojo.judge.fork_server import ForkServer
from dojo.judge.proxy import Attempt
from dojo.judge.worker import drivers
from dojo.verdict.mismatch.plain import first_difference, sections, within

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(PLAIN)
def test_an_answer_does_not_differ_from_itself(value: Any) -> None:
    assert first_difference(value, value) is None


@given(PLAIN, PLAIN)
def test_what_differs_is_told_in_words(got: Any, expected: Any) -> None:
    if difference := first_difference(got, expected):
        assert all(section.text for section in sections(got, expected, difference))


@pytest.mark.parametrize(
    ("got", "expected"),
    [(2, 2.0), ([1, 2], (1, 2)), ((1, [2]), [1, (2.0,)]), ({"a": 1.0}, {"a": 1.0}), (float("nan"), float("nan"))],
)
def test_what_is_as_good(got: Any, expected: Any) -> None:
    assert first_difference(got, expected) is None


@pytest.mark.parametrize(
    ("got", "expected", "told"),
    [
        (2.0, 2, "got the float 2.0, expected the int 2"),
        (True, 1, "got True, expected 1"),
        (1, True, "got 1, expected True"),
        ("1", 1, "got '1', expected 1"),
        ([1, 2], [1, 3, 4], "[1]: got 2, expected 3\nthe result: 2 long, expected 3"),
        ([1], [1, 3], "[1]: got nothing, expected 3\nthe result: 1 long, expected 2"),
        ([(97, 98), (256, 97)], [(97, 98), (97, 98)], "[1][0]: got 256, expected 97"),
        ({"a": 1, "b": 2}, {"a": 1}, "['b']: got 2, expected nothing"),
        (None, [1], "got None, expected [1]"),
    ],
)
def test_the_first_place_that_differs(got: Any, expected: Any, told: str) -> None:
    difference = first_difference(got, expected)
    assert difference is not None
    assert sections(got, expected, difference)[0].text == told


def test_floats_may_be_off_by_what_is_granted() -> None:
    assert first_difference([1.0 + 1e-7, float("inf")], [1.0, float("inf")], within(1e-6, 0.0)) is None
    assert first_difference([1.0 + 1e-5], [1.0], within(1e-6, 0.0)) is not None
    assert first_difference([float("-inf")], [float("inf")], within(1e-6, 1.0)) is not None


def test_neighbours_stand_side_by_side() -> None:
    got, expected = [(97, 98), (256, 97), (1, 2)], [(97, 98), (97, 97), (1, 2)]
    difference = first_difference(got, expected)
    assert difference is not None
    table = sections(got, expected, difference)[-1].text.splitlines()
    assert [line[0] for line in table] == [" ", " ", "→", " "]
    assert "(256, 97)" in table[2]
    assert "(97, 97)" in table[2]


def test_text_is_shown_from_where_it_differs() -> None:
    difference = first_difference("a" * 50 + "é" + "b" * 50, "a" * 50 + "e" + "b" * 50)
    assert difference is not None
    said = sections("", "", difference)[-1].text
    assert "é" in said
    assert "from character 30" in said


def test_the_simplest_text_that_fails_is_found() -> None:
    tried = []

    def fails(text: str) -> bool:
        tried.append(text)
        return text.count("a") >= 2

    assert smallest("xxaxxxxayya", fails, shorter) == "aa"
    assert len(tried) <= TRIES


@given(st.lists(st.integers(), max_size=9))
def test_what_is_shorter_lacks_a_part(entries: list[int]) -> None:
    found = list(shorter(entries))
    assert all(len(each) < len(entries) for each in found)
    assert not entries or entries[1:] in found


@pytest.mark.parametrize(
    ("seconds", "reference", "slower", "pairs"), [(0.5, 0.5, False, 1), (0.9, 0.05, True, 3), (9.0, 0.5, True, 1)]
)
def test_long_calls_are_not_repeated_where_they_say_enough(
    seconds: float, reference: float, slower: bool, pairs: int
) -> None:
    result = race(lambda: (seconds, seconds), lambda: (reference, reference), 8.0, random.Random(1))
    assert (result.slower, result.pairs) == (slower, pairs)


MODEL = [torch.randn(5, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 3)]
MODEL[1], MODEL[2] = torch.randn(4, 4, generator=torch.Generator().manual_seed(2)), MODEL[2].mT


def test_a_step_scores_a_prefix_as_it_does_alone() -> None:
    seen = []

    def search(step: Any, rows: list[list[int]]) -> list[list[float]]:
        seen.append(step(torch.tensor(rows)))
        return seen[0].tolist()

    rows = [[1, 2, 3], [3, 2, 1], [1, 2, 3]]
    told = drivers.scored(search, MODEL, [rows], {})
    assert told["calls"] == [(3, 3)]
    for row, scores in zip(rows, told["value"], strict=True):
        assert torch.equal(torch.tensor(scores, dtype=torch.float64), drivers.next_token_logprobs(MODEL, row))
    assert seen[0].exp().sum(-1).allclose(torch.ones(3, dtype=torch.float64))


def test_a_step_that_leaves_no_token_gives_minus_infinity_and_no_nan() -> None:
    ones, banned = torch.ones(5, 4), torch.tensor([0.0, 0, -1e9, 0, -1e9])
    model = [40 * ones, torch.zeros(4, 4), banned.expand(4, 5)]
    assert drivers.next_token_logprobs(model, [1]).exp().tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3, 0])
    assert drivers.next_token_logprobs([*model[:2], -1e9 * ones.mT], [1]).tolist() == [-torch.inf] * 5


def test_a_search_that_changes_global_state_is_seen(server: ForkServer) -> None:
    source = "import torch\ndef search(step, seed):\n    torch.manual_seed(seed) if seed else None\n    return []\n"
    attempt = Attempt(server, source, "attempt.py")
    asked = {"do": "scored", "target": "search", "model": MODEL, "settings": {}, "watch": True}
    told = [attempt.search.ask(**asked, args=[seed])["changed"] for seed in (0, 3)]
    attempt.close()
    assert told == [[], ["the seed of torch's random generator", "torch's random generator"]]


@pytest.mark.parametrize("prefixes", [[[1, 2]], torch.tensor([1, 2]), torch.tensor([[1.0]])])
def test_a_step_takes_rows_of_ids_alone(prefixes: Any) -> None:
    with pytest.raises(TypeError, match=r"int64 tensor \(rows, length\)"):
        drivers.scored(lambda step: step(prefixes), MODEL, [], {})


SMALL = [MODEL[0], MODEL[1], MODEL[2], torch.tensor([0.0, 0, -torch.inf, 0, 0])]


def test_a_small_model_is_causal_and_says_of_each_place_what_follows_it() -> None:
    ids = torch.tensor([[1, 2, 3], [3, 2, 1]])
    model = drivers.SmallModel(SMALL, torch.float64)
    whole = model(ids)
    assert torch.equal(whole[:, :2], model(ids[:, :2]))
    assert bool((whole[..., 2] == -torch.inf).all())
    kept = SMALL[3] == 0
    for row, logits in zip(ids.tolist(), whole, strict=True):
        alone = drivers.next_token_logprobs(MODEL, row)
        assert torch.allclose(logits[-1][kept].log_softmax(-1), alone[kept].log_softmax(-1))


def test_what_is_called_with_small_models_leaves_their_calls_behind() -> None:
    def decode(model: Any, draft: Any, ids: torch.Tensor, most: int) -> torch.Tensor:
        model(ids)
        with torch.no_grad():
            ids += 1
            return draft(ids[:, :1])[:, -1]

    with torch.enable_grad():
        told = drivers.modelled(decode, [SMALL, SMALL], [torch.tensor([[1, 2]])], {"most": 3}, torch.bfloat16)
    assert told["value"].dtype is torch.bfloat16
    assert told["calls"] == [[{"shape": [1, 2], "grad": True}], [{"shape": [1, 1], "grad": False}]]
    assert told["given"][0].tolist() == [[2, 3]]
    assert told["given"][1] == 3
    with pytest.raises(TypeError, match=r"ids: the model takes a torch\.int64 tensor of two dimensions"):
        drivers.SmallModel(SMALL)(torch.tensor([1, 2]))


WEIGHTS = [Draw(1).normal(*shape) for shape in ((7, 4), (9, 4), (3, 4, 4), (4, 7))]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_model_with_a_cache_gives_what_the_whole_text_gives(in_place: bool) -> None:
    ids, positions, mask = torch.tensor([[3, 1, 4, 1, 5]]), torch.arange(5)[None], torch.ones(1, 5, dtype=torch.bool)
    whole, _ = drivers.CausalModel(WEIGHTS)(ids, positions, mask)
    padded = torch.tensor([[6, 6, 3, 1, 4, 1, 5]])

    def decode(model: Any, start: int) -> list[torch.Tensor]:
        seen, places = padded != 6, torch.tensor([[0, 0, 0, 1, 2, 3, 4]])
        first, cache = model(padded[:, :start], places[:, :start], seen[:, :start], None)
        second, after = model(padded[:, start:], places[:, start:], seen, cache)
        assert (after is cache) == in_place
        return torch.cat([first, second], 1)[:, 2:]

    for start in (3, 6):
        told = drivers.decoded(decode, WEIGHTS, [start], {}, in_place)
        assert torch.allclose(told["value"], whole, rtol=0, atol=1e-12)
        assert [len(call["mask"][0]) for call in told["calls"]] == [start, 7]
        assert [call["grad"] for call in told["calls"]] == [True, True]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"ids": [[1, 2]]}, "ids: the model takes a torch.int64 tensor of two dimensions, not a list"),
        ({"positions": torch.zeros(1, 1, dtype=torch.int64)}, r"positions: .* the shape \(1, 2\) here, not \(1, 1\)"),
        ({"mask": torch.ones(1, 2)}, "mask: the model takes a torch.bool tensor of two dimensions, not torch.float32"),
        ({"mask": torch.ones(1, 3, dtype=torch.bool)}, r"mask: the model takes the shape \(1, 2\) here, not \(1, 3\)"),
        ({"positions": torch.tensor([[0, 9]])}, r"positions are in \[0, 9\), not \[\[0, 9\]\]"),
        ({"positions": torch.tensor([[-1, 0]])}, r"positions are in \[0, 9\), not \[\[-1, 0\]\]"),
        ({"cache": 3}, "the cache is None at first, then as the model returned it, not a int"),
    ],
)
def test_a_model_refuses_what_does_not_fit(change: dict[str, Any], told: str) -> None:
    ids = torch.tensor([[1, 2]])
    fits = {"ids": ids, "positions": ids, "mask": torch.ones(1, 2, dtype=torch.bool)}
    with pytest.raises((TypeError, ValueError, IndexError), match=told):
        drivers.CausalModel(WEIGHTS)(**fits | change)


BLOCKS = [[torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]]
BESIDE = {"inputs": [torch.ones(3, 4), 0.5], "takes": [0], "blocks": BLOCKS, "cotangent": torch.ones(3, 4), "p": 0.3}


@pytest.mark.parametrize("nested", [False, True])
def test_what_is_checkpointed_is_told_from_what_is_not(nested: bool) -> None:
    def theirs(function: Any, *given: Any) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(function, *given, use_reentrant=False)

    state = torch.get_rng_state()
    plain = drivers.checkpointed(lambda function, *given: function(*given), **BESIDE, nested=nested)
    again = drivers.checkpointed(theirs, **BESIDE, nested=nested)
    assert torch.equal(torch.get_rng_state(), state)
    assert (plain["runs"], again["runs"]) == ([[1, 1]], [[1, 2]])
    assert again["held"] < plain["held"]
    assert torch.equal(plain["drawn"], again["drawn"])
    assert torch.equal(plain["value"], again["value"])
    assert all(map(torch.equal, plain["gradients"], again["gradients"]))
    assert not drivers.checkpointed(theirs, **BESIDE, grad=False)["graph"]


def test_modes_of_modules_are_overheard() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    module[0].eval()
    with torch.no_grad():
        assert drivers.overheard(module, (torch.ones(2),), {})["modes"] == [(False, True), (True, True)]
    assert drivers.overheard(torch.no_grad()(module[0]), (torch.ones(2),), {})["modes"] == [(False, False)]
    module(torch.ones(2))  # nobody listens any more


class Halved:
    """A scaler that a driver trains under."""

    def __init__(self, scale: float) -> None:
        self.now = scale

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self.now

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    def update(self) -> None:
        self.now /= 2

    def get_scale(self) -> float:
        return self.now


def test_training_under_a_scaler_tells_values_gradients_and_the_scale() -> None:
    first = {"losses": [[torch.tensor([3.0, 4.0]), None]], "words": ["backward", "clip", "step", "update"]}
    second = {"losses": [[torch.tensor([0.0, 70_000.0]), None]], "words": ["train_step", "update"]}
    told = drivers.scaled(
        lambda loss, optimizer, scaler, max_norm: scaler.scale(loss).backward(),
        Halved(1.0), "SGD", [torch.ones(2), torch.ones(3)], [{"params": [0, 1]}], {"lr": 0.5}, [first, second], 2.5,
    )  # fmt: skip
    assert told["scales"] == [0.5, 0.25]
    assert told["values"][0][0].tolist() == pytest.approx([0.25, 0.0], abs=1e-6)
    assert told["grads"][0][0].tolist() == pytest.approx([1.5, 2.0])
    assert told["grads"][0][1] is None
    assert told["grads"][1][0].tolist() == [0.0, 35_008.0]  # as float16 rounds it
    assert torch.equal(told["values"][1][0], told["values"][0][0])


def test_what_a_worker_keeps_may_be_handed_to_a_driver(server: ForkServer) -> None:
    source = "class Scaler:\n    scale = lambda self, x: x * 2\n    get_scale = lambda self: 2.0\n    step = print\n"
    attempt = Attempt(server, source + "def train_step(loss, *more): loss.backward()\n", "attempt.py")
    step = {"losses": [[torch.ones(1)]], "words": ["train_step"]}
    asked = {"do": "scaled", "target": "train_step", "scaler": attempt.Scaler.keep(), "values": [torch.ones(1)]}
    asked |= {"optimiser": "AdamW", "groups": [{"params": [0]}], "settings": {}, "steps": [step]}
    told = attempt.train_step.ask(**asked)
    attempt.close()
    assert (told["scales"], told["grads"][0][0].tolist()) == ([2.0], [1.0])


class Kept:
    """A number that hands what is done with it to a tensor of its own."""

    def __init__(self, value: Any) -> None:
        self.inner = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)
        self.inner = self.inner if self.inner.requires_grad else self.inner.requires_grad_()
        self.inner.retain_grad()

    data = property(lambda self: self.inner.item())
    grad = property(lambda self: 0 if self.inner.grad is None else self.inner.grad.item())

    def backward(self) -> None:
        self.inner.backward(retain_graph=True)

    def __neg__(self) -> Kept:
        return Kept(-self.inner)

    def __getattr__(self, name: str) -> Any:
        return lambda: Kept(getattr(self.inner, name)())


def _operator(name: str) -> Any:
    return lambda self, other: Kept(getattr(self.inner, name)(other.inner if isinstance(other, Kept) else other))


for _each in "add sub mul truediv pow radd rsub rmul rtruediv".split():
    setattr(Kept, f"__{_each}__", _operator(f"__{_each}__"))


def test_a_program_runs_on_what_the_attempt_makes() -> None:
    lines = [["leaf", 2.0], ["leaf", -3.0], ["*", 0, 1], ["**", 0, ["number", 2]], ["+", 2, 3], ["*", 4, 0]]
    told = drivers.program(Kept, [*lines, ["/", ["number", 1.0], 0], ["neg", 6], ["tanh", 7], ["backward", 5]])
    assert told["data"][5] == -4
    assert told["grad"][:2] == [0, 4]
    assert told["data"][8] == pytest.approx(-0.46211715)


def test_a_program_repeats_lines_and_tells_of_some_objects() -> None:
    lines = [["leaf", 1.0], ["again", 3, [["+", -1, 0], ["*", -1, ["number", 2]]]], ["backward", -1]]
    assert drivers.program(Kept, lines, [0, -1]) == {"data": [1.0, 22.0], "grad": [22.0, 1.0]}


@pytest.mark.parametrize(("lie", "told"), [(torch.tensor(2.0), "a Tensor"), (type("Near", (float,), {})(2), "a Near")])
def test_a_program_tells_what_is_no_number(lie: Any, told: str) -> None:
    made = type("Value", (), {"data": lie, "grad": 0.0})
    assert drivers.program(lambda value: made(), [["leaf", 2.0]]) == {"data": [told], "grad": [0.0]}


def test_a_class_that_is_no_module_is_called_by_its_constructor(tmp_path: Path) -> None:
    (tmp_path / "master.py").write_text("class Value:\n    def __init__(self, data: float, name: str = ''): ...\n")
    assert signature_of(tmp_path / "master.py", "Value").inputs == ("data", "name")


KNOWN = "c = a * b; d = a ** 2; e = c + d; f = e * a; f.backward()"


def test_a_program_is_read_and_written() -> None:
    lines = programs.program(f"{KNOWN}; g = 1 - f.exp()", a=2.0, b=-3.0)
    text = "a = Value(2.0)\nb = Value(-3.0)\n" + KNOWN.replace("; ", "\n") + "\ng = f.exp()\nh = 1 - g"
    assert programs.written(lines) == text


def test_torch_tells_what_a_program_gives() -> None:
    exact = programs.by_torch(programs.program(f"{KNOWN}; f.backward()", a=2.0, b=-3.0))
    assert [exact[name] for name in ("f.data", "a.grad", "b.grad", "f.grad")] == [-4, 0, 8, 2]


def test_the_smallest_program_that_fails_is_found() -> None:
    lines = programs.program("c = a * b; d = c.tanh(); e = d + a; f = e * e; f.backward()", a=0.5, b=0.7)

    def fails(call: Any) -> bool:
        words = [word for word, *_ in call[0]]
        return "tanh" in words and "backward" in words

    (least,) = smallest((lines,), fails, programs.simpler)
    assert programs.written(least).split("\n")[1:] == ["b = a.tanh()", "b.backward()"]


@given(st.integers(0, 10**6))
def test_texts_fall_into_pieces_and_are_cut_without_loss(seed: int) -> None:
    pick = random.Random(seed)
    text = texts.mixed(pick, 30, (*texts.KINDS, "<a>", "<a><b>"))
    assert "".join(texts.pieces(text)) == text
    parts = texts.cut(text, ("<a>", "<a><b>"))
    assert "".join(parts) == text
    assert set(parts[1::2]) <= {"<a>", "<a><b>"}
    assert not any("<a>" in part for part in parts[::2])


@given(st.integers(0, 10**6))
def test_invented_merges_join_what_is_there(seed: int) -> None:
    pick = random.Random(seed)
    merges = texts.invented_merges(pick, texts.mixed(pick, 40), 25)
    assert len(set(merges)) == len(merges) <= 25
    assert all(0 <= part < 256 + rank for rank, pair in enumerate(merges) for part in pair)


def test_prose_has_the_size_that_is_asked_for() -> None:
    assert len(texts.prose(random.Random(1), 12_345, 50)) == 12_345
