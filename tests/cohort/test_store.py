"""What is graded again, and what a database of a cohort keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dojo.cohort.records import Problem, Result, Submitted
from dojo.cohort.store import Store, Terms
from dojo.content import catalog
from dojo.content.catalog import Trouble

KATAS = {name: catalog.katas()[name] for name in ("softmax", "rope")}
TERMS = Terms(7, torch="2.0")
ADA = Submitted("ada", "softmax", "ada/softmax.py", "x = 1\n")
BOB = Submitted("bob", "rope", "bob/rope.py", "y = 2\n")


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "results" / "cohort.sqlite") as made:
        made.take([ADA, BOB], [Problem("eve", "eve/x.py", "it is not UTF-8")])
        yield made


def graded(store: Store, *submitted: Submitted, terms: Terms = TERMS) -> None:
    for each in submitted:
        store.put(Result(each, {"verdict": "passed"}), terms.digest_of(each.digest, KATAS[each.kata]))


def test_what_has_no_result_is_pending_by_kata(store: Store) -> None:
    assert store.pending(KATAS, TERMS) == [("bob", "rope"), ("ada", "softmax")]
    assert store.pending({"rope": KATAS["rope"]}, TERMS) == [("bob", "rope")]
    graded(store, BOB)
    assert store.pending(KATAS, TERMS) == [("ada", "softmax")]
    assert store.pending(KATAS, TERMS, again=["bob"]) == [("bob", "rope"), ("ada", "softmax")]


@pytest.mark.parametrize("change", [{"seed": 8}, {"torch": "2.1"}, {"device": "cuda"}])
def test_other_terms_make_a_result_stale(store: Store, change: dict) -> None:
    graded(store, ADA, BOB)
    assert store.pending(KATAS, TERMS) == []
    assert len(store.pending(KATAS, replace(TERMS, **change))) == 2


def test_a_changed_attempt_is_pending_and_one_taken_back_has_no_result(store: Store) -> None:
    graded(store, ADA, BOB)
    store.take([replace(ADA, source="x = 2\n")], [])
    assert store.pending(KATAS, TERMS) == [("ada", "softmax")]
    assert [result.submitted.student for result in store.results(KATAS)] == ["ada"]
    assert store.problems() == []


def test_a_result_comes_back_as_it_was(tmp_path: Path, store: Store) -> None:
    result = Result(ADA, {"verdict": "failed", "tiers": {"core": "failed"}, "message": "é\ud800"}, "look", 3, 1.5)
    store.put(result, "digest")
    with Store(tmp_path / "results" / "cohort.sqlite") as again:
        assert list(again.results(KATAS)) == [result]
        assert again.submitted("ada", "softmax") == ADA


def test_the_seed_is_drawn_once(tmp_path: Path, store: Store) -> None:
    assert store.fact("seed", "1") == "1"
    with Store(tmp_path / "results" / "cohort.sqlite") as again:
        assert again.fact("seed", "2") == "1"


def test_another_file_is_told_and_left(tmp_path: Path) -> None:
    other = tmp_path / "cohort.sqlite"
    other.write_text("not a database, but somebody's notes" * 100)
    with pytest.raises(Trouble, match="--out"):
        Store(other)
    assert other.read_text().startswith("not a database")


def test_pictures_are_kept_apart_and_come_back(store: Store) -> None:
    checks = [{"name": "one", "outcome": "wrong", "picture": {"got": [1.0]}}, {"name": "two", "outcome": "passed"}]
    result = Result(ADA, {"verdict": "failed", "checks": checks})
    store.put(result, "digest")
    assert list(store.results(KATAS)) == [result]
    ((kept,),) = store.connection.execute("select verdict from result")
    assert "picture" not in kept
    better = Result(ADA, {"verdict": "passed", "checks": []})
    store.put(better, "digest")
    assert list(store.results(KATAS)) == [better]


def test_results_come_briefly_and_equal_parts_are_one(store: Store) -> None:
    check = {"name": "one", "tier": "core", "outcome": "wrong", "seconds": 0.1, "message": "off\nby much"}
    for number, each in enumerate((ADA, BOB)):
        verdict = {"verdict": "failed", "tiers": {"core": "failed"}, "checks": [check | {"seconds": number}], "seed": 1}
        store.put(Result(each, verdict), "digest")
    ada, bob = store.briefly(KATAS)
    assert ada.verdict["checks"] == [{"name": "one", "tier": "core", "outcome": "wrong", "message": "off"}]
    assert ada.verdict["checks"][0] is bob.verdict["checks"][0]
    assert (ada.submitted.source, ada.tiers) == ("", {"core": "failed"})


def test_fingerprints_are_kept_as_long_as_text_and_version_are_the_same(store: Store) -> None:
    store.put(Result(ADA, {}, prints=b"12"), "digest", "1")
    store.put(Result(BOB, {}), "digest", "1")
    assert list(store.prints({"softmax": "1", "rope": "1"})) == [("rope", "bob", None), ("softmax", "ada", b"12")]
    assert list(store.prints({"softmax": "2"})) == [("softmax", "ada", None)]
    store.take([replace(ADA, source="x = 2\n")], [])
    assert list(store.prints({"softmax": "1"})) == [("softmax", "ada", None)]
    assert store.connection.execute("select * from prints").fetchall() == []


def test_the_state_of_a_student_changes_with_their_results_and_problems_alone(store: Store) -> None:
    graded(store, ADA, BOB)
    before = store.states(KATAS)
    assert sorted(before) == ["ada", "bob", "eve"]
    graded(store, ADA)
    store.take([ADA, BOB], [Problem("eve", "eve/x.py", "it is empty")])
    after = store.states(KATAS)
    assert {name for name in before if before[name] != after[name]} == {"ada", "eve"}
