"""The command line: its words, its exit statuses and its sentences."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import types

import psutil
import pytest

from dojo.cli import commands, main
from dojo.cli.commands.declared import MAINTAIN
from dojo.content.catalog import ROOT, STARTED_BY, typed
from tests import terminal
from tests.conftest import COUNT, copy_of_project


def dojo(*words, **options):
    command = [sys.executable, "-m", "dojo", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, **options)


@pytest.fixture
def graded(monkeypatch):
    """What `grade` was asked; no judge is started."""
    asked = []
    fake = types.ModuleType("dojo.cli.grade")
    fake.main = lambda args: asked.append(args) or 0
    monkeypatch.setitem(sys.modules, "dojo.cli.grade", fake)
    return asked


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_without_a_command_it_prints_help(words, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DOJO_HOME", str(tmp_path))
    assert main.main(words) == 0
    out = capsys.readouterr().out
    hidden = {name for name, command in main.COMMANDS.items() if command.heading == MAINTAIN}
    assert all(f"  {name} " in out for name in {*main.COMMANDS} - hidden)


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_every_command_explains_itself(name, capsys, monkeypatch):
    monkeypatch.delenv(STARTED_BY, raising=False)
    with pytest.raises(SystemExit) as caught:
        main.main([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: nox -s {name} -- [-h]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("started_by", "command", "bare"),
    [
        ("nox", "nox -s grade -- rope --seed 1", "nox -s grade"),
        ("nox --no-venv", "nox --no-venv -s grade -- rope --seed 1", "nox --no-venv -s grade"),
        ("dojo", "dojo grade rope --seed 1", "dojo grade"),
        ("python -m dojo", "python -m dojo grade rope --seed 1", "python -m dojo grade"),
    ],
)
def test_a_command_is_told_in_the_words_that_the_user_types(started_by, command, bare, monkeypatch):
    monkeypatch.setenv(STARTED_BY, started_by)
    assert typed("grade rope --seed 1") == command
    assert typed("grade") == bare


def test_no_other_place_says_how_a_command_is_typed():
    """`nox -s lab` has no other form, and what is started by nothing we know is told as nox's."""
    texts = {path: path.read_text("utf-8") for path in sorted((ROOT / "dojo").rglob("*.py"))}
    said = {path.name: re.findall(r"nox -s (?!lab)\S+", text) for path, text in texts.items()}
    assert {name for name, words in said.items() if words} == {"catalog.py"}


SCRIPT = (sys.executable, "-c", "import sys; from dojo.cli.main import script; sys.exit(script())")


def called_from(folder, *words, **environment):
    """The console command `dojo`, as it is installed: its package is found from everywhere."""
    outside = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.run([*SCRIPT, *words], cwd=folder, env=outside, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("folder", "word"),
    [("katas", "basics/softmax.py"), ("katas/basics", "softmax.py"), ("notebooks/basics", "softmax")],
)
def test_the_console_command_works_from_any_folder_of_the_project(folder, word):
    told = called_from(ROOT / folder, "grade", word, "--tier", "none")
    assert told.stderr.startswith("dojo: argument --tier: invalid choice: 'none'"), told
    assert "usage: dojo grade [-h]" in told.stderr
    told = called_from(ROOT / folder, "reveal", word)
    assert "softmax is not passed yet" in told.stdout, told


def test_the_project_is_the_one_of_the_current_folder_or_of_dojo_root(tmp_path):
    project = copy_of_project(tmp_path / "mine")
    for path in (project / "solutions").glob("*/*.py"):
        if path.stem != "softmax":
            path.unlink()
    for told in (called_from(project / "katas", "list"), called_from(tmp_path, "list", DOJO_ROOT=str(project))):
        assert "of 1 solved" in told.stdout, told
    assert f"of {COUNT} solved" in called_from(tmp_path, "list").stdout


def test_outside_of_a_project_it_says_what_to_do(tmp_path):
    installed = tmp_path / "site-packages"
    shutil.copytree(ROOT / "dojo", installed / "dojo")
    told = called_from(tmp_path, "list", PYTHONPATH=str(installed))
    assert told.returncode == 2
    assert "there are no katas here" in told.stderr
    assert "go to your clone of the project (`cd`), or name that clone, as in DOJO_ROOT=~/dojo" in told.stderr
    told = called_from(tmp_path, "list", DOJO_ROOT=str(tmp_path))
    assert f"DOJO_ROOT names a folder without katas, for there is no folder {tmp_path}/solutions" in told.stderr


NOX = shutil.which("nox")
with_nox = pytest.mark.skipif(NOX is None, reason="no nox on the path")


def nox(*words, folder=ROOT):
    return subprocess.run([NOX, *words], cwd=folder, capture_output=True, text=True, timeout=60)


@with_nox
@pytest.mark.parametrize("folder", [ROOT, ROOT / "katas"])
def test_words_without_dashes_are_told_what_to_type(folder):
    told = nox("-s", "grade", "softmax", "attention", "--", "--tier", "core", folder=folder)
    assert told.returncode == 2
    right = "nox -s grade -- softmax attention --tier core"
    assert told.stderr == f"dojo: words for `grade` stand after `--`. Type: {right}\n"


@with_nox
@pytest.mark.parametrize("folder", [ROOT, ROOT / "katas"])
def test_plain_nox_shows_what_a_learner_needs_and_keeps_the_rest_in_one_line(folder):
    told = nox(folder=folder)
    assert told.returncode == 0, told
    lines = told.stdout.splitlines()
    assert lines.index("Solve a kata") < lines.index("Practise for the interview") < lines.index("Work on the project")
    assert "  nox -s grade -- softmax" in lines
    assert [line for line in lines if "soak" in line] == [line for line in lines if "mutants" in line]
    assert len(lines) <= 44


def test_each_group_of_commands_is_told_once():
    lines = commands.overview().splitlines()
    headings = [line for line in lines[3:] if line and not line.startswith((" ", "`"))]
    assert len(headings) == len({*headings}), headings
    assert lines.index("Notebooks") < next(n for n, line in enumerate(lines) if line.startswith("  lab ")) < len(lines)


@with_nox
def test_every_command_is_a_session_and_the_overview_names_every_session():
    listed = dict(re.findall(r"^[-*] (\S+) -> (.+)$", nox("--list").stdout, re.MULTILINE))
    assert {name: listed[name] for name in commands.COMMANDS} == {
        name: command.in_nox for name, command in commands.COMMANDS.items()
    }
    assert {*listed} == {*commands.COMMANDS, *commands.NOX_ALONE, "lab", "help"}


def test_a_wrong_command_names_the_near_one(capsys):
    assert main.main(["grad", "rope"]) == 2
    assert capsys.readouterr().err == "dojo: there is no command 'grad': did you mean grade?\n"
    assert main.main(["zzz"]) == 2
    assert "there are list, show, grade" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grade", "--tier", "fsat"], "dojo: argument --tier: invalid choice: 'fsat'"),
        (["grade", "--seed", "x"], "dojo: argument --seed: invalid int value"),
        (["grade", "--sed", "3"], "dojo: unrecognized arguments: --sed"),
        (["grade", "--attempt", "f.py"], "dojo: --attempt needs the one NAME"),
        (["grade", "rope", "--attempt", "f.py", "--solution"], "not allowed with argument"),
        (["sync", "--from", "script"], "dojo: --from overwrites the other side"),
        (["hint"], "the following arguments are required: NAME"),
        (["reset"], "the following arguments are required: NAME"),
    ],
)
def test_wrong_words_end_with_status_2(words, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main.main(words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["hint", "sotfmax"], ["reveal", "sotfmax"], ["reset", "sotfmax"], ["sync", "sotfmax"]]
)
def test_an_unknown_kata_ends_with_status_2_and_the_near_ones(words, capsys):
    assert main.main(words) == 2
    assert "dojo: no kata or track is called 'sotfmax': did you mean softmax?" in capsys.readouterr().err


def test_a_track_is_not_one_kata(capsys):
    assert main.main(["hint", "attention"]) == 2
    assert re.search(r"'attention' is \d+ katas: name one of causal_mask", capsys.readouterr().err)


def test_grade_gets_every_option_in_any_order(graded):
    words = "rope --tier core -k norm -x softmax --json v.json --device cpu --seed 7 --pdb --solution"
    assert main.main(["grade", *words.split()]) == 0
    args = vars(graded[0])
    assert (args["names"], args["tier"], args["expression"]) == (["rope", "softmax"], "core", "norm")
    assert (str(args["json"]), args["device"], args["seed"]) == ("v.json", "cpu", 7)
    assert (args["exitfirst"], args["pdb"], args["solution"], args["attempt"]) == (True, True, True, None)


def test_grade_has_quiet_defaults(graded):
    main.main(["grade"])
    args = vars(graded[0])
    assert args == {
        "names": [],
        "verbose": False,
        "repro": None,
        "html": None,
        "share": None,
        "no_record": False,
        "attempt": None,
        "solution": False,
        "json": None,
        "junit": None,
        "github": False,
        "stage": None,
        "step": None,
        "tier": None,
        "device": "cpu",
        "seed": None,
        "expression": None,
        "exitfirst": False,
        "pdb": False,
        "sandbox": False,
    }


def test_the_status_of_grade_is_the_status(graded, monkeypatch):
    monkeypatch.setattr(sys.modules["dojo.cli.grade"], "main", lambda args: 1)
    assert main.main(["grade"]) == 1


def test_an_interrupt_is_one_line_and_status_130(graded, monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["dojo.cli.grade"], "main", interrupted)
    assert main.main(["grade"]) == 130
    assert capsys.readouterr().err == "dojo: interrupted\n"


def test_a_missing_package_names_the_remedy(graded, monkeypatch, capsys):
    def lacking(args):
        raise ModuleNotFoundError("No module named 'jaxtyping'", name="jaxtyping")

    monkeypatch.setattr(sys.modules["dojo.cli.grade"], "main", lacking)
    assert main.main(["grade"]) == 2
    assert "has no jaxtyping. `python -m pip install -e .`" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["help", "list", "next"])
def test_a_reader_that_leaves_is_a_failure_without_traceback(command):
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run([sys.executable, "-m", "dojo", command], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert run.returncode in (1, 141)  # rich ends its own way
    assert run.stderr == b""


def test_the_commands_run_from_the_shell():
    listed = dojo("list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "causal_mask" in listed.stdout
    assert "\x1b" not in listed.stdout
    assert dojo("build", "--check").returncode == 0
    assert dojo("hint", "rpoe").returncode == 2


def test_help_needs_nothing_but_argparse():
    code = "import sys; from dojo.cli.main import main; main(['help'])"  # without site-packages
    run = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("usage: ")


def test_with_pdb_an_error_opens_the_debugger_in_the_attempts_own_frame_and_nothing_is_judged(tmp_path):
    attempt = tmp_path / "attempt.py"
    attempt.write_text("def softmax(x, dim=-1):\n    return x.nothing\n")
    asked = dojo("grade", "softmax", "--attempt", str(attempt), "--pdb", "-k", "values_match", input="p x.shape\nq\n")
    assert "'Tensor' object has no attribute 'nothing'. `c` goes on to the verdict, `q` leaves.\n" in asked.stdout
    assert "-> return x.nothing\n(Pdb) torch.Size([5])" in asked.stdout
    assert (asked.returncode, asked.stderr) == (1, "dojo: you left the debugger: nothing was judged\n")
    assert "unjudged" not in asked.stdout


def test_nothing_is_drawn_over_the_debugger_and_ctrl_c_leaves_it(tmp_path):
    attempt = tmp_path / "attempt.py"
    attempt.write_text("import torch\n\n\ndef softmax(x, dim=-1):\n    breakpoint()\n    return x.softmax(dim)\n")
    words = ["grade", "softmax", "--attempt", str(attempt), "--pdb"]
    waits = terminal.after(0.5, terminal.press(b"p x.shape\n"))
    told, status = terminal.run(words, [("(Pdb)", waits), ("(Pdb)", terminal.press(b"\x03"))], ROOT)
    assert "\x1b" not in told
    assert "-> return x.softmax(dim)\r\n(Pdb) p x.shape\r\ntorch.Size([5])\r\n(Pdb) \r\n" in told
    assert told.endswith("dojo: you left the debugger: nothing was judged\r\n")
    assert status == 1


def test_who_asks_for_a_grading_imports_no_torch(tmp_path):
    """It is imported once, by the process that judge and workers are forked from."""
    attempt = tmp_path / "attempt.py"
    attempt.write_text("def softmax(x, dim=-1):\n    return x.exp()\n")
    words = ["grade", "softmax", "--attempt", str(attempt), "--html", str(tmp_path / "page.html")]
    code = f"import sys; from dojo.cli.main import main; print(main({words}), 'torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.endswith("\n1 False\n"), run


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a judge grades to its end")
def test_a_grading_that_is_killed_leaves_no_process():
    run = subprocess.Popen(
        [sys.executable, "-m", "dojo", "grade", "gqa", "--solution"], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(family := psutil.Process(run.pid).children(recursive=True)) < 4:  # with judges and a worker
        assert time.monotonic() < deadline
        time.sleep(0.02)
    run.kill()
    run.wait()
    _, left = psutil.wait_procs(family, timeout=20)
    assert not left


def test_a_kata_that_is_not_begun_is_told_in_short_with_what_to_do(tmp_path):
    """The README's first command: it is worth reading, and the verdict is its last line."""
    project = copy_of_project(tmp_path / "mine")
    told = called_from(project, "grade", "softmax", DOJO_HOME=str(tmp_path / "home"))
    assert told.returncode == 1
    lines = told.stdout.splitlines()
    assert lines[0] == "# Stable softmax"
    assert lines[2].startswith("    softmax(x)ᵢ = "), "the formula, of which the text says “as above”"
    assert lines[4].startswith("`softmax` turns a row of scores into weights that are positive and sum to 1")
    assert "**Write** `softmax`. Par is 10 minutes." in lines
    steps = [line.split("  ")[1] for line in lines if re.match("  [a-z]", line)]
    assert steps == ["katas/basics/softmax.py", "dojo show softmax", "dojo watch softmax", "dojo hint softmax"]
    right = "softmax: not started: write your answer in katas/basics/softmax.py, then: dojo grade softmax"
    assert [line for line in lines if line][-1] == right
    assert "Write" not in called_from(project, "grade", "softmax", "linear").stdout.split("softmax:")[0]


def test_a_grading_is_written_as_json_as_a_page_and_if_it_passes_as_a_card(tmp_path):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text((ROOT / "solutions/attention/causal_mask.py").read_text("utf-8"), "utf-8")
    wrong.write_text("def causal_mask(q_len, k_len=None, *, device=None):\n    return None\n", "utf-8")
    verdict, page, card = (tmp_path / name for name in ("verdict.json", "verdict.page.html", "card.svg"))
    told = dojo("grade", "causal_mask", "--attempt", str(wrong), "--share", str(card))
    assert told.returncode == 1
    assert f"dojo: no card was written to {card}: there is one once the core tier passes" in told.stderr
    assert not card.exists()
    words = ["--json", str(verdict), "--html", str(page), "--share", str(card)]
    told = dojo("grade", "causal_mask", "--attempt", str(right), *words)
    assert told.returncode == 0, told.stderr
    assert json.loads(verdict.read_text())[0]["verdict"] == "passed"
    assert "causal_mask" in page.read_text()
    assert f"{card} is a card to share: kata, tiers, time and help, and nothing else about you" in told.stdout
    assert "causal_mask" in card.read_text("utf-8")
    assert str(tmp_path) not in card.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["grade", "--share", "f.svg"], "--share needs the one NAME that the card is about"),
        (["grade", "basics", "--share", "f.svg"], "--share makes the card of one kata, and basics is 7 of them"),
        (["grade", "rope", "--share", "f.svg", "--tier", "core", "-x"], "a file of yours: leave out --tier and -x"),
        (["grade", "causal_mask", "softmax", "--attempt", "f.py"], "--attempt needs the one NAME"),
        (["grade", "causal_mask", "--solution", "-k", "nothing_is_called_so"], "no check of causal_mask fits -k"),
        (["grade", "causal_mask", "--attempt", "nowhere.py"], "there is no file nowhere.py"),
        (["grade", "causal_mask", "--attempt", "docs"], "docs holds no attempt at causal_mask"),
        (
            ["grade", "rope", "--step", "9"],
            "rope has 3 steps, and none of number 9: `python -m dojo show rope --lesson`",
        ),
        (["grade", "linear", "--step", "1"], "linear has no lesson, and so no steps"),
        (["grade", "--step", "1"], "--step is of one kata: name it"),
        (["grade", "rope", "--step", "1", "-x", "--pdb"], "--step is of one kata: leave out -x and --pdb"),
        (["mock"], "name a kata or a track"),
        (["mock", "--random", "99"], "fewer than 99"),
        (["mock", "--explain"], "name a kata, as in `python -m dojo mock rope --explain`"),
        (["mock", "--resume", "nowhere"], "nowhere holds no session"),
        (["mock", "rope", "--minutes", "0"], "'0' is no number of minutes"),
        (["hunt"], "name a kata, as in `python -m dojo hunt mha`"),
        (["hunt", "mha", "--bugs", "5"], "argument --bugs: invalid choice: 5"),
        (["hunt", "mha"], "say `--yes` where nobody can be asked"),
        (["watch", "nowhere"], "no kata or track is called 'nowhere'"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_status_2(words, told):
    done = dojo(*words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_an_explanation_asks_what_an_interviewer_asks():
    shown = dojo("mock", "rope", "--explain").stdout
    assert "Rotary position embedding" in shown
    assert shown.count("?") >= 3


def test_chance_picks_katas_of_a_level_and_the_same_ones_for_a_seed():
    from dojo.practice.interview import mock

    given = types.SimpleNamespace(names=[], random=3, level=2, seed=5)
    picked = mock.chosen(given)
    assert picked == mock.chosen(given)
    assert [kata.level for kata in picked] == [2, 2, 2]


def git(folder, *words):
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(["git", *words], cwd=folder, env=os.environ | who, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.proof
def test_a_grading_changes_nothing_that_git_tracks(tmp_path):
    """A notebook that nobody has opened stays as build wrote it, whatever is done with the script."""
    project = copy_of_project(tmp_path / "mine")
    shutil.copy(ROOT / ".gitignore", project)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "as it is"]):
        git(project, *words)
    own = project / "katas" / "attention" / "causal_mask.py"
    home = {"DOJO_HOME": str(tmp_path / "home"), "PYTHONPATH": str(project), "PAGER": "cat"}
    told = called_from(project, "grade", "all", **home)
    assert "not started" in told.stdout, told
    assert git(project, "status", "--short") == ""
    stub = own.read_text("utf-8")
    shutil.copy(ROOT / "solutions" / "attention" / "causal_mask.py", own)
    for words in (["grade", "attention"], ["hint", "rope"], ["list"], ["report"], ["history", "causal_mask"]):
        called_from(project, *words, **home)
        assert git(project, "status", "--short") == " M katas/attention/causal_mask.py\n", words
    own.write_text(stub, "utf-8")
    called_from(project, "history", "causal_mask", "--restore", "1", **home)
    assert git(project, "status", "--short") == " M katas/attention/causal_mask.py\n"
    assert "notebooks/attention/causal_mask.ipynb brought up to date" in called_from(project, "sync", **home).stdout
    git(project, "checkout", "-q", "katas", "notebooks")
    told = called_from(project, "grade", "causal_mask", **home)
    assert "not started" in told.stdout
    assert "changed" not in told.stdout + told.stderr
    assert git(project, "status", "--short") == ""


@pytest.mark.parametrize(
    "what", ["folder", *(pytest.param(each, marks=pytest.mark.proof) for each in ("link", "text"))]
)
def test_what_is_no_file_in_the_place_of_a_kata_is_told_in_a_sentence(what, tmp_path):
    project = copy_of_project(tmp_path / "mine")
    stub = project / "katas" / "basics" / "softmax.py"
    home = {"DOJO_HOME": str(tmp_path / "home")}
    text = stub.read_bytes()
    stub.unlink()
    make, told = {
        "folder": (stub.mkdir, "katas/basics/softmax.py is a folder, where a file belongs: move it away"),
        "link": (
            lambda: stub.symlink_to("gone.py"),
            "katas/basics/softmax.py is a link to gone.py, which is not there",
        ),
        "text": (lambda: stub.write_bytes(text + b"# \xe9\n"), "katas/basics/softmax.py is not UTF-8 text (byte "),
    }[what]
    make()
    for words in (["grade"], ["watch"], ["reset"], ["sync"], ["hint"], ["history"]):
        if stub.is_file() and words != ["grade"]:
            continue  # what is not UTF-8 is kept and replaced, or not read at all
        said = called_from(project, *words, "softmax", **home)
        assert said.returncode in (1, 2)
        assert told in said.stderr, said
        assert "Traceback" not in said.stderr
    for words in (["list"], ["next", "--count", "9"], ["report"], ["build", "--check"], []):
        said = called_from(project, *words, **home)
        assert "Traceback" not in said.stderr, said
        assert "softmax" in said.stdout or words in (["report"], [])


@pytest.mark.parametrize("folder", [ROOT, ROOT / "graders" / "basics"])
def test_pytest_on_a_grader_says_in_a_sentence_what_to_type(folder):
    for words, name in (([ROOT / "graders/attention/gqa/contract.py"], "gqa"), ([ROOT / "graders"], "softmax")):
        command = [sys.executable, "-m", "pytest", *map(str, words)]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        assert said.returncode == 4
        told = f"ERROR: a grader runs on an attempt, not by itself: type `nox -s grade -- {name}`"
        assert (said.stdout + said.stderr).split("\n\n")[0].strip() == told


def test_a_name_that_is_nearly_the_one_asked_for_is_told_in_the_direction_of_the_change(tmp_path):
    attempt = tmp_path / "attempt.py"
    attempt.write_text("class Adamw:\n    pass\n")
    said = dojo("grade", "adamw", "--attempt", str(attempt)).stdout
    assert "defines no `AdamW`; rename your `Adamw`?" in said


def test_a_page_speaks_of_pictures_of_what_failed_where_something_did(tmp_path):
    wrong, page = tmp_path / "wrong.py", tmp_path / "page.html"
    wrong.write_text(
        "import torch\n\n\ndef causal_mask(q_len, k_len=None, *, device=None):\n    return torch.ones(1)\n"
    )
    words = ["grade", "causal_mask", "--tier", "core", "--html", str(page)]
    assert f"{page} is a page with pictures of what failed" in dojo(*words, "--attempt", str(wrong)).stderr
    assert f"{page} is a page about this run" in dojo(*words, "--solution").stderr


@with_nox
def test_without_a_network_nox_says_in_a_sentence_what_to_do(tmp_path):
    for name in ("noxfile.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "dojo", tmp_path / "dojo")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "1", "PIP_NO_INDEX": "0"}
    nowhere |= dict.fromkeys(("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"), "")
    command = [NOX, "-s", "grade", "--", "softmax"]
    said = subprocess.run(command, cwd=tmp_path, env=os.environ | nowhere, capture_output=True, text=True, timeout=120)
    assert said.returncode == 2
    (told,) = said.stderr.splitlines()
    log = tmp_path / ".nox" / "dojo" / "pip.log"
    assert told.startswith("dojo: pip reaches no package index, and what dojo needs is not all installed yet: connect")
    assert told.endswith(f"What pip said is in {log}")
    assert "ERROR" in log.read_text()
