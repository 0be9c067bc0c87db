"""What a verdict looks like: the words in a pipe, the same words in colour on a terminal, and no fakes in either."""

import contextlib
import io
import os
import pty
import queue
import re
import struct
import subprocess
import sys
import termios
import threading
from dataclasses import replace
from fcntl import ioctl
from pathlib import Path

import pytest

from dojo.content.catalog import katas
from dojo.verdict.screen import terminal as screen_terminal
from dojo.verdict.screen.failure import PICTURE
from dojo.verdict.screen.terminal import ROWS, Screen
from dojo.verdict.screen.text import LONGEST, clean, readable
from dojo.verdict.types import Check, Failure, Kind, Label, Outcome, Section, Tier, Verdict

ROOT = Path(__file__).parents[1]
ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def verdict(word="failed", checks=(), message=""):
    return Verdict("rope", "katas/rope.py", word, list(checks), "cpu", "2.13.0", 1.23, 4711, message)


def passed(name, tier=Tier.CORE):
    return Check(name, tier, Outcome.PASSED, 0.01)


def failed(name="test_keeps_norm", outcome=Outcome.WRONG, tier=Tier.CORE, **sections):
    return Check(name, tier, outcome, 0.01, [Section(Label[label.upper()], text) for label, text in sections.items()])


def plain(v, verbose=False):
    stream = io.StringIO()
    Screen(stream).verdict(v, verbose)
    return stream.getvalue()


FAILING = [
    passed("test_keeps_norm"),
    failed(
        "test_score_depends_only_on_distance[half_precision]",
        repeat="nox -s grade -- rope -k 2 --seed 4711",
        diagnosis="equals what pairing the halves instead of neighbours gives",
        elements="2 of 8 elements are off\nfirst [seq 1]: got 1, expected 2",
        contract="The score depends only on the distance.",
    ),
    failed("test_refuses_odd_dim", Outcome.CRASHED, Tier.ROBUST, traceback="katas/rope.py, line 3\nValueError: [no]"),
    Check("test_runs_on_the_gpu", Tier.FAST, Outcome.SKIPPED, 0, [Section(Label.FACTS, "no GPU here")]),
    Check("test_time", Tier.FAST, Outcome.UNDECIDED, 1.26),
    Check("test_memory", Tier.FAST, Outcome.DESELECTED),
]


def test_a_failed_kata():
    assert (
        plain(verdict(checks=FAILING))
        == """\
rope · katas/rope.py · cpu · torch 2.13.0 · seed 4711
  ✗ core   1 of 2
  ✗ robust 0 of 1
  ✓ fast   1 of 1 · 2 neither passed nor failed: see --verbose
  ✗ core · must hold: score depends only on distance (half precision)
  must hold   │ The score depends only on the distance.
  elements    │ 2 of 8 elements are off
              │ first [seq 1]: got 1, expected 2
  diagnosis   │ equals what pairing the halves instead of neighbours gives
  just this   │ nox -s grade -- rope -k 2 --seed 4711
  ✗ robust · refuses odd dim: crashed
  traceback   │ katas/rope.py, line 3
              │ ValueError: [no]
rope: wrong · core 1 of 2 · robust 0 of 1 · fast undecided · 1.2 s

"""
    )


def test_a_passed_kata():
    text = plain(verdict("passed", [passed("test_keeps_norm"), passed("test_b", Tier.FAST)]))
    assert text.endswith("4711\n  ✓ core   1 of 1\n  ✓ fast   1 of 1\nrope: passed, 2 checks in 1.2 s\n\n")


def test_every_check_has_a_line_where_all_is_asked_for():
    text = plain(verdict(checks=FAILING), verbose=True)
    assert "  core\n    ✓  1 keeps norm\n    ✗  1 must hold: score depends" in text
    assert "    -  1 runs on the gpu: skipped, no GPU here\n    ?  1 time: undecided (1.3 s)\n" in text


def test_what_to_do_next_stands_in_the_last_line():
    mine = verdict(checks=FAILING)
    mine.repeat = "nox -s grade -- rope"
    assert plain(mine).endswith("1.2 s\nnext: mend it and grade again, or take a hint: nox -s hint -- rope\n\n")


def test_an_untouched_stub_is_one_line():
    line = "rope: not started: write your attempt in katas/rope.py, then: nox -s grade -- rope\n\n"
    assert plain(verdict("empty", [failed()] * 9)) == line
    assert plain(verdict("empty", message="say what")) == "rope: not started: say what\n\n"


def test_a_broken_file_shows_the_end_of_its_traceback():
    text = plain(verdict("broken", message="\n".join(f"frame {i}" for i in range(60)) + "\nSyntaxError: invalid"))
    assert text.endswith("  │ frame 59\n  │ SyntaxError: invalid\nrope: broken, nothing was graded\n\n")
    assert "  │ … 42 lines before\n" in text
    assert len(text.rstrip().splitlines()) == ROWS


def test_every_outcome_has_its_word():
    for outcome in set(Outcome) - {Outcome.PASSED, Outcome.DESELECTED, Outcome.WRONG}:
        assert f" keeps norm: {outcome.value}\n" in plain(verdict(checks=[failed(outcome=outcome)]))
    assert " core · must hold: keeps norm\n" in plain(verdict(checks=[failed()]))
    fault = plain(verdict(checks=[failed(outcome=Outcome.GRADER_ERROR)]))
    assert "This is a fault of the grader, not of your attempt." in fault


def test_the_third_cause_and_those_after_it_have_a_line_each():
    checks = [failed(f"test_{i}", facts=f"fact {i}", contract=f"law {i}") for i in range(10)]
    checks[6].diagnosis = "pairs the halves"
    text = plain(verdict(checks=checks))
    assert [f"facts       │ fact {i}\n" in text for i in range(10)] == [True] * 2 + [False] * 8
    assert "  ✗ core · must hold: 3, fact 3\n" in text
    assert "  ✗ core · must hold: 6, pairs the halves\n  ✗ core · must hold: 7, fact 7\n" in text
    assert "  ✗ core · must hold: 7, fact 7\n  … and 2 more causes: see --verbose\n" in text
    assert all(f"│ fact {i}\n" in plain(verdict(checks=checks), verbose=True) for i in range(10))


def test_where_the_screen_is_full_a_known_mistake_is_told_in_fewer_words():
    check = failed(
        contract="result matches the definition",
        practice="Padding turns into nan. Much code does this: fine without padding.",
        facts="shape (8,), float32\n2 of 8 elements are nan, where the expected has none",
        input="\n".join(f"part {i} of the input" for i in range(7)),
        elements="2 of 8 elements are off\nfirst [seq 1]: got nan, expected 2",
        diagnosis="equals a mean over the padding",
    )
    check.failure = Failure(Kind.COMPARED, inputs=[check.sections[3].text], definition=True)
    check.diagnosis = "a mean over the padding"
    more = ["Much code does this", "elements are nan"]
    alone = plain(verdict(checks=[check, passed("test_0")]))
    assert "must hold   │" not in alone, "the heading says it"
    assert all(words in alone for words in more)
    others = [failed(f"test_{i}", contract=f"law {i}") for i in range(9)]
    among = plain(verdict(checks=[check, *others]))
    assert len(among.rstrip().splitlines()) <= ROWS
    assert "in practice │ Padding turns into nan.\n" in among
    assert "elements are nan" not in among
    assert all(words in plain(verdict(checks=[check, *others]), verbose=True) for words in more)


LONG = "word " * 90  # seven rows of 80 columns
COMPARED = {"contract": LONG, "facts": f"shape\n{LONG}\n{LONG}", "elements": f"9 of 9\n{LONG}\n{LONG}", "pattern": LONG}
RAISED = {"event": LONG, "traceback": "\n".join(f"f.py:{i} in f\n    f({i})" for i in range(30)), "printed": LONG}


@pytest.mark.parametrize("more", [0, 1, 9])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("said", [COMPARED, RAISED], ids=["compared", "raised"])
def test_a_verdict_fits_a_screen_however_much_there_is_to_tell(said, known, more, monkeypatch):
    monkeypatch.setattr(screen_terminal, "_width", lambda _: 80)
    said = said | {
        "input": f"{LONG}\n{LONG}",
        "practice": LONG,
        "map": "█\n" * 19,
        "repeat": "nox -s grade -- rope -k 1",
    }
    checks = [failed("test_" + "long_" * 16, tier=Tier.ROBUST, **said), passed("test_a"), passed("test_b", Tier.FAST)]
    checks[0].diagnosis = LONG if known else None
    v = verdict(checks=[*checks, *(failed(f"test_{i}", tier=Tier.FAST, contract=f"law {i}") for i in range(more))])
    v.repeat, v.remarks = "nox -s grade -- rope", ["the test rejects what it should reject"] * 2
    lines = plain(v).rstrip().splitlines()
    assert len(lines) == ROWS
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "  in full     │ nox -s grade -- rope -k 1\n" in text, "which tells what was left out"
    assert ("elements    │ 9 of 9\n" in text) is (said.get("elements") is not None)
    assert ("│     f(29)\n" in text) is ("traceback" in said), "the innermost line of the attempt"
    assert ("more causes: see --verbose" in text) is (more == 9)


@pytest.mark.parametrize(("height", "drawn"), [(16, True), (17, False)])
def test_a_map_is_worth_two_rows_more_and_stands_whole_or_not_at_all(height, drawn):
    check = failed(elements="2 of 8\nfirst", pattern="some", map="█·\n" * height, repeat="nox -s grade -- rope -k 1")
    lines = plain(verdict(checks=[check, passed("test_b")])).rstrip().splitlines()
    assert sum(line.endswith("│ █·") for line in lines) == (height if drawn else 0)
    assert len(lines) == (ROWS + PICTURE if drawn else 8)


def test_a_check_that_is_chosen_by_itself_is_told_whole():
    listed = "\n".join(f"{i}, of which the screen has no room" for i in range(40))
    check = failed(facts=listed, practice="First this. Then that.", repeat="nox -s grade -- rope -k 1")
    assert "39, of which" not in plain(verdict(checks=[check, passed("test_b")]))
    text = plain(verdict(checks=[check]))
    assert all(words in text for words in ("39, of which", "Then that.", "just this   │ nox"))


def test_a_traceback_is_shown_once():
    text = plain(verdict(checks=[failed("test_a", traceback="boom"), failed("test_b", traceback="boom")]))
    assert text.count("boom") == 1
    assert "traceback   │ the same as above\n" in text


def test_a_diagnosis_without_a_section_is_shown():
    check = failed(facts="shape (2,)")
    check.diagnosis = "pairs the halves"
    assert "diagnosis   │ equals: pairs the halves\n" in plain(verdict(checks=[check]))


def test_failures_of_several_kinds_are_counted_together():
    checks = [failed("test_a"), failed("test_b", Outcome.CRASHED), passed("test_c")]
    assert "rope: wrong · core 1 of 3 · 1.2 s\n" in plain(verdict(checks=checks))


def test_an_untouched_stub_is_called_not_started():
    states = {word: verdict(word).state for word in ("passed", "failed", "broken", "empty", "unjudged")}
    assert {word: state for word, state in states.items() if word != state} == {
        "empty": "not started",
        "failed": "wrong",
    }


def test_what_core_alone_holds_for_is_right_and_says_what_is_lacking():
    checks = [
        passed("test_a"),
        failed("TestIt::test_half_precision[deep]", tier=Tier.ROBUST),
        passed("test_fast", Tier.FAST),
    ]
    right = verdict(checks=checks)
    assert (right.standing, right.to_json()["standing"], right.to_json()["verdict"]) == ("right", "right", "failed")
    assert "rope: right · robust 0 of 1: half precision · 1.2 s\n" in plain(right)
    several = [failed(f"test_{10 * letter}", tier=Tier.ROBUST) for letter in "abcdefghijklmn"]
    last = plain(verdict(checks=[passed("test_a"), *several])).rstrip().splitlines()[-1]
    assert last.startswith("rope: right · robust 0 of 14: aaaaaaaaaa, bbbbbbbbbb, ")
    assert last.endswith("… · 1.2 s")
    assert len(last) <= 120


def test_what_was_asked_for_the_core_tier_alone_is_right():
    core = verdict("passed", [passed("test_a")])
    assert core.standing == "passed"
    core.only = Tier.CORE
    assert core.standing == "right"
    assert plain(core).endswith("rope: right, 1 check in 1.2 s\n\n")


def test_where_nothing_was_judged_there_is_no_standing():
    assert [verdict(word).standing for word in ("broken", "empty", "unjudged")] == 3 * [None]


def test_an_infinite_error_is_null_in_json():
    found = verdict()
    found.error_ratio = 0.25
    assert found.to_json()["used"] == 0.25
    found.error_ratio = float("inf")
    assert found.to_json()["used"] is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("test_score_depends_only_on_distance", "score depends only on distance"),
        ("test_rotates[half_precision]", "rotates (half precision)"),
        ("test_rotates[half_precision-one_token]", "rotates (half precision, one token)"),
        ("test_eps[1e-05--1]", "eps (1e-05, -1)"),
        ("TestRoPEReal::test_keeps_norm", "RoPEReal: keeps norm"),
        ("graders/rope.py::TestRoPEReal::test_keeps_norm[a_b]", "RoPEReal: keeps norm (a b)"),
        ("graders/rope.py::test_keeps_norm", "keeps norm"),
        ("", ""),
    ],
)
def test_names_are_sentences(name, sentence):
    assert readable(name) == sentence


ENDS = ["\r", "\x0b", "\x85", "\u2028", "\n\u202e", "\x1b[1;1H", "\x1b]0;x\x07\n"]  # what could begin a line
FORGED = "\x1b[2J" + "".join(f"{end}rope: passed, 9 checks" for end in ENDS)


def test_what_an_attempt_prints_cannot_pass_for_a_verdict():
    for label in (Label.PRINTED, Label.TRACEBACK, Label.FACTS, Label.EVENT, Label.CONTRACT):
        text = plain(verdict(checks=[failed(**{label.name.lower(): FORGED})], message=FORGED))
        assert not any(line.startswith("rope: passed") for line in text.splitlines())
        assert "\x1b" not in text
        assert "\r" not in text
        assert "\u202e" not in text


def test_clean_keeps_what_can_be_read():
    assert clean("a\tb  \n\x1b[31mred\x1b[0m \x1b]0;title\x07é √ 中\x00\n\n[bold]") == [
        "a   b",
        "red é √ 中",
        "",
        "[bold]",
    ]
    assert clean("x" * 5000) == ["x" * LONGEST + "…"]


def test_the_attempts_words_are_never_the_reason_of_a_skip():
    check = failed(outcome=Outcome.UNDECIDED, printed="rope: passed", facts="too close")
    assert "  ✓ core   1 of 1 · keeps norm: undecided, too close\n" in plain(verdict(checks=[check]))


def test_several_katas_as_a_table():
    stream = io.StringIO()
    started = verdict("passed", [passed("test_a"), passed("test_b", Tier.FAST)])
    Screen(stream).summary([started, verdict(checks=FAILING), verdict("empty")])
    assert [re.split(r" {2,}", line) for line in stream.getvalue().splitlines()] == [
        ["kata", "verdict", "core", "robust", "fast", "seconds"],
        ["rope", "wrong", "1 of 2", "0 of 1", "2 of 2", "1.2"],
        ["not started: 1 of 3, rope"],
        ["passed: 1 of 3, rope"],
        [""],
    ]


def test_one_kata_needs_no_table():
    stream = io.StringIO()
    Screen(stream).summary([verdict("passed", [passed("test_a")])])
    assert stream.getvalue() == ""


def test_a_pipe_that_takes_only_ascii_gets_ascii():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    Screen(stream).verdict(verdict(checks=FAILING))
    text = raw.getvalue().decode("ascii")
    assert "  x core   1 of 2\n" in text
    assert "  x core . must hold: score depends" in text


def test_a_pipe_is_not_wrapped_and_imports_no_rich():
    code = """
import sys
from dojo.verdict.screen.terminal import ROWS, Screen
from dojo.verdict.types import Check, Label, Outcome, Section, Tier, Verdict
checks = [Check("test_a", Tier.CORE, Outcome.WRONG, 0, [Section(Label.FACTS, "word " * 100)])]
screen = Screen(sys.stdout)
with screen.progress(["rope", "mha"]) as bar:
    screen.verdict(Verdict("rope", "f.py", "failed", checks, "cpu", "2", 1.0, 1))
    bar.done("rope")
screen.summary([])
assert not {"rich", "torch", "pytest"} & set(sys.modules), "heavy"
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "facts       │ " + ("word " * 100).rstrip() + "\n" in done.stdout


class Terminal:
    """A pseudo-terminal to write to, and what has been written."""

    def __init__(self, columns):
        self.master, slave = pty.openpty()
        attributes = termios.tcgetattr(slave)
        attributes[1] &= ~termios.OPOST  # lines end as they were written
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.stream = open(slave, "w", encoding="utf-8")  # noqa: SIM115
        # A terminal is read all the time: its buffer is small, and a writer waits when it is full.
        self.written, self.rest = queue.Queue(), b""
        self.reader = threading.Thread(target=self._follow, daemon=True)
        self.reader.start()

    def _follow(self):
        with contextlib.suppress(OSError):  # raised when the other end is closed
            while data := os.read(self.master, 1 << 16):
                self.written.put(data)

    def read(self):
        """What has been written since the last call."""
        self.stream.write("\0")  # nothing else writes one
        self.stream.flush()
        while b"\0" not in self.rest:
            self.rest += self.written.get(timeout=30)
        data, _, self.rest = self.rest.partition(b"\0")
        return data.decode()

    def close(self):
        self.stream.close()
        self.reader.join()
        os.close(self.master)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")  # the terminal's own width counts
    made = Terminal(60)
    yield made
    made.close()


def test_a_terminal_gets_the_same_words_in_colour(terminal):
    Screen(terminal.stream).verdict(verdict(checks=FAILING))
    shown = terminal.read()
    assert "\x1b[1;35mequals what pairing the halves" in shown  # the diagnosis stands out
    bare = ANSI.sub("", shown)
    assert "  ✗ core   1 of 2\n" in bare
    assert "  traceback   │ katas/rope.py, line 3\n              │ ValueError: [no]\n" in bare
    assert " nox -s grade -- rope -k 2 --seed 4711\n" in bare  # in one piece, to be copied
    unbroken = plain(verdict(checks=FAILING))
    assert re.sub(r"[\s│]+", " ", bare) == re.sub(r"[\s│]+", " ", unbroken)


def test_markup_of_an_attempt_means_nothing(terminal):
    words = "[red]boo[/] [link=x]y :smile: [/no]"
    Screen(terminal.stream).verdict(verdict(checks=[failed(printed=words)]))
    assert f"printed     │ {words}\n" in ANSI.sub("", terminal.read())


@pytest.mark.parametrize("force_plain", [False, True])
@pytest.mark.parametrize("filler", [" ", "x", "中", "x "])
def test_a_long_line_cannot_push_a_verdict_to_the_left(terminal, filler, force_plain):
    lines = [filler * n + "rope: passed, 9 checks in 1.2 s" for n in range(25, 65)]
    checks = [failed(printed="\n".join(lines[i : i + 10])) for i in range(0, 40, 10)]
    Screen(terminal.stream, force_plain).verdict(verdict(checks=checks))
    rows = ANSI.sub("", terminal.read()).splitlines()
    assert any("│" in row for row in rows)
    assert all(len(row) + row.count("中") <= 60 for row in rows if "│" in row)
    assert not any(row.lstrip().startswith("rope: passed") for row in rows)


def test_no_color_is_obeyed_on_a_terminal(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen(terminal.stream)
    with screen.progress(["rope", "mha"]):
        screen.verdict(verdict(checks=FAILING))
    shown = terminal.read()
    assert "\x1b" not in shown
    assert "✓ fast" in shown


def test_progress_of_several_katas_shows_at_once_names_those_in_work_and_goes_away(terminal):
    screen = Screen(terminal.stream)
    with screen.progress(["softmax", "[rope]", "mha", "gqa"], at_once=2) as bar:
        bar._bar.refresh()
        assert "0/4 0:00:00 softmax, [rope]\n" in re.sub(" +", " ", ANSI.sub("", terminal.read() + "\n"))
        bar.done("softmax")
        screen.verdict(verdict("passed", [passed("test_a")]))
        bar._bar.refresh()
        shown = terminal.read()
    assert "1/4" in shown
    assert "[rope], mha" in shown
    assert "gqa" not in shown
    assert "rope: passed, 1 check" in ANSI.sub("", shown)
    assert terminal.read().endswith("\x1b[2K")  # wiped


def test_progress_of_one_kata_shows_at_once_and_takes_another_order(terminal):
    with Screen(terminal.stream).progress(["rope"]) as bar:
        bar._bar.refresh()
        assert "0:00:00 rope\n" in re.sub(" +", " ", ANSI.sub("", terminal.read() + "\n"))
    with Screen(terminal.stream).progress(["rope", "mha"]) as bar:
        bar.begin(["mha", "rope"], at_once=2)
        bar._bar.refresh()
        assert "0/2 0:00:00 mha, rope\n" in re.sub(" +", " ", ANSI.sub("", terminal.read() + "\n"))


def test_progress_in_a_pipe_is_silent(capsys):
    with Screen(io.StringIO()).progress(["rope", "mha"]) as bar:
        bar.done("rope")
    assert capsys.readouterr() == ("", "")


def test_a_failed_check_is_called_by_its_callable_and_opens_with_what_must_hold(graded):
    wrong = graded("softmax", "def softmax(x, dim=-1):\n    return x.exp()\n", tier="core", diagnose=False)
    lines = [line for line in plain(wrong).splitlines() if line.startswith("  ✗ core · ")]
    assert lines[0] == "  ✗ core · softmax: must hold: values match the definition"
    assert all("must hold" in line for line in lines)
    assert "Softmax" not in plain(wrong)


def test_a_run_of_all_katas_that_passes_fits_a_screen(terminal):
    passing = [replace(verdict("passed", [passed("test_a")]), kata=name) for name in katas()]
    Screen(terminal.stream).summary(passing)
    assert len(terminal.read().splitlines()) < 24, "and the terminal has 60 columns here"
