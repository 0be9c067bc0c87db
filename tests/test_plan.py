"""The plan until the interview: what fits on which day, what does not, and what is done of it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from dojo.cli import main
from dojo.cli.commands import practise
from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.practice import history, progress
from dojo.practice.database import Attempt, remember
from dojo.practice.schedule import asked, plans
from dojo.practice.schedule.plans import Plan
from tests.test_memory import attempt

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
KATAS = catalog.katas()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def planned(hours: float, days: int = 18, past: list[Attempt] | None = None) -> Plan:
    standings = progress.standings(KATAS.values(), past or [], NOW)
    return plans.make_plan(KATAS, standings, NOW.date() + timedelta(days), hours, NOW)


def ago(days: float) -> float:
    return (NOW - timedelta(days)).timestamp()


@pytest.mark.parametrize("hours", [0.1, 1, 3.5, 6, 9, 40])
@pytest.mark.parametrize("days", [0, 1, 7, 18, 200])
def test_what_is_planned_fits_and_lies_before_the_interview(hours: float, days: int) -> None:
    plan = planned(hours, days)
    assert sum(task.minutes for task in plan.tasks) <= 60 * hours
    assert all(NOW.date() <= task.day < max(plan.date, NOW.date() + timedelta(1)) for task in plan.tasks)
    assert [task.day for task in plan.tasks] == sorted(task.day for task in plan.tasks)
    first = [task.kata for task in (*plan.tasks, *plan.left_out) if not task.again]
    assert sorted(first) == sorted(KATAS), "each kata is planned once, or said to be left out"


def test_of_what_is_planned_groundwork_comes_first() -> None:
    for hours in (2, 6, 40):
        order = [task.kata for task in planned(hours).tasks if not task.again]
        for number, name in enumerate(order):
            assert not set(KATAS[name].builds_on) & set(order[number:]), name
    assert len(order) == len(KATAS)


def test_six_hours_in_ten_days_hold_what_interviews_ask_most() -> None:
    """The most asked, in their order; after one that is too long for what is left, only what is shorter than it."""
    most = [kata.name for kata in asked.most_asked_first(KATAS.values())]
    plan = planned(6, 10)
    new = [task.kata for task in plan.tasks if not task.again]
    whole = next(count for count, name in enumerate(most) if name not in new)
    assert whole >= 12
    for name in {*new} - {*most[:whole]}:
        passed_over = [other for other in most[: most.index(name)] if other not in new]
        assert KATAS[name].minutes < min(KATAS[other].minutes for other in passed_over)
    assert {"kv_cache", "sampling", "grpo", "adamw", "debug_lm"} <= set(new)
    assert sum(KATAS[name].minutes for name in new) >= 0.7 * 360


def test_each_kata_has_a_rank_and_a_position_changes_it() -> None:
    assert {*asked.WEIGHTS} == {*KATAS}
    assert sum(len(names.split()) for names in asked.RANKS.values()) == len(KATAS)
    assert {*practise.TARGETS} == {*asked.TARGETS}
    assert {track for tracks in asked.TARGETS.values() for track in tracks.split()} <= {*catalog.TRACKS}
    for target, name in (("inference", "speculative"), ("training", "gradients"), ("research", "gae")):
        places = {to: [k.name for k in asked.most_asked_first(KATAS.values(), to)].index(name) for to in asked.TARGETS}
        assert min(places, key=places.__getitem__) == target
        assert places[target] < places["all"]


def test_what_one_knows_is_neither_planned_nor_missed() -> None:
    standings = progress.standings(KATAS.values(), [], NOW)
    plan = plans.make_plan(KATAS, standings, NOW.date() + timedelta(10), 6, NOW, "inference", {"rope", "gqa"})
    assert not {"rope", "gqa"} & {task.kata for task in (*plan.tasks, *plan.left_out)}
    assert (plan.target, plan.known) == ("inference", ("gqa", "rope"))


@pytest.mark.parametrize(("days", "hours"), [(10, 6), (10, 20), (40, 40), (18, 9), (4, 4)])
def test_every_third_day_has_a_mock_or_a_hunt_and_the_last_two_nothing_new(days: int, hours: float) -> None:
    plan = planned(hours, days)
    offsets = {(task.day - NOW.date()).days: task for task in plan.tasks if task.how}
    new = {task.kata: (task.day - NOW.date()).days for task in plan.tasks if not task.again}
    last = [days - 2, days - 1] if days > 4 else [days - 1]
    assert sorted(offsets) == [*range(2, days - len(last), 3), *last]
    assert {offsets[day].how for day in last} == {"mock"}
    assert ({task.how for task in offsets.values()} == {"mock", "hunt"}) == (days > 4)
    assert all(new[task.kata] < day for day, task in offsets.items()), "of what was studied before"
    assert len({task.kata for task in offsets.values()}) == len(offsets)
    assert not {*offsets} & {*new.values()}, "its day has nothing new"
    assert sum(task.minutes for task in offsets.values()) <= 60 * hours * (plans.DRILLS + 0.2)


def test_a_mock_of_the_plan_is_done_by_a_mock_and_a_hunt_by_a_hunt_solved_or_not() -> None:
    plan = planned(6, 10)
    later = NOW.timestamp() + 86400
    drills = {task.how: task.kata for task in plan.tasks if task.how}
    for how, name in drills.items():
        for kind, verdict, done in ((how, "failed", True), ("grade", "passed", False)):
            past = [attempt(name, verdict, at=later, kind=kind)]
            ready = plan.done(progress.standings(KATAS.values(), past, NOW + timedelta(20)))
            got = [yes for task, yes in zip(plan.tasks, ready, strict=True) if (task.kata, task.how) == (name, how)]
            assert got == [done], (how, kind)


def test_days_are_evenly_filled() -> None:
    first = [task for task in planned(6).tasks if not task.again]
    by_day = {task.day: sum(t.minutes for t in first if t.day == task.day) for task in first}
    assert max(by_day.values()) <= 60 * 6 / 18 + 50, "a day holds its share and at most the longest kata"
    assert len(by_day) >= 8


def test_what_was_tried_and_what_fades_come_before_what_is_new() -> None:
    past = [attempt("rope", "failed", at=ago(2)), attempt("mha", at=ago(9), hints=2), attempt("softmax", at=ago(0.1))]
    plan = planned(1, past=past)
    assert next(task.kata for task in plan.tasks if not task.again) == "rope"
    again = {task.kata: task for task in plan.tasks if task.again}
    assert again["mha"].day == NOW.date()
    assert again["mha"].minutes == KATAS["mha"].minutes / 2
    assert again["softmax"].day > NOW.date() + timedelta(3), "passed with ease today, so it keeps for a while"
    assert all(task.kata != "softmax" or task.again for task in (*plan.tasks, *plan.left_out))


def test_a_task_is_done_by_a_pass_after_the_plan_was_made_and_a_second_one_by_a_second() -> None:
    plan = planned(9)
    counts = Counter(task.kata for task in plan.tasks if not task.how)
    twice = next(name for name, count in counts.items() if count == 2)

    def done(*passes: float) -> list[bool]:
        past = [attempt(twice, at=NOW.timestamp() + 86400 * day) for day in passes]
        ready = plan.done(progress.standings(KATAS.values(), past, NOW + timedelta(20)))
        return [yes for task, yes in zip(plan.tasks, ready, strict=True) if (task.kata, task.how) == (twice, "")]

    assert done() == done(-1) == [False, False]
    assert done(1) == done(-3, 1, 1.01) == [True, False]
    assert done(1, 9) == [True, True]


def test_next_follows_the_plan_and_goes_back_to_the_scheduler_when_it_is_over() -> None:
    standings, plan = progress.standings(KATAS.values(), [], NOW), planned(2)

    def told(days: float) -> list[str]:
        found = plans.propose(KATAS, standings, NOW + timedelta(days), plan)
        return [f"{due.kata.name}: {due.reason}" for due in found]

    assert told(0)[0] == "softmax: planned for today"
    assert told(1)[0] == "softmax: planned for Sun 22 Nov"
    assert len(told(0)) == len({line.split(":")[0] for line in told(0)})
    assert told(19)[0] == "dropout: new; needs no other"


def say(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.main(["plan", *words]) == 0
    return capsys.readouterr().out


def test_a_plan_is_kept_shown_with_what_is_done_and_cleared(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert "there is no plan yet: `nox -s plan -- --date" in say(capsys)
    day = date.today() + timedelta(18)
    made = say(capsys, "--date", str(day), "--hours", "6")
    assert made == say(capsys)
    assert f"{day.day} {day:%B %Y} is in 18 days. Planned: " in made
    assert "  today        40 min  softmax, sdpa, mha" in made
    assert "No room in 6 h for " in made
    assert "beam_search" in made.split("No room in 6 h for ")[1]
    assert history.proposals(1).startswith("1. softmax ")
    remember([attempt("softmax", at=datetime.now().timestamp() + 1)])
    assert "  today        40 min  ✓ softmax, sdpa, mha" in say(capsys)
    assert "1 of " in say(capsys)
    assert history.proposals(1).startswith("1. sdpa ")
    assert say(capsys, "--clear") == "the plan is forgotten\n"
    assert say(capsys, "--clear") == "there is no plan to forget\n"
    assert not (home / "plan.json").exists()


def test_what_is_late_is_said_with_the_command_that_plans_anew(capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC) - timedelta(5)
    standings = progress.standings(KATAS.values(), [], now)
    plans.keep_plan(plans.make_plan(KATAS, standings, date.today() + timedelta(4), 3, now))
    told = say(capsys)
    assert "softmax (late)" in told
    assert f"`nox -s plan -- --date {date.today() + timedelta(4)} --hours 3` spreads what is late" in told


def test_a_plan_that_cannot_be_read_is_named_and_can_be_cleared(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    home.mkdir()
    for content in ("{", "[]", '{"date": "tomorrow"}', '{"date": "2026-12-10"}'):
        (home / "plan.json").write_text(content)
        with pytest.raises(Trouble, match=r"plan\.json cannot be read: .*`nox -s plan -- --clear` removes it"):
            plans.kept_plan()
    assert main.main(["next"]) == 2
    assert "--clear` removes it" in capsys.readouterr().err
    assert say(capsys, "--clear") == "the plan is forgotten\n"


NEXT_WEEK = str(date.today() + timedelta(7))  # still to come when a run passes midnight


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--date", "2026-13-01", "--hours", "6"],
            "'2026-13-01' is no date: write year, month and day, as in 2026",
        ),
        (["--date", "soon", "--hours", "6"], "'soon' is no date"),
        (["--date", "2020-01-01", "--hours", "6"], "2020-01-01 has passed: today is "),
        (["--date", "2999-01-01", "--hours", "6"], "2999-01-01 is more than a year away: today is "),
        (["--date", NEXT_WEEK, "--hours", "0"], "'0' is no number of hours between 0 and 2000"),
        (["--date", NEXT_WEEK, "--hours", "nan"], "'nan' is no number of hours"),
        (["--hours", "6"], "--date and --hours go together"),
        (["--clear", "--date", NEXT_WEEK, "--hours", "6"], "--clear forgets the plan"),
    ],
)
def test_bad_dates_and_hours_are_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.main(["plan", *words])
    assert caught.value.code == 2
    assert told in capsys.readouterr().err
