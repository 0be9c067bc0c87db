"""Lessons before katas: read from masters, judged step by step, shown in notebooks, and never in a script."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pyte
import pytest
from nbclient import NotebookClient

from dojo.content import build, catalog, figures, files, lessons, master, sync
from dojo.content.catalog import ROOT, Kata, Trouble
from dojo.grading import steps
from dojo.grading.options import Entry, Options
from dojo.grading.resident import ResidentGrader
from dojo.grading.run import run
from dojo.judge.fork_server import ForkServer
from dojo.notebook import api
from dojo.notebook.html import verdict_html
from dojo.verdict.types import Outcome, Verdict
from tests import terminal
from tests.conftest import SEED, copy_of_project
from tests.test_build import MASTER

TAUGHT = [kata.name for kata in catalog.katas().values() if lessons.of(kata)]
KATAS = [pytest.param(name, marks=[pytest.mark.proof] * bool(n)) for n, name in enumerate(TAUGHT)]
ROPE = catalog.katas()["rope"]
LESSON = '''\
# %% [markdown] tags=["idea"]
# IDEA

# %% tags=["active-ipynb", "figure"]
# """A line."""
# import matplotlib.pyplot as plt
# plt.plot([1, 2])

# %% [markdown] tags=["step"]
# **Add.** What is `x` and `x`?

# %% tags=["active-ipynb", "step"]
# def added(x: float) -> float:
#     """Twice x."""
#     ### BEGIN SOLUTION
#     return x + x
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# added(3.0) = 6
# added(3.0) ≠ 9: a
#     product

# %% [markdown] tags=["step"]
# **Again.**

# %% tags=["active-ipynb", "step"]
# def again(x: float) -> float:
#     """Four times x."""
#     ### BEGIN SOLUTION
#     return 4 * x
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# again(3.0) = 12
# again(3.0) ≠ 81: a power

# %% [markdown] tags=["experiment"]
# What is twice a text?

# %% tags=["active-ipynb", "experiment"]
# print(double("ab"))

# %% [markdown] tags=["hint"]
# Add.
'''.replace("IDEA", "\n# ".join(["word " * 20] * 6))


def made(root: Path, old: str = "", new: str = "") -> Kata:
    """A kata with a lesson, in a folder of its own."""
    (root / "solutions" / "basics").mkdir(parents=True)
    text = MASTER.replace('# %% [markdown] tags=["hint"]\n# Add.\n', LESSON)
    assert text.count(old) >= 1
    (root / "solutions" / "basics" / "double.py").write_text(text.replace(old, new) if old else text, "utf-8")
    kata = catalog.katas(root)["double"]
    lesson = None if old else lessons.of(kata)
    if lesson:
        files.write_atomic(kata.figure, f"<svg>{lessons.figure_of_lesson(kata).mark}</svg>")
        build.build(root=root)
        sync.sync(kata)
    return kata


@pytest.fixture
def kata(tmp_path: Path) -> Kata:
    return made(tmp_path)


@pytest.fixture
def judged(server: ForkServer) -> Callable[[int, str], Verdict]:
    """`judged(2, source)` is the verdict on a source as step 2 of rope."""

    def judge(number: int, source: str) -> Verdict:
        return run([steps.entry(ROPE, number, source)], Options(SEED), server)[0]

    return judge


def cells(kata: Kata) -> list[dict]:
    return nbformat.read(kata.notebook, as_version=4).cells


def edit(kata: Kata, old: str, new: str) -> None:
    """What a user who writes in the notebook saves."""
    node = nbformat.read(kata.notebook, as_version=4)
    (cell,) = (cell for cell in node.cells if old in cell.source)
    cell.source = cell.source.replace(old, new)
    nbformat.write(node, kata.notebook)


def order(kata: Kata) -> list[str]:
    """The notebook in words: the first line of each cell."""
    return [cell.source.split("\n")[0] for cell in cells(kata)]


# what masters hold


def test_every_lesson_is_of_the_form() -> None:
    assert TAUGHT
    assert [fault for kata in catalog.katas().values() for fault in lessons.faults(kata)] == []


@pytest.mark.parametrize("name", KATAS)
def test_each_step_is_solved_by_its_answer_and_names_its_mistakes(server: ForkServer, name: str) -> None:
    kata = catalog.katas()[name]
    lesson = lessons.of(kata)
    assert lesson is not None
    assert [fault for step in lesson.steps for fault in steps.faults(kata, step, server)] == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("# added(3.0) = 6\n", "# added(3.0) is 6\n", "'added(3.0) is 6' is no row"),
        ("# added(3.0) = 6\n", "# added(y) = 6\n", "'added(y) = 6' has what is no literal"),
        ("# added(3.0) ≠ 9: a\n#     product\n", "# added(3.0) ≠ 9\n", "does not say which mistake gives that value"),
        ("# added(3.0) ≠ 9: a\n#     product\n", "", "no row names a mistake"),
        ("# added(3.0) = 6\n", "# added(4.0) = 8\n", "no row above says what added(3.0) gives"),
        ("#     product\n", "#     product\n# added(3.0) ≠ 9: b\n", "gives the same in solutions/basics/double.py:"),
        ("#     ### BEGIN SOLUTION\n#     return x + x\n#     ### END SOLUTION", "#     return 2", "one function, its"),
        ('# """A line."""\n', "", "the figure has no docstring"),
        ('tags=["active-ipynb", "figure"]', 'tags=["figure"]', 'tag it "active-ipynb" too'),
        ("# **Again.**", "# **Again.** " + "\n# x" * 60, "lines in the lesson, more than 60"),
        ("word " * 20, "word", "6 words in the idea: write 100 to 200"),
        ("plt.plot([1, 2])", "plt.plot([1, 3])", "is not what this cell draws: run `figures`"),
        ('# %% tags=["active-ipynb", "experiment"]\n# print(double("ab"))\n', "", "tagged `experiment`"),
    ],
)  # fmt: skip
def test_a_fault_of_a_lesson_is_told_with_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    kata = made(tmp_path, old, new)
    (fault,) = (fault for fault in lessons.faults(kata) if told in fault)
    place, _, line = fault.partition(": ")[0].rpartition(":")
    assert place == "solutions/basics/double.py"
    assert 20 < int(line) < 160


def test_rows_that_a_steps_own_answer_does_not_give_are_told(tmp_path: Path, server: ForkServer) -> None:
    kata = made(tmp_path, "# again(3.0) = 12\n# again(3.0) ≠ 81", "# again(3.0) = 13\n# again(3.0) ≠ 13.001")
    wrong, near = steps.faults(kata, lessons.step(kata, 2), server)
    assert "the answer of the step does not give this: got 12, expected 13" in wrong
    assert "whoever gives this is not told so" in near


def test_a_lesson_changes_nothing_of_script_solution_and_hints(kata: Kata) -> None:
    text = master.read_text(kata.master)
    for found in (master.stub_text(kata), master.solution_code(text), *master.hints(kata), master.statement(kata)):
        assert "added" not in found
    assert "print(double" in master.lesson_text(kata)
    assert "added" not in master.lesson_text(kata)


# how steps are judged


def test_a_usual_mistake_is_named_and_another_value_is_shown(judged) -> None:
    same = "def angles(position, d_k, theta):\n    return [position] * (d_k // 2)\n"
    (check,) = judged(2, same).checks
    assert check.outcome is Outcome.WRONG
    assert check.diagnosis == "every pair has the same speed; the exponent falls with the pair, -2i/d_k"
    assert "got [3, 3], expected [3, 0.3]" in check.message
    assert check.diagnosis in verdict_html(judged(2, same)).replace("&#39;", "'")
    (check,) = judged(2, same.replace("[position]", "[7.5]")).checks
    assert check.diagnosis is None
    assert "got [7.5, 7.5], expected [3, 0.3]" in check.message


@pytest.mark.parametrize("name", KATAS)
def test_tensors_lists_and_tuples_of_the_right_values_are_right(judged, name: str) -> None:
    as_tensor = "import torch\ndef angles(p, d_k, theta):\n    return p * theta ** (-torch.arange(0, d_k, 2) / d_k)\n"
    assert judged(2, as_tensor).verdict == "passed"
    assert judged(2, "def angles(p, d, t): return (3, 0.3)").verdict == "passed"
    assert judged(1, "def pairs(row): return [row[0::2], row[1::2]]").checks[0].diagnosis.startswith("the axes are")


@pytest.mark.parametrize(
    ("source", "verdict", "told"),
    [
        ("def angles(p, d, t):\n    print('here')\n    return 1 / 0\n", "failed", "ZeroDivisionError"),
        ("def angles(p, d, t):\n    print('here')\n", "failed", "the result is None"),
        ("def angles(p, d, t):\n    import os\n    os._exit(0)\n", "failed", "ended its own process"),
        ("def angles(p, d, t):\n    return 'x' * 10\n", "failed", "got 'xxxxxxxxxx', expected [3, 0.3]"),
        ("def angles(p, d, t):\n    import torch\n    return torch.ones(1).expand(10**9)\n", "failed", "1000000000"),
        ("def angels(p, d, t):\n    return 1\n", "broken", "defines no `angles`; rename your `angels`?"),
        ("def angles(:\n", "broken", "this is not valid Python"),
        (lessons.step(ROPE, 2).begun, "empty", "write `angles` in step 2 of rope"),
    ],
)  # fmt: skip
def test_whatever_a_step_does_ends_in_a_verdict(judged, source: str, verdict: str, told: str) -> None:
    found = judged(2, source)
    assert found.verdict == verdict
    assert told in "\n".join([found.message, *(check.message for check in found.checks)])
    assert "Test" not in found.message
    if "print" in source:
        assert "here" in found.checks[0].message


def test_a_page_grades_a_step_as_any_other_entry_and_the_kata_after_it(server: ForkServer) -> None:
    own = server.split(None)
    with ResidentGrader(SEED, server=own) as grader:
        assert grader.grade(steps.entry(ROPE, 2, lessons.step(ROPE, 2).solved)).state == "passed"
        whole = grader.grade(Entry.of_solution(ROPE))
        assert whole.verdict == "passed"
        assert len(whole.checks) > 20
    server.join(own)


def test_a_step_of_a_saved_notebook_is_graded_without_the_rest(kata: Kata, server: ForkServer) -> None:
    edit(kata, 'raise NotImplementedError\n\n\ncheck("double", step=1)', 'return x * x\n\n\ncheck("double", step=1)')
    entry = steps.of_file(kata, 1, None)
    assert "double" not in entry.source
    (check,) = run([entry], Options(SEED), server)[0].checks
    assert check.diagnosis == "a product"
    with pytest.raises(Trouble, match=r"there is no notebook .*gone\.ipynb"):
        steps.of_file(kata, 1, kata.root / "gone.ipynb")


# notebooks and scripts


def test_the_notebook_leads_to_the_kata_and_its_figure_is_there_already(kata: Kata) -> None:
    assert order(kata) == [
        "# Double", "double(3)", "## The idea", "import sys", "### Step 1 of 2", "def added(x: float) -> float:",
        "### Step 2 of 2", "def again(x: float) -> float:", "## The kata", "import math", "def double(x):",
        "class Twice:", "import sys", "## Look at it, after a pass", 'print(double("ab"))',
    ]  # fmt: skip
    (shown,) = (cell.outputs for cell in cells(kata) if cell.get("outputs"))
    assert 'alt="A line."' in shown[0].data["text/html"]
    assert "return x + x" not in kata.notebook.read_text("utf-8")
    assert build.is_fresh_notebook(kata.notebook)
    assert "lesson" not in kata.stub.read_text("utf-8")


def test_work_in_a_step_is_kept_whatever_comes_from_the_script(kata: Kata) -> None:
    script = kata.stub.read_bytes()
    edit(kata, "Twice x.", "Twice x, I hope.")
    assert sync.sync(kata) is None, "the script says nothing of it"
    assert kata.stub.read_bytes() == script
    before = order(kata)
    for number in range(3):
        text = kata.stub.read_text("utf-8").replace("return x + x\n\n\ndef", "def")
        text = text.replace("import math", "import math\nimport sys") if number == 0 else text
        text = text.replace("# %%\ndef double", "# %%\nown = 1\n\n\n# %%\ndef double") if number == 1 else text
        text = text.replace("raise NotImplementedError", "return x + x", 1) if number == 2 else text
        kata.stub.write_text(text, "utf-8")
        assert "notebooks/basics/double.ipynb brought up to date" in (sync.sync(kata) or "")
        assert any("Twice x, I hope." in cell.source for cell in cells(kata))
        assert [line for line in order(kata) if line != "own = 1"] == before
    assert sum("data" in str(cell.get("outputs")) for cell in cells(kata)) == 1, "the figure is still there"


def test_a_step_and_the_script_worked_in_at_once_are_no_conflict(kata: Kata) -> None:
    kata.stub.write_text(kata.stub.read_text("utf-8").replace("raise NotImplementedError", "return x + x", 1), "utf-8")
    sync.sync(kata)
    edit(kata, "Twice x.", "Twice x, I hope.")
    kata.stub.write_text(kata.stub.read_text("utf-8").replace("return x + x", "return 2 * x"), "utf-8")
    sync.sync(kata)
    sources = [cell.source for cell in cells(kata)]
    assert any("return 2 * x" in source for source in sources)
    assert any("Twice x, I hope." in source for source in sources)
    assert "return 2 * x" in kata.stub.read_text("utf-8")


def test_an_answer_in_the_notebook_reaches_the_script_alone(kata: Kata) -> None:
    edit(kata, "Twice x.", "Twice x, I hope.")
    edit(kata, '"""Twice `x`."""\n    raise NotImplementedError', '"""Twice `x`."""\n    return x + x')
    assert sync.sync(kata) == "katas/basics/double.py brought up to date from notebooks/basics/double.ipynb"
    script = kata.stub.read_text("utf-8")
    assert "return x + x" in script
    assert "added" not in script
    assert script.endswith('# check("double")\n')


def test_a_script_written_by_hand_is_not_lost_when_git_takes_the_notebook_back(kata: Kata) -> None:
    built = kata.notebook.read_bytes()
    kata.stub.write_text(kata.stub.read_text("utf-8").replace("raise NotImplementedError", "return x + x", 1), "utf-8")
    sync.sync(kata)
    edit(kata, "Twice x.", "Twice x, I hope.")
    sync.sync(kata)
    kata.notebook.write_bytes(built)
    sync.sync(kata)
    kept = [path.read_text("utf-8") for path in (kata.home / "kept").rglob("*.py")]
    assert any("return x + x" in text for text in [kata.stub.read_text("utf-8"), *kept])


def test_reset_gives_the_lesson_back_and_keeps_what_was_there(kata: Kata) -> None:
    from dojo.practice import progress

    built = kata.notebook.read_bytes()
    edit(kata, "Twice x.", "Twice x, I hope.")
    told = progress.reset(kata)
    assert kata.notebook.read_bytes() == built
    assert "what you had is in .dojo/kept/double-" in told


def test_in_lab_script_and_notebook_follow_each_other(kata: Kata, monkeypatch: pytest.MonkeyPatch) -> None:
    from dojo.notebook.paired import PairedFiles

    monkeypatch.setattr(catalog, "ROOT", kata.root)
    monkeypatch.setattr(catalog, "named", lambda name: kata)
    served, path = PairedFiles(root_dir=str(kata.root)), "notebooks/basics/double.ipynb"
    kata.stub.write_text(kata.stub.read_text("utf-8").replace("raise NotImplementedError", "return x + x", 1), "utf-8")
    model = asyncio.run(served.get(path))
    answer = next(cell for cell in model["content"]["cells"] if "def double" in cell["source"])
    assert "return x + x" in answer["source"]
    answer["source"] = answer["source"].replace("x + x", "2 * x")
    asyncio.run(served.save({"type": "notebook", "content": model["content"]}, path))
    assert "return 2 * x" in kata.stub.read_text("utf-8")
    assert "added" not in kata.stub.read_text("utf-8")


# in kernels


@pytest.mark.parametrize("name", KATAS)
def test_a_lesson_runs_from_top_to_bottom_with_the_answers_in_its_cells(project: Path, name: str) -> None:
    kata = catalog.katas(project)[name]
    lesson = lessons.of(kata)
    assert lesson is not None
    node = nbformat.read(kata.notebook, as_version=4)
    answer = nbformat.v4.new_code_cell(master.solution_code(master.read_text(kata.master)))
    checks = [cell for cell in node.cells if f'check("{name}", step=' in cell.source]
    for cell, step in zip(checks, lesson.steps, strict=True):
        cell.source = cell.source.replace(step.stub, step.solution)
    at = next(n for n, cell in enumerate(node.cells) if cell.source.endswith(f'check("{name}")'))
    node.cells.insert(at, answer)
    kernel = NotebookClient(node, timeout=120, resources={"metadata": {"path": str(kata.notebook.parent)}})
    kernel.execute()
    assert not [o for cell in node.cells for o in cell.get("outputs", []) if o.output_type == "error"]
    shown = {cell.source: str(cell.outputs) for cell in node.cells if cell.get("outputs")}
    assert all(f"{name} step {n}: passed" in shown[cell.source] for n, cell in enumerate(checks, 1))
    assert any(f"{name}: passed" in text for text in shown.values())
    assert lesson.alternative[:40] in shown[next(source for source in shown if f'figure("{name}")' in source)]
    assert node.cells[-1].outputs, "the experiment prints what there is to look at"


def test_an_answer_that_leans_on_a_steps_cell_is_told_to_take_it_along(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "<a>": 'def angles(p, d_k, theta):\n    return 1\n\n\ncheck("rope", step=2)\n',
        "<b>": "class RoPEReal:\n    def forward(self, x):\n        return angles(1, 2, 3)\n",
    }
    namespace: dict = {"check": lambda *_, **__: None}
    for name, source in sources.items():
        exec(compile(source, name, "exec"), namespace)
    monkeypatch.setattr("linecache.getlines", lambda name: sources[name].splitlines(keepends=True))
    from dojo.notebook.capture import capture

    with pytest.raises(Trouble, match=r"your answer uses `angles` of a step, and katas/positions/rope\.py has"):
        capture(ROPE, namespace, {name: f"cell [{name}]" for name in sources})


def test_in_a_plain_script_a_figure_is_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    api.figure("rope")
    api.figure("linear")
    assert capsys.readouterr().out.startswith("Three cosine curves")


def test_on_a_terminal_a_wrong_step_fits_the_screen_and_names_the_mistake(project: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def angles(p, d_k, theta):\n    return [p] * (d_k // 2)\n", "utf-8")
    shown, status = terminal.run(["grade", "rope", "--step", "2", "--attempt", str(wrong)], [], project, columns=80)
    assert status == 1
    screen = pyte.Screen(80, 24)
    pyte.Stream(screen).feed(shown)
    told = "\n".join(screen.display)
    assert "got [3, 3], expected [3, 0.3]" in told
    assert "every pair has the same speed" in told
    assert "rope step 2: wrong" in told
    assert "/wrong.py" in told, "all of it is on the screen, the first line too"


def test_the_lesson_folds_out_without_its_answers(capsys: pytest.CaptureFixture[str]) -> None:
    from dojo.cli import katas

    assert katas.show_lesson(ROPE) == 0
    told = capsys.readouterr().out
    assert "solutions/positions/rope.svg" in told
    assert "Three cosine curves" in told
    assert all(each.stub in told for each in lessons.of(ROPE).steps)
    assert all(each.solution not in told for each in lessons.of(ROPE).steps)
    assert katas.show_lesson(catalog.katas()["linear"]) == 1
    assert f"linear has no lesson; those that have are {', '.join(TAUGHT)}" in capsys.readouterr().out


# what is drawn and what is installed


@pytest.mark.parametrize("name", KATAS)
def test_a_figure_is_drawn_alike_each_time_and_shows_on_light_and_dark(name: str) -> None:
    kata = catalog.katas()[name]
    figure = lessons.figure_of_lesson(kata)
    assert figure is not None
    drawn = figures.draw(kata, figure)
    assert drawn == figures.draw(kata, figure)
    assert figure.mark in drawn
    assert "#ffffff" not in drawn
    assert "#000000" not in drawn
    assert any(color.lower() in drawn for color in figures.COLORS)


def test_every_figure_on_disk_is_what_its_master_draws() -> None:
    stale = [kata.say(each.path) for kata in catalog.katas().values() for each in lessons.figures(kata) if each.stale]
    assert not stale, f"run `figures`: {stale}"


def test_notebooks_install_the_project_from_where_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"]["Homepage"] == lessons.REPOSITORY


@pytest.mark.proof
def test_a_package_without_a_clone_carries_the_katas(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    copy = copy_of_project(tmp_path / "project")
    for name in ("setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    words = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(copy)]
    subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    (tmp_path / "empty").mkdir()
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r})\n"
        "from dojo import check, figure\nfrom dojo.content import catalog\nprint(catalog.ROOT)\nfigure('rope')\n"
        "print(len(catalog.katas()), all(k.grader.exists() and k.stub.exists() for k in catalog.katas().values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "empty", capture_output=True, text=True)
    where, alternative, count = done.stdout.splitlines()
    assert where == str(tmp_path / "installed" / "dojo" / "project")
    assert alternative.startswith("Three cosine curves")
    assert count == f"{len(catalog.katas())} True"
