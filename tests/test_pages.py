"""On no page do anybody's words mean anything but themselves: names, files, prints and messages are text there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from jinja2 import UndefinedError

from dojo.cohort.copies import Pair, Printed
from dojo.cohort.course.deadlines import Late
from dojo.cohort.course.decisions import Decision
from dojo.cohort.course.rubric import Rubric
from dojo.cohort.course.settings import Course, Rules
from dojo.cohort.outputs import alike, class_page, feedback
from dojo.cohort.outputs.grades import Class
from dojo.cohort.records import Problem, Result, Submitted
from dojo.content import catalog
from dojo.notebook import html as notebook_html
from dojo.practice import database, report
from dojo.verdict.page import card, html
from dojo.verdict.page.heatmap import picture
from dojo.verdict.types import Check, Label, Outcome, Section, Tier, Verdict
from tests.conftest import chromium, in_browser

HOSTILE = [
    "<script>document.title = 'taken'</script>",
    """'"><img src=x onerror="document.title = 'taken'">""",
    "</script></style></title></textarea></pre></td></svg>",
    "{{ 7 * 7 }}{% endblock %}{# #}",
    "&lt;b&gt; &amp;",
    "a\u202etxt.yp",
    "a\u2066b\x00c\x1b[31m",
]
PICTURE = picture(torch.ones(4, 6), torch.zeros(4, 6, dtype=torch.float64), torch.full((4, 6), 2.0), ("seq", "dim"))


def every_page(words: str) -> dict[str, str]:
    """Each page with these words wherever there can be those of a student, an attempt or a teacher."""
    outcomes = zip(Tier, (Outcome.WRONG, Outcome.CRASHED, Outcome.PASSED), strict=True)
    checks = [
        Check(f"test_{words}", tier, outcome, 0.1, [Section(Label.PRINTED, words)], diagnosis=words, picture=PICTURE)
        for tier, outcome in outcomes
    ]
    checks.append(Check(f"test_other_{words}", Tier.FAST, Outcome.WRONG, cause=checks[0].name))  # shares its cause
    failed = Verdict("rope", f"{words}.py", "failed", checks, words, words, 1.0, 7, help=words)
    broken = Verdict("gqa", words, "broken", [], "cpu", words, 1.0, 7, f"{words}\n{words}")
    passed = Verdict("lm", words, "passed", [], "cpu", words, 1.0, 7, words, help=words)
    verdicts = (failed, broken, passed)
    details = [json.loads(json.dumps(verdict.to_json(pictures=True))) for verdict in verdicts]
    failing = [{"name": check.name, "diagnosis": words} for check in checks]
    past = [
        database.Attempt(
            time.time() - 60, each["kata"], "grade", each["verdict"], {}, failing, 1.0, 90.0, 1, words, each
        )
        for each in details
    ]
    mine = Submitted(words, "rope", words, f"x = 1\n# {words}\n{words}\n")
    results = [
        Result(mine, details[0] | {"mentions": [words]}, "", 1, 2.0),
        Result(Submitted(words, "gqa", words, ""), details[1], "", 1, 2.0),
        Result(Submitted(words, "softmax", words, ""), details[0] | {"checks": []}, words, 1, 2.0),
        Result(Submitted(f"{words} too", "lm", words, ""), details[2], "", 1, 2.0),
    ]
    printed = Printed("rope", words, b"")
    rules = Rules(
        Course(rubric=Rubric({"core": 6, "robust": 3, "fast": 1})),
        {(words, "rope"): Late(words, words, 2, 0, 0.2, words)},
        {(words, "gqa"): Decision(3, words)},
    )
    found = Class(results, [Problem(words, words, words), Problem(words, "lm.py", words)], rules)
    return {
        "run": html.of_run(verdicts),
        "notebook": "".join(map(notebook_html.verdict_html, verdicts)),
        "report": report.of_history(past),
        "card": card.svg(failed, words, 3, 25, 21.4),
        "class": class_page.page(found, [(words, words, "rope", 0.9)], dict.fromkeys(found.students, words), True),
        "student": feedback.page(found, words),
        "alike": alike.page([Pair(printed, printed, 0.9, 0.9)], catalog.katas(), lambda printed: mine),
    }


class Parsed(HTMLParser):
    """A page's tags with the names of their attributes, and apart from them all that is a text or a value."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.texts = list[tuple[str, ...]](), list[str]()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.texts += [value or "" for _, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def harmless() -> dict[str, str]:
    return every_page("words")


@pytest.mark.parametrize("words", HOSTILE)
def test_words_are_text_and_no_page_has_a_tag_more_for_them(words: str, harmless: dict[str, str]) -> None:
    for name, page in every_page(words).items():
        parsed = Parsed(page)
        assert parsed.tags == Parsed(harmless[name]).tags, name
        assert any(shown(words) in text for text in parsed.texts), name
        assert not set(page) & set("\u202e\u2066\x00\x1b"), name


def shown(words: str) -> str:
    """What nothing can show, and what turns the direction of writing, stands there as its escape."""
    return words.encode("unicode_escape").decode() if not words.isprintable() else words


@in_browser
def test_a_browser_runs_nothing_that_is_written_on_a_page(tmp_path: Path) -> None:
    with chromium() as browser:
        view = browser.new_page()
        for name, text in every_page("".join(HOSTILE)).items():
            page = tmp_path / f"{name}.{'svg' if name == 'card' else 'html'}"
            page.write_text(text, "utf-8")
            view.goto(page.as_uri())
            assert view.evaluate("document.querySelectorAll('[onerror], img:not([src^=\"data:\"])').length") == 0, name
            assert view.title() != "taken", name


def test_a_grading_on_a_terminal_loads_no_templates() -> None:
    code = "import sys, dojo.cli.grade, dojo.grading.parallel; print('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_template_that_asks_for_what_it_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'verdicts' is undefined"):
        html.render("verdict/page/run.html", title="")
