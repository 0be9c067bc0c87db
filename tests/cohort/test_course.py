"""A course's own rules: deadlines and late days, a roster with groups, decisions of a person, tiers held back."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dojo.cohort.course import decisions, roster, settings, worksheet
from dojo.cohort.course.deadlines import Late
from dojo.cohort.course.decisions import Decision
from dojo.cohort.course.roster import Person, Roster
from dojo.cohort.course.settings import Course, Rules
from dojo.cohort.outputs.writing import Folder, write_all
from dojo.cohort.records import Arrival, Problem
from dojo.cohort.submissions import collect
from dojo.content import catalog
from dojo.content.catalog import ROOT, Trouble
from tests.cohort.test_outputs import graded, rows
from tests.cohort.test_submissions import lay

KATAS = ("gqa", "rope")
POINTS_TOML = "[default]\ncore = 6\nrobust = 3\nfast = 1\n"
DUE = '[deadlines]\ntimezone = "Europe/Berlin"\nall = 2026-10-15T23:59:00\n'
PEOPLE = (
    "student,number,email,group\n"
    "Ada Lovelace,1815,ada@example.org,\n"
    "Alan Turing,1912,alan@example.org,team 1\n"
    "Grace Hopper,1906,grace@example.org,Team 1\n"
    "Żak 小明,7,zak@example.org,\n"
)


def course(folder: Path, text: str = "", **files: str) -> Course:
    """A course of this TOML below its points, with these files beside it."""
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content, "utf-8")
    path = folder / "course.toml"
    path.write_text(text if "[default]" in text else POINTS_TOML + text, "utf-8")
    return settings.read(path, KATAS, KATAS)


def at(text: str) -> Arrival:
    return Arrival(datetime.fromisoformat(text))


def late(found: Course, arrivals: dict[str, Arrival], student: str = "Ada") -> dict[str, Late]:
    rules = settings.applied(found, {(student, kata): each for kata, each in arrivals.items()}, [student], KATAS)
    return {kata: each for (_, kata), each in rules.late.items()}


class TestDeadlines:
    def test_a_minute_late_is_a_day_and_in_time_is_nothing(self, tmp_path: Path) -> None:
        found = course(tmp_path, f"{DUE}[late]\npenalty = 0.1\n")
        assert late(found, {"gqa": at("2026-10-15T23:59:00")}) == {}
        one = late(found, {"gqa": at("2026-10-16T00:00:00")})["gqa"]
        assert (one.days, one.free, one.lost) == (1, 0, 0.1)
        assert late(found, {"gqa": at("2026-10-17T00:00:00")})["gqa"].days == 2
        assert late(found, {"gqa": Arrival()}) == {}, "what nobody tells is in time"

    def test_a_time_with_its_own_zone_is_held_against_the_courses(self, tmp_path: Path) -> None:
        found = course(tmp_path, DUE)
        assert late(found, {"gqa": at("2026-10-15T21:59:00+00:00")}) == {}  # Berlin is two hours ahead in October
        assert late(found, {"gqa": at("2026-10-15T22:00:00+00:00")})["gqa"].days == 1

    def test_a_day_has_its_length_where_clocks_change(self, tmp_path: Path) -> None:
        found = course(tmp_path, '[deadlines]\ntimezone = "Europe/Berlin"\nall = 2026-10-24T12:00:00\n')
        assert late(found, {"gqa": at("2026-10-25T11:00:00")})["gqa"].days == 1
        assert late(found, {"gqa": at("2026-10-25T11:00:01")})["gqa"].days == 2, "24 hours, one of which came twice"

    def test_a_day_without_a_time_lasts_until_its_end(self, tmp_path: Path) -> None:
        found = course(tmp_path, '[deadlines]\ntimezone = "UTC"\nall = 2026-10-15\n')
        assert late(found, {"gqa": at("2026-10-15T23:59:59")}) == {}
        assert late(found, {"gqa": at("2026-10-16T00:00:00")})["gqa"].days == 1

    def test_late_days_are_taken_by_deadline_and_once_an_assignment(self, tmp_path: Path) -> None:
        text = f"{DUE}rope = 2026-10-20T12:00:00\n[late]\ndays = 3\npenalty = 0.25\n"
        told = late(course(tmp_path, text), {"rope": at("2026-10-22T12:00:00"), "gqa": at("2026-10-17T12:00:00")})
        assert {kata: (each.days, each.free, each.lost) for kata, each in told.items()} == {
            "gqa": (2, 2, 0.0),
            "rope": (2, 1, 0.25),
        }
        both = late(
            course(tmp_path, f"{DUE}[late]\ndays = 2\npenalty = 0.25\n"), dict.fromkeys(KATAS, at("2026-10-17"))
        )
        assert [(each.days, each.free, each.lost) for each in both.values()] == [(2, 2, 0.0)] * 2

    def test_no_more_is_lost_than_there_is(self, tmp_path: Path) -> None:
        found = course(tmp_path, f"{DUE}[late]\npenalty = 0.4\n")
        assert late(found, {"gqa": at("2026-12-01")})["gqa"].lost == 1.0

    def test_an_extension_holds_for_a_kata_or_all_and_never_shortens(self, tmp_path: Path) -> None:
        text = f'{DUE}rope = 2026-10-30\n[extensions.Ada]\nall = 2026-10-18\n[extensions."1912"]\ngqa = 2026-10-17\n'
        found = course(
            tmp_path, f'roster = "people.csv"\n{POINTS_TOML}{text}', people=PEOPLE.replace("Ada Lovelace", "Ada")
        )
        assert late(found, {"gqa": at("2026-10-18T20:00"), "rope": at("2026-10-29")}) == {}
        assert late(found, {"gqa": at("2026-10-19T20:00")})["gqa"].days == 1
        group = settings.applied(found, {("team 1", "gqa"): at("2026-10-17T20:00")}, ["team 1"], KATAS)
        assert set(group.late) == {("Grace Hopper", "gqa")}, "an extension is one member's"

    def test_grace_is_no_day(self, tmp_path: Path) -> None:
        found = course(tmp_path, f"{DUE}[late]\ngrace_minutes = 10\n")
        assert late(found, {"gqa": at("2026-10-16T00:09:00")}) == {}
        assert late(found, {"gqa": at("2026-10-16T00:10:00")})["gqa"].days == 1

    def test_a_mark_without_a_time_is_a_day_unless_there_is_an_extension(self, tmp_path: Path) -> None:
        found = course(tmp_path, f"{DUE}[late]\npenalty = 0.1\n[extensions.Bob]\nall = 2026-10-20\n")
        rules = settings.applied(
            found, {(who, "gqa"): Arrival(late=True) for who in ("Ada", "Bob")}, ["Ada", "Bob"], KATAS
        )
        ada, bob = (rules.late[who, "gqa"] for who in ("Ada", "Bob"))
        assert (ada.days, ada.lost, bob.days, bob.lost) == (1, 0.1, 0, 0.0)
        assert "tells no time: taken for a day" in ada.text
        assert "with the extension it counts as in time" in bob.text

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[deadlines]\nall = 2026-10-15", "deadlines.timezone is missing: add timezone ="),
            ('[deadlines]\ntimezone = "Berlin"\nall = 2026-10-15', "deadlines.timezone: there is no 'Berlin'"),
            (f"{DUE}gqq = 2026-10-15", "deadlines.gqq: 'gqq' is not a kata: did you mean gqa?"),
            (f'{DUE}gqa = "2026-10-15"', "deadlines.gqa is '2026-10-15': write a day or a time without quotes"),
            ("[late]\ndays = 3", "late without deadlines says nothing: add [deadlines]"),
            (f"{DUE}[late]\ndays = 1.5", "late.days is 1.5: write a whole number"),
            (f"{DUE}[late]\npenalty = 10", "late.penalty is 10: write the share"),
            (f"{DUE}[late]\nday = 1", "late.day: 'day' is not a key of [late]: did you mean days?"),
            (f"{DUE}[extensions.Ada]\nall = 2026-10-01", "extensions.Ada.all is before the deadline"),
            ("[visible]\ntiers = 'core'", "visible.tiers is 'core': write a list"),
            ("[visible]\ntiers = ['cor']", "visible.tiers.cor: 'cor' is not a tier: did you mean core?"),
            ("[visible]\ntiers = ['fast']", "without core"),
        ],
    )
    def test_what_says_nothing_clear_is_refused_with_its_key(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(Trouble) as trouble:
            course(tmp_path, text)
        assert said in str(trouble.value)
        assert "course.toml" in str(trouble.value)

    def test_an_extension_of_nobody_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(
            Trouble, match=r"course\.toml: extensions\.Adda: nobody is called 'Adda': did you mean Ada\?"
        ):
            late(course(tmp_path, f"{DUE}[extensions.Adda]\nall = 2026-10-20\n"), {"gqa": Arrival()})


METADATA = """\
submission_1:
  :submitters:
  - :name: A. Lovelace
    :sid: '1815'
  :created_at: 2026-10-15 22:30:00.000000000 Z
submission_2:
  :submitters:
  - :name: Somebody
    :email: ALAN@example.org
  - :name: Grace Hopper
  :created_at: 2026-10-14 22:30:00.000000000 Z
"""


class TestArrivals:
    def arrivals(self, where: Path, people: Roster | None = None) -> dict[str, Arrival]:
        submitted, _ = collect(where, {"gqa": catalog.katas()["gqa"]}, people)
        return {each.student: each.arrival for each in submitted}

    def test_gradescope_tells_the_time_and_numbers(self, tmp_path: Path) -> None:
        lay(
            tmp_path / "in",
            {"submission_metadata.yml": METADATA, "submission_1/gqa.py": "a", "submission_2/gqa.py": "b"},
        )
        (tmp_path / "people.csv").write_text(PEOPLE, "utf-8")
        assert self.arrivals(tmp_path / "in", roster.read(tmp_path / "people.csv")) == {
            "Ada Lovelace": Arrival(datetime(2026, 10, 15, 22, 30, tzinfo=UTC)),
            "team 1": Arrival(datetime(2026, 10, 14, 22, 30, tzinfo=UTC)),
        }

    def test_canvas_tells_that_it_is_late(self, tmp_path: Path) -> None:
        lay(tmp_path, {"adalovelace_LATE_12_345_gqa.py": "a", "turingalan_13_346_gqa.py": "b"})
        assert self.arrivals(tmp_path) == {"adalovelace": Arrival(late=True), "turingalan": Arrival()}

    def test_a_table_may_tell_the_time(self, tmp_path: Path) -> None:
        lay(tmp_path, {"t.csv": "student,path,time\nada,1/gqa.py,2026-10-15 10:00\nbob,2/gqa.py,noon\n"})
        lay(tmp_path, {"1/gqa.py": "a", "2/gqa.py": "b"})
        submitted, (problem,) = collect(tmp_path / "t.csv", catalog.katas())
        assert [each.arrival for each in submitted] == [at("2026-10-15T10:00")]
        assert problem.why.startswith("line 3 of t.csv: 'noon' is no time: write it as")

    def test_of_two_uploads_the_later_counts(self, tmp_path: Path) -> None:
        told = METADATA.replace("A. Lovelace", "Grace Hopper").replace("'1815'", "'1906'")
        lay(tmp_path / "in", {"submission_metadata.yml": told, "submission_1/gqa.py": "a", "submission_2/gqa.py": "b"})
        (tmp_path / "people.csv").write_text(PEOPLE, "utf-8")
        (one,), problems = collect(tmp_path / "in", catalog.katas(), roster.read(tmp_path / "people.csv"))
        assert (one.student, one.path) == ("team 1", "submission_1/gqa.py")
        assert "was uploaded after it, and counts" in problems[0].why

    def test_moodles_worksheet_tells_the_time_by_name_address_or_number(self, tmp_path: Path) -> None:
        found = course(
            tmp_path,
            f'roster = "people.csv"\nmoodle_worksheet = "sheet.csv"\n{POINTS_TOML}{DUE}',
            people=PEOPLE,
            sheet=SHEET,
        )
        units = ("Ada Lovelace", "team 1", "Żak 小明")
        rules = settings.applied(found, {(unit, "gqa"): Arrival() for unit in units}, units, KATAS)
        assert {name: each.days for (name, _), each in rules.late.items()} == {
            "Ada Lovelace": 1,
            "Alan Turing": 3,
            "Grace Hopper": 3,
        }

    def test_a_time_in_another_language_is_told_with_its_line(self, tmp_path: Path) -> None:
        found = course(
            tmp_path, f'moodle_worksheet = "sheet.csv"\n{POINTS_TOML}{DUE}', sheet=SHEET.replace("Friday", "Freitag")
        )
        with pytest.raises(Trouble, match=r"sheet\.csv, line 2: 'Freitag.*set Moodle to English"):
            settings.applied(found, {}, [], KATAS)


SHEET = (
    "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
    "Last modified (submission),Last modified (grade),Feedback comments\n"
    'Participant 11,Ada L.,ada@example.org,Submitted,,22.00,Yes,"Friday, 16 October 2026, 9:15 AM",-,\n'
    'Participant 12,Alan Turing,,Submitted,,22.00,Yes,"Sunday, October 18, 2026, 9:15 AM",-,\n'
    "Participant 13,Żak 小明,zak@example.org,No submission,,22.00,Yes,-,-,\n"
)


class TestRoster:
    def people(self, folder: Path, text: str = PEOPLE) -> Roster:
        (folder / "people.csv").write_text(text, "utf-8")
        return roster.read(folder / "people.csv")

    @pytest.mark.parametrize(
        ("said", "unit"),
        [
            ("Ada Lovelace", "Ada Lovelace"),
            ("ada  LOVELACE", "Ada Lovelace"),
            ("Lovelace, Ada", "Ada Lovelace"),
            ("lovelaceada", "Ada Lovelace"),
            ("1815", "Ada Lovelace"),
            ("ada@example.org", "Ada Lovelace"),
            ("ada", "Ada Lovelace"),
            ("Alan Turing", "team 1"),
            ("TEAM 1", "team 1"),
            ("Z\u0307ak 小明", "Żak 小明"),
            ("Lovelace", None),
            ("Eve", None),
        ],
    )
    def test_a_name_is_found_however_a_platform_writes_it(self, tmp_path: Path, said: str, unit: str | None) -> None:
        assert self.people(tmp_path, PEOPLE).unit_of(Person(said)) == unit

    def test_groups_are_the_same_in_capitals_or_not(self, tmp_path: Path) -> None:
        assert self.people(tmp_path).members_of("team 1") == ("Alan Turing", "Grace Hopper")

    def test_a_number_is_surer_than_a_name(self, tmp_path: Path) -> None:
        people = self.people(tmp_path, "Student,ID,SIS User ID,SIS Login ID,Section\nA B,12,,,\nB A,13,,,\n")
        assert people.unit_of(Person("ba")) is None, "both may be meant"
        assert people.unit_of(Person("ba", ("canvas:13",))) == "B A"

    @pytest.mark.parametrize(
        "text",
        [
            "Student,ID,SIS User ID,SIS Login ID,Section,Quiz (9)\n    Points Possible,,,,,3\n"
            '"Lovelace, Ada",12,1815,al1815,S1,\n"Student, Test",99,,,S1,\n',
            "First Name,Last Name,SID,Email,Sections\nAda,Lovelace,1815,ada@example.org,S1\n",
            "Name;SID;E-Mail\nAda Lovelace;1815;ada@example.org\n",
        ],
    )
    def test_the_tables_of_platforms_are_rosters(self, tmp_path: Path, text: str) -> None:
        (one,) = self.people(tmp_path, text).members
        assert (one.number, self.people(tmp_path, text).named("lovelaceada")) == ("1815", (one.name,))

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("number\n1\n", "line 2: it names no student"),
            ("student,number\nAda,1\nBob,1\n", "line 3: the number 1 stands in line 2 already"),
            ("student,email\nAda,a@b.c\nBob,A@B.C\n", "line 3: the email A@B.C stands in line 2 already"),
            ("student\nAda\nAda\n", "line 2: there are 2 students called Ada: give each a number"),
            ("student,group\nAda,\nBob,ada\n", "line 3: the group ada is called as a student is"),
            ("student,group\nAda,\nBob,a,b\n", "line 3: it has 3 cells under 2 heads: quote a comma"),
            ("student\n", "line 1: there is nobody below it"),
        ],
    )
    def test_what_names_nobody_clearly_is_refused_with_its_line(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(Trouble) as trouble:
            self.people(tmp_path, text)
        assert f"people.csv, {said}" in str(trouble.value)

    def test_who_is_not_on_it_is_told_and_graded(self, tmp_path: Path) -> None:
        lay(tmp_path / "in", {"Ada Lovelace/gqa.py": "a", "Eve/gqa.py": "e", "Alan Turing/gqa.py": "t"})
        submitted, (problem,) = collect(tmp_path / "in", catalog.katas(), self.people(tmp_path))
        assert [each.student for each in submitted] == ["Ada Lovelace", "Eve", "team 1"]
        assert problem == Problem(
            "",
            "Eve",
            "'Eve' is nobody on the roster, or one of several: add the name, number or e-mail address to it",
        )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A class of a group, one who is late and decided about, and one who has handed in nothing."""
    found = course(
        tmp_path,
        f'title = "Homework 3"\nroster = "people.csv"\ndecisions = "decided.csv"\nmoodle_worksheet = "sheet.csv"\n'
        f'{POINTS_TOML}[visible]\ntiers = ["core"]\n{DUE}[late]\ndays = 1\npenalty = 0.1\n',
        people=PEOPLE,
        decided="student,kata,points,reason\n1912,rope,8.5,We talked.\n",
        sheet=SHEET,
    )
    results = [graded("Ada Lovelace", "gqa"), graded("team 1", "gqa", "r"), graded("team 1", "rope", why="undecided")]
    arrivals = {("Ada Lovelace", "gqa"): at("2026-10-15"), ("team 1", "gqa"): at("2026-10-17T12:00")}
    rules = settings.applied(found, arrivals, ["Ada Lovelace", "team 1"], KATAS)
    write_all(results, [Problem("team 1", "team 1/x.py", "it is empty")], [], Folder(tmp_path / "out"), rules)
    return tmp_path / "out"


def test_a_groups_work_counts_for_each_and_who_has_none_is_there(out: Path) -> None:
    grades = {row["student"]: row for row in rows(out / "grades.csv")}
    assert list(grades) == ["Ada Lovelace", "Alan Turing", "Grace Hopper", "Żak 小明"]
    assert (grades["Ada Lovelace"]["points"], grades["Ada Lovelace"]["number"]) == ("10", "1815")
    assert (grades["Żak 小明"]["points"], grades["Żak 小明"]["of"]) == ("0", "20")
    assert (grades["Grace Hopper"]["gqa"], grades["Alan Turing"]["gqa"]) == ("6.3", "6.3"), "7 of 10, less a tenth"
    assert grades["Grace Hopper"]["late days used"] == "1"
    assert {row["verdict"] for row in rows(out / "results.csv") if row["student"] == "Żak 小明"} == {"missing"}
    for name in ("Alan-Turing", "Grace-Hopper"):
        assert "it is empty" in (out / "feedback" / f"{name}.md").read_text("utf-8")


def test_a_decision_stands_above_the_verdict(out: Path) -> None:
    grades = {row["student"]: row for row in rows(out / "grades.csv")}
    assert (grades["Alan Turing"]["rope"], grades["Alan Turing"]["a person must look at"]) == ("8.5", "")
    assert (grades["Grace Hopper"]["rope"], grades["Grace Hopper"]["a person must look at"]) == ("", "rope")
    (row,) = (r for r in rows(out / "results.csv") if (r["student"], r["kata"]) == ("Alan Turing", "rope"))
    assert (row["verdict"], row["points"], row["decided"]) == ("decided", "8.5", "We talked.")
    told = (out / "feedback" / "Alan-Turing.md").read_text("utf-8")
    assert "A person has given 8.5 points: We talked." in told
    assert "8.5 of 10" in told
    assert "A person will look" not in told
    tests = json.loads((out / "gradescope" / "Alan-Turing" / "results.json").read_text("utf-8"))["tests"]
    (test,) = (test for test in tests if test["name"] == "rope")
    assert (test["score"], test["max_score"], test["visibility"]) == (8.5, 10, "visible")
    page = (out / "class.html").read_text("utf-8")
    assert "1 decided by a person" in page
    assert "We talked." in page[page.index('id="decided"') : page.index('id="late"')]


def test_being_late_is_shown_with_what_it_costs(out: Path) -> None:
    said = (
        "2 days late (due 2026-10-15 23:59, handed in 2026-10-17 12:00), 1 of them free, which costs 10% of its points"
    )
    (row,) = (r for r in rows(out / "results.csv") if (r["student"], r["kata"]) == ("Grace Hopper", "gqa"))
    assert (row["late"], row["points"]) == (said, "6.3")
    for kind in ("md", "html"):
        assert "2 days late" in (out / "feedback" / f"Grace-Hopper.{kind}").read_text("utf-8")
    assert said in (out / "class.html").read_text("utf-8")


def test_students_see_what_is_visible_and_grades_count_all(out: Path) -> None:
    told = (out / "feedback" / "Grace-Hopper.md").read_text("utf-8")
    page = (out / "feedback" / "Grace-Hopper.html").read_text("utf-8")
    assert "| gqa | right | passed | 5.4 of 6 |" in told, "core alone: 6 points, less a tenth"
    for text in (told, page):
        assert "Only core is shown here: robust and fast will count too." in text
        assert "failed" not in text
        assert "hold robust" not in text
        assert "the halves" not in text, "the cause is robust's"
        assert "6.3" not in text
    found = json.loads((out / "gradescope" / "Grace-Hopper" / "results.json").read_text("utf-8"))
    shown = {test["name"]: test["visibility"] for test in found["tests"] if test["name"].startswith("gqa")}
    assert shown == {"gqa: late": "visible", "gqa: core": "visible", "gqa: robust": "hidden", "gqa: fast": "hidden"}
    assert found["score"] == 6.3
    scores = {test["name"]: test.get("score") for test in found["tests"]}
    assert (scores["gqa: core"], scores["gqa: robust"], scores["gqa: fast"]) == (5.4, 0, 0.9)
    assert all(test["status"] != "failed" for test in found["tests"] if test["name"] in ("gqa: core", "gqa: fast"))


def test_a_shown_check_whose_cause_is_held_back_is_told_by_itself(tmp_path: Path) -> None:
    one = graded("Ada", "gqa", "cr")
    for check in one.verdict["checks"]:
        check["cause"] = "TestIt::test_values_hold_robust" if check["outcome"] == "wrong" else None
    rules = Rules(course(tmp_path, '[visible]\ntiers = ["core"]\n'))
    write_all([one], [], [], Folder(tmp_path), rules)
    assert "core: It: must hold: values hold core: wrong" in (tmp_path / "feedback" / "Ada.md").read_text("utf-8")


def test_platforms_get_their_own_tables_without_who_waits(out: Path) -> None:
    canvas = list(csv.reader((out / "grades-canvas.csv").read_text("utf-8-sig").splitlines()))
    assert canvas == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Homework 3"],
        ["Points Possible", "", "", "", "", "20"],
        ["Ada Lovelace", "", "1815", "ada@example.org", "", "10"],
        ["Alan Turing", "", "1912", "alan@example.org", "", "14.8"],
        ["Żak 小明", "", "7", "zak@example.org", "", "0"],
    ]
    head, *filled = csv.reader((out / "grades-moodle.csv").read_text("utf-8").splitlines())
    assert head == SHEET.splitlines()[0].lstrip("\ufeff").split(",")
    assert [(row[0], row[4], row[5]) for row in filled] == [
        ("Participant 11", "10", "22.00"),
        ("Participant 12", "14.8", "22.00"),
        ("Participant 13", "0", "22.00"),
    ]
    assert filled[0][-1] == "gqa: right.; rope: missing."


def test_moodles_gradebook_is_told_apart_by_number_without_a_worksheet(tmp_path: Path) -> None:
    found = course(tmp_path, f'roster = "people.csv"\n{POINTS_TOML}', people=PEOPLE)
    write_all([graded("Ada Lovelace", "gqa")], [], [], Folder(tmp_path), Rules(found))
    (ada, *_) = rows(tmp_path / "grades-moodle.csv")
    assert ada == {"ID number": "1815", "Email address": "ada@example.org", "Katas": "10"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Adda,gqa,1,x", "line 2: nobody is called 'Adda': did you mean Ada?"),
        ("Ada,gqq,1,x", "line 2: no kata that is graded is called 'gqq': did you mean gqa?"),
        ("Ada,gqa,ten,x", "line 2: 'ten' are no points: write a number"),
        ("Ada,gqa,-1,x", "line 2: '-1' are no points"),
        ("Ada,gqa,nan,x", "line 2: 'nan' are no points"),
        ("Ada,gqa,1,", "line 2: it gives no reason"),
        ("Ada,gqa,1,x\nada,gqa,2,y", "line 3: line 2 decides about Ada and gqa already"),
        ('Ada,gqa,1,"x\ny"\nBob,gqa,1,z\nEve,gqa,1,z', "line 5: nobody is called 'Eve'"),
    ],
)
def test_a_decision_that_says_nothing_clear_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "decided.csv").write_text(f"student,kata,points,reason\n{text}\n", "utf-8")
    with pytest.raises(Trouble) as trouble:
        decisions.read(tmp_path / "decided.csv", Roster(), ["Ada", "Bob"], KATAS)
    assert f"decided.csv, {said}" in str(trouble.value)


def test_a_decision_about_a_group_is_about_each(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE, "utf-8")
    (tmp_path / "decided.csv").write_text("student;kata;points;reason\nteam 1;gqa;7;x\n", "utf-8")
    found = decisions.read(tmp_path / "decided.csv", roster.read(tmp_path / "people.csv"), [], KATAS)
    assert found == {(name, "gqa"): Decision(7.0, "x") for name in ("Alan Turing", "Grace Hopper")}


def test_a_worksheet_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "sheet.csv").write_text("a,b\n1,2\n", "utf-8")
    with pytest.raises(Trouble, match=r"sheet\.csv, line 1: there is no column 'identifier', but a, b"):
        worksheet.read(tmp_path / "sheet.csv", Roster())


def test_the_course_to_copy_is_one_and_gives_full_marks_without_fast(tmp_path: Path) -> None:
    found = settings.read(ROOT / "docs" / "classroom" / "course.toml", KATAS)
    assert found.rubric is not None
    assert (found.rubric.most("gqa"), found.rubric.most("rope")) == (10, 14)
    assert [each.name for each in found.roster.members] == ["Ada Lovelace", "Alan Turing", "Grace Hopper"]
    rules = settings.applied(found, {}, [each.unit for each in found.roster.members], KATAS)
    assert set(rules.decisions) == {("Ada Lovelace", "rope")}
    sums = {}
    for wrong in ("", "f", "r", "c"):
        results = [graded("Eve", "gqa", wrong), graded("Eve", "rope", "f" if wrong else "")]
        write_all(results, [], [], Folder(tmp_path / f"out{wrong}"), Rules(Course(rubric=found.rubric)))
        (eve,) = rows(tmp_path / f"out{wrong}" / "grades.csv")
        sums[wrong] = (eve["points"], eve["of"])
    assert sums == {"": ("22", "22"), "f": ("22", "22"), "r": ("20", "22"), "c": ("13", "22")}
