"""Questions of an interviewer: how a master holds them, how they are asked, and when they come back."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dojo.cli import main
from dojo.content import catalog, master, numbers
from dojo.content.catalog import Kata, Trouble
from dojo.content.master import Question
from dojo.practice import database, history
from dojo.practice.database import Answer
from dojo.practice.schedule import repetition

CELLS = """\
# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is $x$ divided?
#
# - The variance of a dot product is $d$, and
#   a large one saturates.
# - Gradients vanish.
#
# Source: Vaswani et al. 2017,
# arXiv:1706.03762

# %% [markdown] tags=["solution", "questions"]
# ### What does `dtype` decide?
# - The range.
#
# Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html
"""


@pytest.fixture
def asking(tmp_path: Path) -> Kata:
    """A kata whose master holds two questions."""
    kata = dataclasses.replace(catalog.katas()["softmax"], root=tmp_path)
    kata.master.parent.mkdir(parents=True)
    kata.master.write_text(CELLS)
    return kata


def test_a_master_holds_questions_with_points_and_sources(asking: Kata) -> None:
    first, second = master.questions(asking)
    points = ("The variance of a dot product is $d$, and a large one saturates.", "Gradients vanish.")
    assert first == Question("Why is $x$ divided?", points, "Vaswani et al. 2017, arXiv:1706.03762")
    assert second.points == ("The range.",)
    assert second.source.startswith("https://docs.pytorch.org")


def test_what_questions_lack_is_told_with_file_and_question(asking: Kata) -> None:
    assert master.question_faults(asking) == ["solutions/basics/softmax.py: 2 questions (`### …?`), fewer than 4"]
    asking.master.write_text(CELLS.replace("# - The range.\n", "").replace("# Source: V", "# V") + CELLS)
    told = "\n".join(master.question_faults(asking))
    assert "“What does `dtype` decide?” has no points (`- …`)" in told
    assert "“Why is $x$ divided?” has no paragraph `Source: …`" in told
    assert "“Why is $x$ divided?” is asked 2 times" in told


@pytest.mark.parametrize("kata", catalog.katas().values(), ids=lambda kata: kata.name)
def test_every_kata_has_questions_with_points_and_a_source(kata: Kata) -> None:
    assert master.question_faults(kata) == []
    for question in master.questions(kata):
        assert question.text.endswith("?")
        assert 2 <= len(question.points) <= 5, question
        assert re.search(r"arXiv:\d|https://", question.source), question
    assert "### " not in "".join(text for question in master.questions(kata) for text in question.points)
    assert master.follow_ups(kata) not in master.statement(kata)


NUMBER = """
# ### How many bytes do the scores of `heads` heads take, at `seq` tokens in bfloat16?
#
# - A score for each head, query and key, of two bytes.
#
# Answer: `2 * heads * seq**2` bytes, within 5 %. Settings: `heads` 8, 32;
# `seq` 2048, 8192.
#
# Source: arXiv:2205.14135
"""


def test_a_question_may_have_a_number_for_an_answer(asking: Kata) -> None:
    asking.master.write_text(CELLS + NUMBER)
    number = master.questions(asking)[-1].number
    assert number
    assert (number.settings, number.unit) == ({"heads": (8, 32), "seq": (2048, 8192)}, "bytes")
    settings = {"heads": 32, "seq": 8192}
    assert number.value(settings) == 2 * 32 * 8192**2
    assert number.fits(4.3e9, settings)
    assert not number.fits(4.6e9, settings)
    asked = numbers.asked(master.questions(asking)[-1].text, settings)
    assert asked == "How many bytes do the scores of 32 heads take, at 8,192 tokens in bfloat16?"
    assert master.question_faults(asking) == ["solutions/basics/softmax.py: 3 questions (`### …?`), fewer than 4"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("`seq` tokens", "8192 tokens", "the question does not name `seq`"),
        ("`2 * heads", "`2 * layers", "`2 * layers * seq**2` gives no number: name 'layers' is not defined"),
        ("within 5 %", "within 80 %", "an answer within 80 % is none: at most 50 %, more than 0"),
        ("`2 * heads * seq**2`", "`2`", "`2` is the same for all settings"),
        ("within 5 %", "nearly", "a paragraph `Answer: …` is not of the form in dojo/content/numbers.py"),
    ],
)
def test_what_is_wrong_with_a_number_is_told(asking: Kata, old: str, new: str, fault: str) -> None:
    asking.master.write_text(CELLS + NUMBER.replace(old, new))
    assert fault in "\n".join(master.question_faults(asking))


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("4.3e9", "bytes", 4.3e9), ("4,300", "", 4300), ("4.3 GB", "bytes", 4.3e9), ("4 GiB", "bytes", 4 * 2**30),
        ("7B", "parameters", 7e9), ("7 b", "bytes", 7), ("2.5 M", "", 2.5e6), ("1.2·10^6", "", 1.2e6),
        ("12 ms", "ms", 12), ("3 TFLOPs", "FLOPs", 3e12),
        ("60 %", "%", 60), ("many", "", None), ("", "", None), ("17 k", "tokens", 17000),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_type_them(text: str, unit: str, number: float | None) -> None:
    assert numbers.typed(text, unit) == number


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty memory."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def quizzed(asking: Kata, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`quizzed(words, typed)` holds a quiz about softmax, whose two questions are those above, on a terminal."""
    monkeypatch.setattr(catalog, "katas", lambda root=None: {"softmax": asking})
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)

    def hold(words: list[str], typed: list[str]) -> int:
        told = iter(typed)

        def answer(prompt: str) -> str:
            print(prompt, end="")
            time.sleep(0.01)
            if (word := next(told)) == "^C":
                raise KeyboardInterrupt
            return word

        monkeypatch.setattr("builtins.input", answer)
        status = main.main(["quiz", *words])
        assert not [*told], "not all that was typed was asked for"
        return status

    return hold


def days_ago(days: float, rating: str, question: str = "Why is $x$ divided?") -> None:
    at = (datetime.now(UTC) - timedelta(days)).timestamp()
    assert database.remember(answers=[Answer(at, "softmax", question, rating, 9.0)]) is None


def test_a_quiz_asks_easier_first_shows_points_and_keeps_what_was_rated(quizzed, capsys) -> None:
    assert quizzed(["softmax"], ["because", "3", "", "none", "Again"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Why is x divided?") < shown.index("The variance of a dot product is d") < shown.index("dtype")
    assert "*Source:* Vaswani et al. 2017, arXiv:1706.03762" in shown
    assert "'none' is none of 1 again, 2 hard, 3 good, 4 easy" in shown
    assert "2 answered: 1 again, 1 good." in shown
    assert [(a.rating, a.text) for a in database.answers()] == [("good", "because"), ("again", "")]
    assert quizzed(["softmax"], []) == 0
    assert "no question is due; one of softmax comes next, on " in capsys.readouterr().out
    assert quizzed(["softmax", "--all"], ["s", "s"]) == 0


def test_a_number_is_compared_with_what_is_right_for_the_settings_drawn(asking: Kata, quizzed, capsys) -> None:
    asking.master.write_text(
        CELLS.partition("# ###")[0] + NUMBER.replace("8, 32", "8, 8").replace("2048, 8192", "2048, 2048")
    )
    assert quizzed(["softmax"], ["67 MB", "good"]) == 0
    shown = capsys.readouterr().out
    assert "Type a number of bytes. Enter shows the points, s skips." in shown
    assert "67 MB is right: 6.71e+07 bytes for heads = 8, seq = 2,048" in shown
    assert quizzed(["softmax", "--all"], ["9 GB", "again"]) == 0
    assert "9 GB is not right: it is 6.71e+07 bytes for heads = 8, seq = 2,048" in capsys.readouterr().out
    assert database.answers()[-1].text.startswith("9 GB is not right")


def test_ctrl_c_in_a_quiz_keeps_what_was_rated(quizzed, capsys) -> None:
    assert quizzed(["softmax"], ["", "easy", "^C"]) == 0
    assert "what you have rated is kept" in capsys.readouterr().out
    assert len(database.answers()) == 1


def test_without_a_record_a_quiz_leaves_no_trace(quizzed, home: Path) -> None:
    assert quizzed(["softmax", "--no-record"], ["", "easy", "", "easy"]) == 0
    assert not home.exists()


def test_a_quiz_ends_after_its_minutes(quizzed, capsys) -> None:
    assert quizzed(["softmax", "--minutes", "0.0001"], ["s"]) == 0
    assert "1 more is left for the next time" in capsys.readouterr().out


def test_without_names_new_questions_are_of_what_was_passed(quizzed, capsys, monkeypatch) -> None:
    assert quizzed([], []) == 0
    assert "`nox -s quiz -- softmax` asks those of a kata that you have not solved yet" in capsys.readouterr().out
    days_ago(30, "good")
    assert quizzed([], ["s"]) == 0
    given = {"tiers": {}, "failing": [], "seconds": 1.0, "spent": None, "hints": 0, "text": ""}
    database.remember([database.Attempt(at=1e9, kata="softmax", kind="grade", verdict="passed", **given)])
    assert quizzed([], ["s", "s"]) == 0


def test_a_quiz_without_a_terminal_says_so(quizzed, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert quizzed(["softmax"], []) == 1
    assert "standard input is no terminal. Waiting: 2" in capsys.readouterr().out


@pytest.mark.parametrize(("rating", "days"), [("again", 1), ("hard", 1), ("good", 2), ("easy", 8)])
def test_a_question_comes_back_the_later_the_better_it_was_known(asking: Kata, rating: str, days: float) -> None:
    given = Answer(1e9, "softmax", "Why is $x$ divided?", rating, 9.0)
    first, second = repetition.question_cards([asking], [given])
    assert first.due == datetime.fromtimestamp(1e9, UTC) + timedelta(days)
    assert second.due is None


def test_next_says_which_questions_are_due(quizzed, capsys) -> None:
    assert main.main(["next"]) == 0
    assert "due (" not in capsys.readouterr().out
    days_ago(30, "hard")
    days_ago(3, "again", "What does `dtype` decide?")
    days_ago(3, "again", "What was asked before the master was changed?")
    assert main.main(["next"]) == 0
    assert "2 questions are due (softmax 2): `nox -s quiz` asks" in capsys.readouterr().out


OLD = """
create table attempt (id integer primary key, at real not null, kata text not null, kind text not null,
    verdict text not null, tiers text not null, failing text not null, seconds real not null, spent real,
    hints integer not null, text text not null, details text not null);
create index by_kata on attempt (kata, at);
insert into attempt values (1, 1e9, 'rope', 'grade', 'passed', '{}', '[]', 1.0, null, 0, 'x = 1', '{}');
pragma user_version = 1;
"""


def test_a_history_of_before_there_were_answers_stays_readable_and_takes_them(home: Path) -> None:
    home.mkdir()
    with closing(sqlite3.connect(database.place())) as old:
        old.executescript(OLD)
    before = database.place().read_bytes()
    assert database.answers() == []
    assert database.helps() == []
    assert [(a.kata, a.shown) for a in database.recall_all()] == [("rope", False)]
    assert database.place().read_bytes() == before
    days_ago(1, "good")
    assert [a.rating for a in database.answers()] == ["good"]
    assert [a.kata for a in database.recall_all()] == ["rope"]


def test_answers_travel_with_the_attempts(tmp_path: Path, monkeypatch, capsys) -> None:
    days_ago(1, "good")
    days_ago(2, "easy")
    file = str(tmp_path / "all.jsonl")
    assert main.main(["history", "--export", file]) == 0
    assert "0 attempts and 2 answers written" in capsys.readouterr().out
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "another"))
    days_ago(3, "hard")
    assert history.take_in(Path(file)) == (0, 2, 0)
    assert history.take_in(Path(file)) == (0, 0, 2)
    assert [a.rating for a in database.answers()] == ["hard", "easy", "good"]
    Path(file).write_text(Path(file).read_text().replace("good", "splendid"))
    with pytest.raises(Trouble, match="line 2, is no attempt and no answer: 'splendid' is no rating"):
        history.take_in(Path(file))
