"""Copies: what is the same up to names, comments and order is listed, what two people wrote is not."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations

import pytest

from dojo.cohort import copies
from dojo.cohort.copies import COMMON, ENOUGH, Pair, Printed, pairs, prints
from dojo.cohort.outputs.alike import page
from dojo.cohort.records import Submitted
from dojo.content import catalog, master, proofs

KATAS = catalog.katas()
MINE = '''
import torch
from torch import Tensor, nn


def heads_apart(x: Tensor, num_heads: int) -> Tensor:
    """The last axis as heads."""
    return x.view(*x.shape[:-1], num_heads, x.shape[-1] // num_heads).transpose(1, 2)


def weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    found = scores.float().softmax(dim=-1)
    if mask is not None:
        found = found * mask
    return found.to(scores.dtype)


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"{d_model} dimensions, {num_heads} heads, {num_kv_heads} groups do not divide")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        narrow = d_model // num_heads * num_kv_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, narrow, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, narrow, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

    def forward(self, x, mask=None):
        q = heads_apart(self.q_proj(x), self.num_heads)
        k = heads_apart(self.k_proj(x), self.num_kv_heads).repeat_interleave(self.num_heads // self.num_kv_heads, 1)
        v = heads_apart(self.v_proj(x), self.num_kv_heads).repeat_interleave(self.num_heads // self.num_kv_heads, 1)
        scores = (q / q.shape[-1] ** 0.5) @ k.transpose(-1, -2)
        return self.o_proj((weights(scores, mask) @ v).transpose(1, 2).flatten(2))
'''
RENAMED = {"heads_apart": "split", "weights": "attention_probs", "scores": "logits", "found": "p", "narrow": "kv_width"}


def printed(student: str, source: str, kata: str = "gqa") -> Printed:
    return Printed(kata, student, prints(source, KATAS[kata]))


def handed_in(**sources: str) -> list[Printed]:
    return [printed(student, source) for student, source in sources.items()]


def student(one: Printed | None) -> str:
    return one.student if one else ""


def side_by_side(**sources: str) -> str:
    """The page about the only pair among these."""
    pair = only(pairs(handed_in(**sources), KATAS))
    return page([pair], KATAS, lambda one: Submitted(one.student, one.kata, "gqa.py", sources[one.student]))


def of_many(number: int) -> str:
    """An attempt that has most in common with all of these, and something of its own."""
    own = "def of_{0}(a, b):\n    return [a + {0}, b.view(-1, {0}), {{a: {0}}}, a @ b[{0}:], a.at_{0}(b) - {0} * a]\n"
    return f"{MINE}\n\n{own.format(number)}"


def only(found: list[Pair]) -> Pair:
    (pair,) = found
    return pair


def renamed(source: str) -> str:
    return re.sub("|".join(rf"\b{name}\b" for name in RENAMED), lambda found: RENAMED[found[0]], source)


def reordered(source: str) -> str:
    parts = source.split("\n\n\n")
    return "\n\n\n".join([parts[0], *parts[:0:-1]])


def commented(source: str) -> str:
    told = re.sub(r"^( +)(return|if)", r"\1# this is mine,\n\1# and mine alone\n\1\2", source, flags=re.MULTILINE)
    return told.replace('"""The last axis as heads."""', '"""Takes the heads\n    apart."""')


@pytest.mark.parametrize("change", [renamed, reordered, commented, lambda s: commented(reordered(renamed(s)))])
def test_a_copy_with_other_names_order_and_comments_is_listed(change) -> None:
    pair = only(pairs(handed_in(ada=MINE, bob=change(MINE)), KATAS))
    assert (student(pair.first), student(pair.second)) == ("ada", "bob")
    assert pair.share > 0.9


def test_names_and_comments_count_for_nothing() -> None:
    assert only(pairs(handed_in(ada=MINE, bob=commented(renamed(MINE))), KATAS)).share == 1


def written_apart(kata: catalog.Kata) -> dict[str, str]:
    """The right answers that are files of their own: the others are edits of the master."""
    files = {path.stem for path in kata.proofs.glob("right/*.py")}
    right = {style: text for style, text in proofs.right_attempts(kata).items() if style in files}
    return right | {f"{style} of the field": text for style, text in proofs.field(kata).items()}


def test_right_attempts_of_other_people_are_not_listed() -> None:
    theirs = written_apart(KATAS["gqa"])
    assert len(theirs) >= 3  # one whole right answer, and two of the field
    assert pairs(handed_in(ada=MINE, **theirs), KATAS) == []


def test_of_right_attempts_few_pairs_are_listed() -> None:
    by_kata = {name: written_apart(kata) for name, kata in KATAS.items()}
    attempts = [printed(who, text, kata) for kata, found in by_kata.items() for who, text in found.items()]
    possible = sum(len(list(combinations(found, 2))) for found in by_kata.values())
    assert possible > 70, "so few are listed, for rows are edits of the master and no work of another's"
    assert sum(pair.second is not None for pair in pairs(attempts, KATAS)) < 0.05 * possible


def test_the_solution_handed_in_is_listed() -> None:
    solution = master.read_text(KATAS["gqa"].master)
    pair = only(pairs(handed_in(ada=renamed(solution), bob=MINE), KATAS))
    assert (student(pair.first), pair.second, pair.share) == ("ada", None, 1)


def test_the_stub_that_all_were_handed_out_is_no_copy() -> None:
    stub = master.stub_text(KATAS["gqa"])
    started = stub.replace("raise NotImplementedError", "return x + 1")
    assert pairs(handed_in(ada=stub, bob=stub, eve=started), KATAS) == []


def test_what_is_copied_into_something_longer_is_listed() -> None:
    longer = MINE + "\n\n".join(f"def unused_{n}(a, b):\n    return [a * {n}, b - {n}]\n" for n in range(60))
    pair = only(pairs(handed_in(ada=MINE, bob=longer), KATAS))
    assert pair.of_first > 0.9 > ENOUGH > pair.of_second


def test_another_kata_is_another_matter() -> None:
    assert pairs([printed("ada", MINE), printed("bob", MINE, "mha")], KATAS) == []


def test_the_likest_come_first() -> None:
    half = MINE.replace(
        "    def forward",
        "    def other(self, a, b, c):\n        return {a: [b] for b in c}, b[a:c]\n\n    def forward",
    )
    found = pairs(handed_in(ada=MINE, bob=half, eve=renamed(MINE)), KATAS)
    assert [pair.share for pair in found] == sorted((pair.share for pair in found), reverse=True)
    assert len(found) == 3


def test_what_python_cannot_read_is_held_against_the_others_as_far_as_it_goes() -> None:
    broken = renamed(MINE) + '\n\nx = """never closed'
    assert only(pairs(handed_in(ada=MINE, bob=broken), KATAS)).share > 0.9
    assert pairs(handed_in(ada="\0\ud800(((", bob="\0\ud800((("), KATAS) == []


def test_in_a_class_that_writes_much_the_same_a_copy_is_found_by_what_few_have() -> None:
    everybody = {f"s{n}": of_many(n) for n in range(COMMON + 20)}
    found = pairs(handed_in(**everybody, bob=renamed(commented(everybody["s7"]))), KATAS)
    assert [{student(pair.first), student(pair.second)} for pair in found] == [{"s7", "bob"}]


def test_all_who_hand_in_the_same_are_listed_up_to_a_bound() -> None:
    many = handed_in(**{f"s{n}": MINE for n in range(COMMON + 20)})
    found = pairs(many, KATAS, most=50)
    assert len(found) == 50
    assert {pair.share for pair in found} == {1}


def test_the_work_grows_with_the_class_and_not_with_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[tuple[int, int]]()

    def counted(*args: object) -> Iterator[tuple[int, int]]:
        for pair in near(*args):
            compared.append(pair)
            yield pair

    near = copies._near
    monkeypatch.setattr(copies, "_near", counted)
    pairs(handed_in(**{f"s{n}": of_many(n) for n in range(4 * COMMON)}), KATAS)
    assert len(compared) == 4 * COMMON, "each with the solution alone"


def test_shares_are_the_same_in_every_process() -> None:
    code = (
        "import sys; from dojo.content import catalog; from dojo.cohort import copies\n"
        "katas = catalog.katas()\n"
        "prints = [copies.prints(text, katas['gqa']) for text in sys.argv[1:]]\n"
        "both = [copies.Printed('gqa', name, each) for name, each in zip('ab', prints)]\n"
        "print([(pair.of_first, pair.of_second) for pair in copies.pairs(both, katas, enough=0)])"
    )
    sources = [MINE, proofs.right_attempts(KATAS["gqa"])["library_attention"]]
    said = [
        subprocess.run(
            [sys.executable, "-c", code, *sources],
            env={"PYTHONHASHSEED": seed},
            cwd=catalog.ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert said[0].startswith("[(0.")


def test_of_earlier_attempts_those_are_listed_that_somebody_has_copied_now() -> None:
    longer = MINE + "\n\ndef unused(x):\n    return [x[n] * n + n**2 - x[0] for n in range(7) if n % 3 or x[n]]\n"
    sources = {**{f"{name} (2025)": MINE for name in ("ann", "ben", "cat")}, "dan (2025)": longer}
    last_year = [one._replace(earlier=True) for one in handed_in(**sources)]
    found = pairs([*handed_in(zoe=renamed(MINE)), *last_year], KATAS)
    assert [(student(pair.first), student(pair.second)) for pair in found] == [
        *(("zoe", f"{name} (2025)") for name in ("ann", "ben", "cat", "dan"))
    ]
    assert found[-1].of_first == 1
    assert found[-1].of_second < 1
    assert pairs(last_year, KATAS) == []
    (one,) = pairs([*last_year, *handed_in(zoe=renamed(MINE))], KATAS, most=1)
    assert one.first.student == "zoe", "earlier ones do not crowd it out"


def test_side_by_side_the_same_lines_are_marked_and_nothing_is_run() -> None:
    changed = renamed(MINE).replace(
        "super().__init__()", "super().__init__()  # <script>alert(1)</script>\n        extra = 1"
    )
    page = side_by_side(ada=MINE, bob=changed)
    lines = re.findall(r'<tr( class="same")?>(.*?)</tr>', page)
    same = {text for mark, text in lines if mark}
    assert any("heads_apart" in text and "split" in text for text in same), "names do not count"
    (added,) = (text for mark, text in lines if "extra = 1" in text)
    assert added.startswith("<td></td><td></td>")
    assert added not in same
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page
    assert "<bdi>ada</bdi> and <bdi>bob</bdi>: gqa" in page


def test_beside_the_solution_stands_the_solution() -> None:
    page = side_by_side(ada=renamed(master.read_text(KATAS["gqa"].master)))
    assert "<bdi>the solution</bdi>" in page
    assert "solutions/attention/gqa.py" in page
