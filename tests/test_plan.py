"""The plan until the interview: what fits on which day, what does not, and what is done of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from dojo.cli import main
from dojo.cli.commands import practise
from dojo.content import catalog
from dojo.content.catalog import Kata, Trouble
from dojo.practice import history, progress
from dojo.practice.database import SOLUTION, Attempt, Help, remember
from dojo.practice.schedule import asked, drills, making, plans
from dojo.practice.schedule.plans import Plan, Task
from tests.test_memory import attempt

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
KATAS = catalog.katas()
STUDIED = {name: kata for name, kata in KATAS.items() if kata.track != making.LADDERS}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def planned(hours: float, days: int = 18, past: list[Attempt] | None = None) -> Plan:
    standings = progress.standings(KATAS.values(), past or [], NOW)
    return making.make_plan(KATAS, standings, NOW.date() + timedelta(days), hours, NOW)


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
    assert sorted(first) == sorted(STUDIED), "each kata is planned once, or said to be left out"


def test_of_what_is_planned_groundwork_comes_first() -> None:
    for hours in (2, 6, 60):
        order = [task.kata for task in planned(hours).tasks if not task.again]
        for number, name in enumerate(order):
            assert not set(KATAS[name].builds_on) & set(order[number:]), name
    assert len(order) == len(STUDIED)


LADDERS = [catalog.Kata(name, name, making.LADDERS, 4, 60, (), ()) for name in ("gpt_screen", "attention_ladder")]
EASY = {name for name, kata in KATAS.items() if kata.level <= 2}


@pytest.mark.parametrize("ladders", [[], LADDERS], ids=["no ladders", "ladders"])
@pytest.mark.parametrize("known", [set(), EASY], ids=["new to it all", "placed"])
@pytest.mark.parametrize("target", [*asked.TARGETS])
def test_six_hours_in_ten_days_hold_the_third_that_is_asked_most(
    target: str, known: set[str], ladders: list[Kata]
) -> None:
    """Written at par as far as the time goes, else read; what one knows is drilled, or not asked for again."""
    katas = STUDIED | {kata.name: kata for kata in ladders}
    plan = made(katas, 6, 10, target, known)
    third = asked.most_asked_first((k for k in katas.values() if k not in ladders), target)[: -(-len(STUDIED) // 3)]
    met = {name for task in plan.tasks for name in (task.kata, *task.beside)}
    assert {kata.name for kata in third} - known <= met
    study = [task for task in plan.tasks if not task.again]
    read, written = ([t for t in study if (t.how == "read") is yes] for yes in (True, False))
    assert sum(task.minutes for task in written) >= sum(task.minutes for task in read)
    assert all(task.minutes == katas[task.kata].minutes for task in written), "what is new is written at par"
    assert all(task.minutes == making.READ and katas[task.kata].minutes > drills.LONGEST for task in read)
    assert len(written) >= (7 if not known else 4)
    assert {task.kata for task in plan.tasks if task.how == "ladder"} <= {kata.name for kata in ladders}
    assert any(task.how == "ladder" for task in plan.tasks) == bool(ladders)
    assert all(drills.fits(katas[task.kata]) for task in plan.tasks if task.how == "drill")


def made(katas: dict[str, Kata], hours: float, days: int, target: str = "all", known: Collection[str] = ()) -> Plan:
    standings = progress.standings(katas.values(), [], NOW)
    return making.make_plan(katas, standings, NOW.date() + timedelta(days), hours, NOW, target, known)


def test_each_kata_has_a_weight_with_its_source_and_a_position_changes_it() -> None:
    assert {*KATAS} <= {*asked.ASKED}
    for name, (weight, sources) in asked.ASKED.items():
        assert weight in (1, 2, 3), name
        assert sources, name
        assert {*sources} <= {*asked.SOURCES}, name
    assert len(asked.TABLE.split("\n")) - 2 == len(asked.ASKED), "no kata twice"
    assert {*practise.TARGETS} == {*asked.TARGETS}
    assert {track for tracks in asked.TARGETS.values() for track in tracks.split()} <= {*catalog.TRACKS}
    assert {target for targets in asked.LADDERS.values() for target in targets.split()} <= {*asked.TARGETS}
    for target, name in (("inference", "speculative"), ("training", "gradients"), ("research", "gae")):
        places = {to: [k.name for k in asked.most_asked_first(KATAS.values(), to)].index(name) for to in asked.TARGETS}
        assert min(places, key=places.__getitem__) == target
        assert places[target] < places["all"]


def test_a_kata_without_a_weight_comes_last_and_one_that_is_missing_is_no_error() -> None:
    new = catalog.Kata("brand_new", "Brand new", "basics", 1, 5, ("not_there",), ())
    some = {"brand_new": new, "rope": KATAS["rope"], "gqa": KATAS["gqa"]}
    assert [kata.name for kata in asked.most_asked_first(some.values())] == ["gqa", "rope", "brand_new"]
    plan = made(some, 6, 10)
    assert {task.kata for task in plan.tasks} == {*some}
    fewer = {"rope": KATAS["rope"]}
    standings = progress.standings(fewer.values(), [], NOW)
    assert plan.done(standings) == [False] * len(plan.tasks)
    assert {due.kata.name for due in plans.propose(fewer, standings, NOW, plan)} == {"rope"}


def test_what_one_knows_is_neither_studied_nor_missed() -> None:
    plan = made(KATAS, 6, 10, "inference", {"rope", "gqa"})
    assert not {"rope", "gqa"} & {task.kata for task in (*plan.tasks, *plan.left_out) if not task.again}
    assert (plan.target, plan.known) == ("inference", ("gqa", "rope"))


def test_what_one_knows_is_drilled_where_it_is_short_one_a_day() -> None:
    plan = made(KATAS, 6, 10, known=EASY)
    first = {task.kata: task for task in reversed(plan.tasks) if task.how == "drill"}
    assert {"softmax", "sdpa", "cross_entropy", "lm_loss"} <= {*first}, "those that are asked most"
    assert not [name for name in first if KATAS[name].minutes > drills.PAR or KATAS[name].level > drills.LEVEL]
    assert all(drills.SHORTEST <= task.minutes <= drills.LONGEST for task in first.values())
    days = [task.day for task in first.values() if task.day < plan.date - timedelta(2)]
    assert len({*days}) == len(days)


@pytest.mark.parametrize(("days", "hours"), [(10, 6), (10, 20), (40, 40), (18, 9), (4, 4)])
@pytest.mark.parametrize("ladders", [[], LADDERS], ids=["no ladders", "ladders"])
def test_every_third_day_has_a_hunt_and_a_ladder_and_the_last_two_nothing_new(
    days: int, hours: float, ladders: list[Kata]
) -> None:
    plan = made(STUDIED | {kata.name: kata for kata in ladders}, hours, days)
    held = [t for t in plan.tasks if t.how in ("mock", "hunt", "ladder")]
    offsets = {
        how: sorted((t.day - NOW.date()).days for t in held if t.how == how) for how in ("mock", "hunt", "ladder")
    }
    new = {task.kata: (task.day - NOW.date()).days for task in plan.tasks if not task.again}
    last = [days - 2, days - 1] if days > 4 else [days - 1]
    third = [*range(2, days - len(last), 3)]
    assert offsets["hunt"] == third
    assert {*last} <= {*offsets["mock"]}
    with_mock = [day for day in offsets["mock"] if day not in last]
    assert not {*with_mock} & {*offsets["ladder"]}, "a mock of several katas stands for a ladder"
    assert {*with_mock, *offsets["ladder"]} <= {*third}
    room = making.LADDER * making.PRACTICE * 60 * hours
    assert bool(offsets["ladder"]) == (bool(ladders) and room >= 60), "where there are ladders, and time for one"
    assert all(len(t.beside) in (1, 2) for t in held if t.how == "mock" and (t.day - NOW.date()).days not in last)
    for task in held:
        assert task.how == "ladder" or all(
            new[name] < (task.day - NOW.date()).days for name in (task.kata, *task.beside)
        ), "of what was studied before"
        assert task.how == "ladder" or task.kata not in [t.kata for t in plan.tasks if t.how == "read"]
    names = [name for task in held for name in (task.kata, *task.beside)]
    assert len({*names}) == len(names)
    assert not {*third, *last} & {*new.values()}, "its day has nothing new"


def test_a_mock_of_the_plan_is_done_by_a_mock_and_a_hunt_by_a_hunt_solved_or_not() -> None:
    plan = planned(6, 10)
    later = NOW.timestamp() + 86400
    held = {task.how: task.kata for task in plan.tasks if task.how in ("mock", "hunt") and not task.beside}
    for how, name in held.items():
        for kind, verdict, done in ((how, "failed", True), ("grade", "passed", False)):
            past = [attempt(name, verdict, at=later, kind=kind)]
            ready = plan.done(progress.standings(KATAS.values(), past, NOW + timedelta(20)))
            got = [yes for task, yes in zip(plan.tasks, ready, strict=True) if (task.kata, task.how) == (name, how)]
            assert got == [done], (how, kind)


def test_each_kind_of_task_is_done_by_what_it_asks_for() -> None:
    """A drill by a drill, a ladder by a mock, a mock of several by mocks of each, reading by a look at the solution."""
    day = NOW.date()
    tasks = [Task(day, "softmax", 10, True, "drill"), Task(day, "gpt_screen", 60, True, "ladder")]
    tasks += [Task(day, "mha", 30, True, "mock", ("gqa",)), Task(day, "ppo", 5, how="read")]
    plan = Plan(day, 6, NOW.timestamp(), tuple(tasks), ())
    katas, at = KATAS | {kata.name: kata for kata in LADDERS}, NOW.timestamp() + 60

    def done(*kinds: tuple[str, str]) -> list[bool]:
        past = [attempt(name, "failed", at=at, kind=kind) for name, kind in kinds]
        return plan.done(progress.standings(katas.values(), past, NOW))

    assert done(("softmax", "grade"), ("gpt_screen", "grade"), ("mha", "mock")) == [False] * 4
    assert done(("softmax", "drill"), ("gpt_screen", "mock"), ("mha", "mock"), ("gqa", "mock")) == [
        True,
        True,
        True,
        False,
    ]
    assert remember(helps=[Help(at - 120, "ppo", SOLUTION)]) is None
    assert not done()[3], "before the plan was made"
    assert remember(helps=[Help(at, "ppo", SOLUTION)]) is None
    assert done()[3]


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
    assert (again["mha"].minutes, again["mha"].how) == (KATAS["mha"].minutes / 2, "")
    assert (again["softmax"].minutes, again["softmax"].how) == (7, "drill")
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
    assert "block" in made.split("No room in 6 h for ")[1]
    assert "of the most asked are only read: writing them takes" in made
    assert max(map(len, made.splitlines())) <= 80
    assert history.proposals(1).startswith("1. softmax ")
    remember([attempt("softmax", at=datetime.now().timestamp() + 1)])
    assert "  today        40 min  ✓ softmax, sdpa, mha" in say(capsys)
    assert "1 of " in say(capsys)
    assert history.proposals(1).startswith("1. sdpa ")
    assert "the plan is forgotten; a copy is " in say(capsys, "--clear")
    assert say(capsys, "--clear") == "there is no plan to forget\n"
    assert not (home / "plan.json").exists()
    assert len([*(home / "kept").glob("plan-*.json")]) == 1


def test_what_is_late_is_said_with_the_command_that_plans_anew(capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC) - timedelta(5)
    standings = progress.standings(KATAS.values(), [], now)
    plans.keep_plan(making.make_plan(KATAS, standings, date.today() + timedelta(4), 3, now))
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
    assert "--clear` removes it and keeps a copy" in capsys.readouterr().err
    assert "the plan is forgotten; a copy is " in say(capsys, "--clear")
    assert [path.read_text() for path in (home / "kept").iterdir()] == [content]
    (home / "plan.json").write_text(content)
    say(capsys, "--date", NEXT_WEEK, "--hours", "6")
    assert plans.kept_plan()
    assert [path.read_text() for path in (home / "kept").iterdir()] == [content], "a new plan keeps a copy too"


def test_a_plan_of_before_is_read_and_one_of_later_refused(home: Path) -> None:
    home.mkdir()
    task = {"day": "2026-12-01", "kata": "mha", "minutes": 20, "again": True, "how": "mock"}
    old = {"date": "2026-12-02", "hours": 3.0, "made": 1e9, "tasks": [task], "left_out": []}
    (home / "plan.json").write_text(json.dumps(old))
    assert plans.kept_plan() == Plan(
        date(2026, 12, 2), 3.0, 1e9, (Task(date(2026, 12, 1), "mha", 20, True, "mock"),), ()
    )
    (home / "plan.json").write_text(json.dumps(old | {"tasks": [task | {"how": "dream"}]}))
    with pytest.raises(Trouble, match="a task is 'dream', and this dojo knows drill, hunt, mock, ladder, read"):
        plans.kept_plan()


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
