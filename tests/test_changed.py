"""What `nox -s proof -- --changed` takes for changed."""

from __future__ import annotations

import pytest

from dojo.content import proofs
from tests import changed

ANSWERS = {
    ("rev-parse", "HEAD"): "new",
    ("merge-base", "HEAD", "origin/main"): "old",
    ("ls-files", "--others", "--exclude-standard"): "",
    ("rev-list", "--count", "HEAD"): "60",
}


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that git says have changed since the commit `old`."""
    found: list[str] = []
    answers = ANSWERS | {("diff", "--name-only", "old"): found}

    def git(*words: str) -> str:
        if words not in answers:
            raise changed.Unknown(f"no {words}")
        answer = answers[words]
        return "\n".join(answer) if isinstance(answer, list) else answer

    monkeypatch.setattr(changed, "_git", git)
    return found


def test_a_kata_has_changed_with_its_files_and_so_have_those_that_take_over_from_it(paths: list[str]) -> None:
    paths += ["README.md", "graders/attention/gqa/right.txt"]
    plan = changed.plan(changed.SINCE_MAIN)
    assert "gqa" in plan.changed
    assert {name for name in plan.changed if "gqa" in proofs.taken_over(changed.KATAS[name])} < plan.changed
    assert "softmax" not in plan.changed
    assert (plan.since, plan.engine) == ("old", ())


def test_what_verdicts_hang_on_is_the_engine_and_pages_are_not(paths: list[str]) -> None:
    paths += ["dojo/cli/home.py", "dojo/judge/proxy.py"]
    plan = changed.plan(changed.SINCE_MAIN)
    assert (plan.changed, plan.engine) == (frozenset(), ("dojo/judge/proxy.py",))
    assert len(plan.judged) == changed.MANY
    assert "engine            dojo/judge/proxy.py" in str(plan)


def test_where_nothing_changed_one_kata_is_proven_in_turn(paths: list[str]) -> None:
    plan = changed.plan(changed.SINCE_MAIN)
    (name,) = plan.whole
    assert name == [*changed.KATAS][60 % len(changed.KATAS)]
    assert f"  everything        of {name}" in str(plan)


def test_of_many_that_changed_a_few_are_proven_whole(paths: list[str]) -> None:
    paths += [f"solutions/{kata.track}/{name}.py" for name, kata in changed.KATAS.items()]
    plan = changed.plan(changed.SINCE_MAIN)
    assert plan.changed == {*changed.KATAS}
    assert len(plan.judged) == changed.MANY
    assert changed.FEW <= len(plan.whole) <= changed.FEW + 1


def test_without_a_commit_before_everything_counts_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "_git", lambda *words: (_ for _ in ()).throw(changed.Unknown("no repository")))
    assert changed.plan(changed.SINCE_MAIN).changed == {*changed.KATAS}
    with pytest.raises(pytest.UsageError, match="--changed=v1: no repository"):
        changed.plan("v1")
    with pytest.raises(pytest.UsageError, match="name files before --changed"):
        changed.plan("tests/test_graders.py::test_solution_passes")
