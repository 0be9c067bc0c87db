"""What a teacher gets of a graded class: tables, feedback, Gradescope's results, the class page, grades by a rubric."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dojo.cohort.copies import Pair, Printed
from dojo.cohort.course import settings
from dojo.cohort.course.decisions import Decision
from dojo.cohort.course.roster import Member, Roster
from dojo.cohort.course.rubric import Rubric
from dojo.cohort.course.settings import Course, Rules
from dojo.cohort.outputs import alike
from dojo.cohort.outputs.writing import Folder, file_names, write_all
from dojo.cohort.records import Problem, Result, Submitted
from dojo.cohort.store import Store
from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.verdict.causes import assign
from dojo.verdict.page.heatmap import picture
from dojo.verdict.types import Check, Label, Outcome, Section, Tier, Verdict
from tests.conftest import chromium, in_browser

KATAS = ("gqa", "rope")
POINTS = Rubric({"core": 6, "robust": 3, "fast": 1}, {"rope": {"core": 10}})
RULES = Rules(Course(rubric=POINTS))
BUG = "pairs <b>the halves"
PICTURE = picture(torch.ones(4, 6), torch.zeros(4, 6, dtype=torch.float64), torch.full((4, 6), 2.0), ("seq", "dim"))
EVIL = "<script>alert(1)</script>"


def graded(
    student: str,
    kata: str,
    wrong: str = "",
    outcome: Outcome = Outcome.WRONG,
    says: str = "off",
    why: str = "",
    **more: object,
) -> Result:
    """A result of six checks, two a tier, of which those fail whose tier `wrong` names by its first letter."""
    checks = []
    for tier in Tier:
        for name in ("values", "shapes"):
            check = Check(f"TestIt::test_{name}_hold_{tier}", tier, Outcome.PASSED, 0.1)
            if tier[0] in wrong:
                check.outcome, check.sections = outcome, [Section(Label.EVENT, says)]
                check.diagnosis, check.picture = (BUG, PICTURE) if outcome is Outcome.WRONG else (None, None)
            checks.append(check)
    assign(checks)
    label = f"/home/teacher/{student}/{kata}.py"
    verdict = Verdict(kata, label, "failed" if wrong else "passed", checks, "cpu", "2.13.0", 1.5, 7)
    written = json.loads(json.dumps(verdict.to_json(pictures=True))) | more
    return Result(Submitted(student, kata, f"class.zip: {student}/{kata}.py", "x"), written, why, 1, 2.0)


def broken(student: str, kata: str, message: str) -> Result:
    return graded(student, kata, verdict="broken", standing=None, message=message, checks=[], tiers={})


UNCLOSED = "this is not valid Python\nFile \"a.py\", line 1\n  f(\nSyntaxError: '(' was never closed"
CLASS = [
    graded("Ada", "gqa"),
    graded("Ada", "rope", "r"),
    graded("Grace", "gqa", "crf", says="secret of Grace"),
    graded("=cmd()", "gqa", "c", Outcome.CRASHED, f"the attempt raised ValueError: {EVIL}"),
    broken("=cmd()", "rope", UNCLOSED),
    graded("Żak 小明", "gqa", "rf", why="undecided three times"),
    graded("Żak 小明", "rope", "f", Outcome.SLOW, "3 times slower"),
]
PROBLEMS = [
    Problem("Grace", "Grace/rope.ipynb", "is no notebook: save it again"),
    Problem("", "x/.DS_Store", "is nothing"),
]
PAIRS = [("Ada", "Grace", "gqa", 0.97), ("=cmd()", "the solution", "gqa", 0.8)]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def result_of(out: Path, student: str, kata: str) -> dict[str, str]:
    (found,) = (row for row in rows(out / "results.csv") if (row["student"], row["kata"]) == (student, kata))
    return found


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")

    def text(one: Printed) -> Submitted:
        return Submitted(one.student, "gqa", f"{one.student}/gqa.py", f"import torch\n\n# {one.student}\nx = 1\n")

    both = [Printed("gqa", name, b"") for name in ("Ada", "Grace")]
    side_by_side = alike.page([Pair(*both, 0.97, 0.8)], catalog.katas(), text)
    written = write_all(CLASS, PROBLEMS, PAIRS, Folder(path), RULES, side_by_side)
    assert {str(each.relative_to(path)) for each in written} == {
        *("results.csv", "grades.csv", "class.html", "alike.html"),
        *(f"feedback/{name}.{kind}" for name in ("Ada", "Grace", "cmd", "Żak-小明") for kind in ("md", "html")),
        *(f"gradescope/{name}/results.json" for name in ("Ada", "Grace", "cmd", "Żak-小明")),
    }
    return path


def test_a_row_says_verdict_tiers_points_and_the_first_cause(out: Path) -> None:
    assert len(rows(out / "results.csv")) == 8
    ada = result_of(out, "Ada", "rope")
    assert [ada[head] for head in ("verdict", "core", "robust", "fast")] == ["right", "passed", "failed", "passed"]
    assert (ada["points"], ada["of"], ada["seconds"], ada["first cause"]) == ("11", "14", "2.0", BUG)
    assert result_of(out, "'=cmd()", "gqa")["points"] == "0", "what is not core is neither robust nor fast"
    assert result_of(out, "Ada", "gqa")["points"] == "10"
    assert (
        result_of(out, "'=cmd()", "rope")["first cause"]
        == "this is not valid Python: SyntaxError: '(' was never closed"
    )
    missing = result_of(out, "Grace", "rope")
    assert (missing["verdict"], missing["points"], missing["first cause"]) == ("missing", "0", PROBLEMS[0].why)


def test_no_cell_is_a_formula_to_a_spreadsheet(out: Path, tmp_path: Path) -> None:
    for name in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "＝1", "a\n=1", "\ud800"):
        write_all([graded(name, "gqa")], [], [], Folder(tmp_path), Rules())
        for row in rows(tmp_path / "results.csv"):
            assert not any(cell[:1] in ("=", "+", "-", "@", "＝", "\t", "\r") for cell in row.values()), row
            assert row["student"].isprintable()
    assert (out / "results.csv").read_bytes().startswith(b"\xef\xbb\xbf"), "spreadsheets know UTF-8 by its mark"


def test_what_a_person_must_look_at_counts_neither_for_nor_against_anybody(out: Path) -> None:
    row = result_of(out, "Żak 小明", "gqa")
    assert (row["verdict"], row["points"], row["core"], row["first cause"]) == (
        "for a person",
        "",
        "",
        "undecided three times",
    )
    grades = {each["student"]: each for each in rows(out / "grades.csv")}
    assert (grades["Żak 小明"]["points"], grades["Żak 小明"]["of"]) == ("13", "14")
    assert grades["Żak 小明"]["a person must look at"] == "gqa"
    told = json.loads((out / "gradescope" / "Żak-小明" / "results.json").read_text("utf-8"))
    (waits,) = (test for test in told["tests"] if test["name"] == "gqa")
    assert "score" not in waits
    assert "max_score" not in waits
    assert told["score"] == 13
    for text in ((out / "feedback" / f"Żak-小明.{kind}").read_text("utf-8") for kind in ("md", "html")):
        assert "A person will look at this one" in text
        assert "undecided" not in text
    page = (out / "class.html").read_text("utf-8")
    assert "6 attempts judged, of which 3 right (50%), 1 of them passed" in page
    hardest = page[page.index('id="checks"') : page.index('id="person"')]
    assert 'It: shapes hold core</th>\n<td class="n" data-sort="2">2 of 3</td>' in hardest


@pytest.mark.parametrize("outcome", [Outcome.GRADER_ERROR, Outcome.SKIPPED])
def test_a_fault_of_the_grader_is_for_a_person_though_nobody_said_so(outcome: Outcome, tmp_path: Path) -> None:
    write_all([graded("Ada", "gqa", "crf", outcome, verdict="failed")], [], [], Folder(tmp_path), RULES)
    assert result_of(tmp_path, "Ada", "gqa")["verdict"] == "for a person"
    write_all([graded("Ada", "gqa", verdict="unjudged", checks=[], tiers={})], [], [], Folder(tmp_path), RULES)
    assert result_of(tmp_path, "Ada", "gqa")["verdict"] == "for a person"


def test_no_doubt_stands_above_a_failure_of_core(tmp_path: Path) -> None:
    failed = graded("Ada", "gqa", "c", why="too close to call: It: shapes hold fast", verdict="failed")
    for check in failed.verdict["checks"][2:4]:
        check["outcome"] = "grader error"
    write_all([failed], [], [], Folder(tmp_path), RULES)
    assert result_of(tmp_path, "Ada", "gqa")["verdict"] == "wrong"


def test_feedback_shows_pictures_and_quotes_nobody_else(out: Path) -> None:
    page, text = ((out / "feedback" / f"Ada.{kind}").read_text("utf-8") for kind in ("html", "md"))
    assert page.count("data:image/png") == 3
    for each in (page, text):
        assert "rope.py" in each or each is text
        assert not any(word in each for word in ("Grace", "cmd()", "小明", "secret", "/home/teacher", "class.zip"))
    assert r"It equals **pairs \<b\>the halves**" in text
    assert "| rope | right | passed | failed | passed | 11 of 14 |" in text
    assert "All katas together: 21 of 24 points." in text
    grace = (out / "feedback" / "Grace.md").read_text("utf-8")
    assert "## rope: missing" in grace
    assert grace.count(PROBLEMS[0].why) == 2
    assert "DS" not in grace


def test_an_attempt_writes_into_no_page(out: Path) -> None:
    for path in out.rglob("*.html"):
        assert EVIL not in path.read_text("utf-8")
    fenced = graded("Ada", "gqa", "c", says="```\n# I passed\n[x](javascript:1)")
    write_all([fenced], [], [], Folder(out.parent / "fences"), Rules())
    told = (out.parent / "fences" / "feedback" / "Ada.md").read_text("utf-8")
    assert "````text\n```\n# I passed" in told


def test_gradescope_reads_the_results(out: Path) -> None:
    told = json.loads((out / "gradescope" / "Ada" / "results.json").read_text("utf-8"))
    assert told["score"] == 21
    assert isinstance(told["execution_time"], int)
    assert told["visibility"] == "visible"
    assert [(test["name"], test["score"], test["max_score"], test["status"]) for test in told["tests"]] == [
        *(("gqa: core", 6, 6, "passed"), ("gqa: robust", 3, 3, "passed"), ("gqa: fast", 1, 1, "passed")),
        *(("rope: core", 10, 10, "passed"), ("rope: robust", 0, 3, "failed"), ("rope: fast", 1, 1, "passed")),
    ]
    known = {"name", "score", "max_score", "status", "output", "visibility"}
    assert all(set(test) == known and isinstance(test["output"], str) for test in told["tests"])
    assert (
        "0 of 2 checks passed\n\nIt: must hold: values hold robust: wrong\nequals: pairs" in told["tests"][4]["output"]
    )
    late = json.loads((out / "gradescope" / "cmd" / "results.json").read_text("utf-8"))["tests"]
    assert (late[1]["status"], late[1]["score"]) == ("failed", 0)
    assert late[1]["output"].startswith("This holds, and counts once core does.")


NAMES = [
    *(
        "Ada",
        "ADA",
        "ada",
        "Zoë",
        unicodedata.normalize("NFD", "Zoë"),
        "ﬁ",
        "fi",
        "Straße",
        "STRASSE",
        "..",
        "../x",
        "x",
    ),
    *(
        "a/b",
        "a b",
        "a\\b",
        "a:b",
        "CON",
        "nul.txt",
        "",
        " ",
        "🦊",
        "🐻",
        "محمد",
        "ʻOkina",
        "x" * 300,
        "x" * 301,
        "\ud800",
        "\x00",
    ),
    *("小" * 100, "a\u202eb", "~", "$HOME", "-rf", "Ada-9", "*?[a]"),
]


def test_names_of_files_are_safe_and_nobody_shares_one(tmp_path: Path) -> None:
    names = file_names(NAMES)
    assert names["محمد"] == "محمد"
    assert names["a b"] == f"a-b-{names['a b'][-8:]}"
    assert file_names(["Ada Lovelace"]) == {"Ada Lovelace": "Ada-Lovelace"}
    folded = {unicodedata.normalize("NFKC", name).casefold() for name in names.values()}
    assert len(folded) == len(set(NAMES))
    for name in names.values():
        (tmp_path / f"{name}.html").touch()
        assert (tmp_path / f"{name}.html").parent == tmp_path
        assert not set(name) & set('/\\:*?"<>|$~ \0')
        assert not name.startswith(("-", "."))
        assert name.partition(".")[0].upper() not in ("CON", "NUL")


def test_what_is_replaced_is_kept_and_what_stays_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("mine")
    write_all(CLASS, PROBLEMS, PAIRS, Folder(tmp_path), RULES)
    (kept,) = (tmp_path / "earlier").rglob("*.*")
    assert kept.name == "results.csv"
    assert kept.read_text() == "mine"
    write_all(CLASS, PROBLEMS, PAIRS, Folder(tmp_path), RULES)
    assert len(list((tmp_path / "earlier").iterdir())) == 1
    before = (tmp_path / "feedback" / "Ada.md").read_text("utf-8")
    write_all([graded("Ada", "rope"), *CLASS[2:]], PROBLEMS, PAIRS, Folder(tmp_path), RULES)
    (kept,) = (tmp_path / "earlier").glob("*/feedback/Ada.md")
    assert kept.read_text("utf-8") == before
    assert not list((tmp_path / "earlier").glob("*/feedback/Grace.md"))


def test_what_a_watched_class_writes_again_and_again_is_kept_only_where_somebody_else_has_changed_it(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    for number in (2, 3, 4):
        write_all(CLASS[:number], PROBLEMS, PAIRS, folder, RULES)
    assert not (tmp_path / "earlier").exists()
    (tmp_path / "class.html").write_text("mine")
    write_all(CLASS, PROBLEMS, PAIRS, folder, RULES)
    (kept,) = (tmp_path / "earlier").rglob("*.*")
    assert kept.read_text() == "mine"


@pytest.fixture
def of_a_store(tmp_path: Path) -> Iterator[Callable[..., set[str]]]:
    """Writes a class out of a store, and says which files are new."""
    with Store(tmp_path / "cohort.sqlite") as store:
        store.take([result.submitted for result in CLASS], PROBLEMS)
        for result in CLASS:
            store.put(result, "terms")

        def written(*changed: Result, rules: Rules = RULES) -> set[str]:
            for result in changed:
                store.put(result, "terms")
            before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
            write_all(list(store.briefly(KATAS)), store.problems(), [], Folder(tmp_path), rules, store=store)
            kinds = {".csv", ".html", ".md", ".json"}
            now = [path for path in tmp_path.rglob("*") if path.suffix in kinds and "earlier" not in path.parts]
            return {str(p.relative_to(tmp_path)) for p in now if before.get(p) != p.stat().st_mtime_ns}

        yield written


def test_out_of_a_store_the_same_is_written_as_of_whole_results(
    of_a_store: Callable[..., set[str]], tmp_path: Path
) -> None:
    files = of_a_store()
    write_all(sorted(CLASS, key=lambda each: each.submitted), PROBLEMS, [], Folder(tmp_path / "whole"), RULES)
    for name in files:
        one, other = ((tmp_path / where / name).read_text("utf-8") for where in ("", "whole"))
        assert re.sub("made [^;]*;", "", one) == re.sub("made [^;]*;", "", other), name
    assert len(files) == 3 + 4 * 3


def test_only_what_changed_is_written(of_a_store: Callable[..., set[str]], tmp_path: Path) -> None:
    everything = of_a_store()
    assert of_a_store() == set()
    adas = {"feedback/Ada.html", "feedback/Ada.md", "gradescope/Ada/results.json"}
    assert of_a_store(graded("Ada", "rope")) == {"results.csv", "grades.csv", "class.html", *adas}
    (tmp_path / "feedback" / "Grace.md").unlink()
    assert of_a_store() == {"feedback/Grace.md"}
    rubric = Rubric({"core": 7, "robust": 3, "fast": 1}, {"rope": {"core": 11}})
    assert of_a_store(rules=Rules(Course(rubric=rubric))) == everything


def test_what_a_course_says_of_one_student_is_told_to_that_one(
    of_a_store: Callable[..., set[str]], tmp_path: Path
) -> None:
    of_a_store()
    decided = replace(RULES, decisions={("Ada", "rope"): Decision(7, "We talked.")})
    adas = {"feedback/Ada.html", "feedback/Ada.md", "gradescope/Ada/results.json"}
    assert of_a_store(rules=decided) == {"results.csv", "grades.csv", "class.html", *adas}
    assert "7 points: We talked." in (tmp_path / "feedback" / "Ada.md").read_text("utf-8")


def test_out_of_a_store_what_a_group_hands_in_is_told_to_each(
    of_a_store: Callable[..., set[str]], tmp_path: Path
) -> None:
    members = [Member(name, group="Grace") for name in ("Grace Hopper", "Alan Turing")]
    rules = replace(RULES, course=replace(RULES.course, roster=Roster((*members, Member("Ada")))))
    of_a_store(rules=rules)
    told = [(tmp_path / "feedback" / f"{name}.md").read_text("utf-8") for name in ("Grace-Hopper", "Alan-Turing")]
    assert all("secret of Grace" in text for text in told)
    assert "secret of Grace" not in (tmp_path / "feedback" / "Ada.md").read_text("utf-8")
    telling = {
        f"{place}{name}{kind}"
        for name in ("Grace-Hopper", "Alan-Turing")
        for place, kind in (("feedback/", ".md"), ("feedback/", ".html"), ("gradescope/", "/results.json"))
    }
    assert telling <= of_a_store(graded("Grace", "gqa"), rules=rules)


def test_who_is_told_the_same_is_not_read(of_a_store: Callable[..., set[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    of_a_store()
    read = list[str]()

    def results(store: Store, katas: list[str], student: str) -> list[Result]:
        read.append(student)
        return []

    monkeypatch.setattr(Store, "results", results)
    of_a_store(graded("Grace", "gqa"))
    assert read == ["Grace"]


def test_of_two_attempts_at_a_kata_both_are_rows_and_the_better_counts(tmp_path: Path) -> None:
    write_all([graded("Ada", "gqa"), graded("Ada", "gqa", "crf")], [], [], Folder(tmp_path), RULES)
    assert [row["verdict"] for row in rows(tmp_path / "results.csv")] == ["passed", "wrong"]
    assert rows(tmp_path / "grades.csv")[0]["points"] == "10"


def test_nobody_handing_in_is_no_error(tmp_path: Path) -> None:
    write_all([], [], [], Folder(tmp_path), RULES)
    assert rows(tmp_path / "results.csv") == []
    assert "Nobody has handed anything in" in (tmp_path / "class.html").read_text("utf-8")
    write_all([], PROBLEMS, [], Folder(tmp_path), RULES)
    assert "could not be read" in (tmp_path / "feedback" / "Grace.md").read_text("utf-8")


def read(text: str, tmp_path: Path, graded: tuple[str, ...] = ()) -> Rubric:
    path = tmp_path / "rubric.toml"
    path.write_text(text, "utf-8")
    found = settings.read(path, graded, ("gqa", "rope")).rubric
    assert found is not None
    return found


def test_a_rubric_has_a_default_katas_and_bounds(tmp_path: Path) -> None:
    points = "[default]\ncore = 6\nrobust = 3\n[katas.gqa]\nrobust = 5.5\n"
    found = read(f"core_first = false\n{points}[bounds]\nlowest = 2\nhighest = 9", tmp_path, KATAS)
    assert found.of_tiers("gqa") == {"core": 6, "robust": 5.5, "fast": 0}
    assert found.most("rope") == 9
    assert found.earned("gqa", "failed", {"core": "failed", "robust": "passed"}) == {
        "core": 0,
        "robust": 5.5,
        "fast": 0,
    }
    assert (found.bounded(0), found.bounded(5), found.bounded(99)) == (2, 5, 9)
    assert POINTS.earned("gqa", "passed", {"core": "passed"}) == {"core": 6, "robust": 3, "fast": 1}, (
        "a kata of one tier"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[default]\ncor = 1", "default.cor: 'cor' is not a tier: did you mean core?"),
        ("[katas.gqq]\ncore = 1", "katas.gqq: 'gqq' is not a kata: did you mean gqa?"),
        ("[defaults]\ncore = 1", "defaults: 'defaults' is not a key of a course: did you mean default?"),
        ("[default]\ncore = '6'", "default.core is '6': write a number, 0 or more, as in core = 3"),
        ("[default]\ncore = true", "default.core is True: write a number"),
        ("[default]\ncore = -1", "default.core is -1: write a number"),
        ("[default]\ncore = nan", "default.core is nan: write a number"),
        ("default = 3", "default is 3 and must be a table: write [default]"),
        ("katas = ['gqa']", "katas is ['gqa'] and must be a table"),
        ("[katas]\ngqa = 3", "katas.gqa is 3 and must be a table"),
        ("core_first = 'yes'\n[default]\ncore = 1", "core_first is 'yes': write true"),
        ("[default]\ncore = 1\n[bounds]\nlowest = 3\nhighest = 1", "bounds.lowest is 3 and bounds.highest 1"),
        ("[katas.gqa]\ncore = 1", "says nothing of rope: add a table [default] or [katas.rope]"),
        ("[default\n", "is no TOML"),
    ],
)
def test_a_rubric_that_says_nothing_clear_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(Trouble) as trouble:
        read(text, tmp_path, KATAS)
    assert said in str(trouble.value)
    assert "rubric.toml" in str(trouble.value)


def test_a_rubric_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match=r"none\.toml cannot be read"):
        settings.read(tmp_path / "none.toml")


def test_the_class_page_lists_what_stands_out(out: Path) -> None:
    page = (out / "class.html").read_text("utf-8")
    assert "src=" not in page.replace('src="data:', "")
    assert "https://" not in page
    for said in (
        "undecided three times",
        "is no notebook",
        "97%",
        "the solution",
        "pairs &lt;b&gt;the halves",
        "judges nobody",
    ):
        assert said in page, said
    assert 'aria-label="right, not robust: pairs &lt;b&gt;the halves">C··</td>' in page


@in_browser
def test_the_class_page_is_sorted_and_searched_with_the_keyboard_and_everybody_can_read_it(out: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with chromium() as browser:
        for width, scheme in ((390, "dark"), (1280, "light")):
            view = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
            errors: list[object] = []
            view.on("pageerror", lambda error, errors=errors: errors.append(error))
            for path in (out / "class.html", out / "alike.html", out / "feedback" / "Ada.html"):
                view.goto(path.as_uri())
                found = Axe().run(view)
                assert found.violations_count == 0, found.generate_report()
                assert view.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{path} is too wide"
            assert not errors
        view.goto((out / "class.html").as_uri())
        students = view.locator(".heat tbody tr:not([hidden]) th")
        view.locator(".heat th button", has_text="points").focus()
        view.keyboard.press("Enter")
        assert students.all_inner_texts() == ["=cmd()", "Grace", "Żak 小明", "Ada"]
        view.locator("#search").focus()
        view.keyboard.type("never CLOSED")
        assert students.all_inner_texts() == ["=cmd()"]
        assert view.locator("#searched").inner_text() == "2 of 26 rows"
        view.emulate_media(media="print")
        assert not view.locator("#search").is_visible()
        assert students.first.evaluate("each => getComputedStyle(each).position") == "static"
