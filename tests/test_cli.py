"""The command line: its words, its exit statuses and its sentences."""

import json
import os
import re
import subprocess
import sys
import types

import pytest

from dojo.cli import main
from dojo.content.catalog import ROOT


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
def test_without_a_command_it_prints_help(words, capsys):
    assert main.main(words) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in main.COMMANDS)


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as caught:
        main.main([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: python -m dojo {name}" in capsys.readouterr().out


def test_a_wrong_command_names_the_near_one(capsys):
    assert main.main(["grad", "rope"]) == 2
    assert capsys.readouterr().err == "dojo: there is no command 'grad': did you mean grade?\n"
    assert main.main(["zzz"]) == 2
    assert "there are grade, list, show, hint" in capsys.readouterr().err


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
        "no_record": False,
        "attempt": None,
        "solution": False,
        "json": None,
        "tier": None,
        "device": "auto",
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


@pytest.mark.parametrize("command", ["help", "list", "build"])
def test_a_reader_that_leaves_is_a_failure_without_traceback(command):
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "dojo", command, *(["--check"] if command == "build" else [])]
    run = subprocess.run(words, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE)
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
    code = "import sys; from dojo.cli.main import main; main([]); print({'torch', 'rich', 'yaml'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.endswith("set()\n")


def test_every_command_has_its_session():
    noxfile = (ROOT / "noxfile.py").read_text()
    assert all(f'_dojo(session, "{name}")' in noxfile for name in main.COMMANDS)


def test_with_pdb_an_error_opens_the_debugger_in_the_attempts_own_frame_and_nothing_is_judged(tmp_path):
    attempt = tmp_path / "attempt.py"
    attempt.write_text("def softmax(x, dim=-1):\n    return x.nothing\n")
    asked = dojo("grade", "softmax", "--attempt", str(attempt), "--pdb", "-k", "values_match", input="p x.shape\nq\n")
    assert "-> return x.nothing\n(Pdb) torch.Size([5])" in asked.stdout
    assert "softmax: unjudged · core: 0 of 1" in asked.stdout
    assert asked.returncode == 1
    plain = dojo("grade", "rmsnorm", "--solution", "--pdb", stdin=subprocess.DEVNULL)
    assert "rmsnorm: unjudged" in plain.stdout
    assert "✗" not in plain.stdout


def test_a_grading_is_written_as_json_and_as_a_page_too(tmp_path):
    verdict, page = tmp_path / "verdict.json", tmp_path / "verdict.page.html"
    done = dojo("grade", "causal_mask", "--solution", "--tier", "core", "--json", str(verdict), "--html", str(page))
    assert done.returncode == 0, done.stderr
    assert json.loads(verdict.read_text())[0]["verdict"] == "passed"
    assert "causal_mask" in page.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["grade", "causal_mask", "softmax", "--attempt", "f.py"], "--attempt needs the one NAME"),
        (["grade", "causal_mask", "--solution", "-k", "nothing_is_called_so"], "no check of causal_mask fits -k"),
        (["grade", "causal_mask", "--attempt", "nowhere.py"], "there is no file nowhere.py"),
        (["grade", "causal_mask", "--attempt", "graders"], "graders is a folder"),
        (["mock"], "name a kata or a track"),
        (["mock", "--random", "99"], "fewer than 99"),
        (["mock", "--explain"], "name a kata, as in `nox -s mock -- rope --explain`"),
        (["mock", "--resume", "nowhere"], "nowhere holds no session"),
        (["mock", "rope", "--minutes", "0"], "'0' is no number of minutes"),
        (["hunt"], "name a kata, as in `nox -s hunt -- mha`"),
        (["hunt", "mha", "--bugs", "0"], "'0' is no number above 0"),
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
    from dojo.practice import mock

    given = types.SimpleNamespace(names=[], random=3, level=2, seed=5)
    picked = mock.chosen(given)
    assert picked == mock.chosen(given)
    assert [kata.level for kata in picked] == [2, 2, 2]
