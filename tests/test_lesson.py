"""Notebooks as lessons: run in real kernels, graded by the same judge, readable without one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from jupyter_client.client import KernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from jupytext.config import load_jupytext_config, notebook_formats
from jupytext.paired_paths import paired_paths
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from dojo.content import catalog, lessons, master, stages
from dojo.content.catalog import Trouble
from dojo.notebook import api, capture
from dojo.practice import lesson
from dojo.verdict.causes import causes
from dojo.verdict.screen.text import readable
from dojo.verdict.types import Outcome
from tests.conftest import Grade

# A kernel takes seconds to start: the other katas are for `nox -s proof`.
USUAL = ("rope",)  # of the others the proof asks
KATAS = [pytest.param(name, marks=[] if name in USUAL else pytest.mark.proof) for name in catalog.katas()]
RIGHT = master.solution_code(master.read_text(catalog.katas()["softmax"].master))
WRONG = """\
import torch


def helper(x):
    return x.exp()


def softmax(x, dim=-1):
    e = helper(x)
    return e / e.sum(dim, keepdim=True)
"""


@pytest.fixture
def kernel(project: Path) -> Iterator[tuple[KernelManager, KernelClient]]:
    manager, client = start_new_kernel(cwd=str(project / "notebooks" / "basics"))
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(project: Path, *cells: str | dict) -> list[str]:
    """What each code cell says as text, run top to bottom in a fresh kernel."""
    node = new_notebook(cells=[new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    NotebookClient(node, timeout=120, resources={"metadata": {"path": str(project / "notebooks" / "basics")}}).execute()
    return [said(cell) for cell in node.cells if cell.cell_type == "code"]


IMPORT = "import sys; sys.path.append('../..'); from dojo import check, hint, reveal, history, next_kata"
CALLS = ["hint('mqa')", "reveal('mqa')", "reveal('mqa', spoil=True)", "history('mqa')", "next_kata()"]
CALLS += ["check('mqqa')", "hint('rpoe')"]


@pytest.fixture(scope="module")
def shown(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What calls say in one kernel, for each takes seconds to start: of each step the output of its last cell."""
    steps = {
        "crash": [IMPORT, "def softmax(x, dim=-1):\n    return x.no_such_method()", "check('softmax')"],
        "right": [RIGHT, "check('softmax', 7)"],
        "forgotten": ["right = softmax\ndel softmax", "check('softmax')"],
        "nothing": ["softmax = None", "check('softmax')"],
        "replaced": ["def check(x): return x\ndef softmax(x, dim=-1): return check(x)", f"{IMPORT}\ncheck('softmax')"],
        "remembered": ["softmax = right", "check('softmax')"],
        "wrong": [WRONG, "check('softmax', 7)"],
    } | {call: [call] for call in CALLS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOJO_HOME", str(tmp_path_factory.mktemp("home")))
        outputs = iter(run(project, *(cell for cells in steps.values() for cell in cells)))
    return {name: [next(outputs) for _ in cells][-1] for name, cells in steps.items()}


def said(cell: dict) -> str:
    parts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "\n".join(parts)


@pytest.mark.parametrize("name", KATAS)
def test_a_notebook_runs_untouched_and_passes_with_the_solution_in_its_cells(project: Path, name: str) -> None:
    kata = catalog.katas(project)[name]
    node = nbformat.read(kata.notebook, as_version=4)
    cells = [cell for cell in node.cells if not lessons.is_of_lesson(cell)]
    answer = master.solution_code(master.read_text(kata.master))
    *examples, untouched, _, passed = run(project, *cells, answer, cells[-1].source)
    if 'tags=["active-ipynb", "example"]' in master.read_text(kata.master):
        assert examples[0].strip(), "the example prints its numbers"
    assert f"{name}: not started" in untouched
    assert f"{name}: passed" in passed


@pytest.mark.proof
@pytest.mark.parametrize("name", KATAS)
def test_a_lesson_comes_with_its_figures_and_without_a_script(project: Path, name: str) -> None:
    kata = catalog.katas(project)[name]
    told = lesson.write(kata)
    path = project / "lessons" / f"{name}.ipynb"
    node = nbformat.read(path, as_version=4)
    code = "\n".join(cell.source for cell in node.cells)
    assert "SOLUTION" not in code
    assert master.explanation(kata).splitlines()[0] in code
    pictures = [o for c in node.cells for o in c.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) == code.count("plt.show()")
    with_figures = " with its figures" * bool(pictures)
    assert told == f"lessons/{name}.ipynb is the explained solution{with_figures}. `nox -s lab` opens JupyterLab."
    assert [each.name for each in path.parent.glob(f"{name}.*")] == [path.name]
    formats = notebook_formats(node, load_jupytext_config(str(path)), str(path))
    assert [each for each, _ in paired_paths(str(path), {"extension": ".ipynb"}, formats)] == [str(path)]


def test_a_lesson_without_matplotlib_says_where_its_figures_are(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert lesson.write(catalog.katas(project)["sdpa"]) == (
        "lessons/sdpa.ipynb is the explained solution. `nox -s lab` opens JupyterLab. "
        "Its figures are drawn when you run it there: there is no matplotlib here."
    )


def test_a_lesson_worked_in_is_kept_when_it_is_made_again(project: Path) -> None:
    kata = catalog.katas(project)["linear"]
    lesson.write(kata)
    assert "before" not in lesson.write(kata)
    path = project / "lessons" / "linear.ipynb"
    path.write_text(path.read_text() + "\n")
    assert "(before: .dojo/kept/linear-" in lesson.write(kata)
    assert any(copy.read_text().endswith("\n\n") for copy in (kata.home / "kept").glob("linear-*.ipynb"))


def test_the_verdict_in_a_notebook_is_the_verdict_on_the_saved_file(shown: dict[str, str], graded: Grade) -> None:
    for step, source in (("right", RIGHT), ("wrong", WRONG)):
        judged, told = graded("softmax", source, seed=7), shown[step]
        for cause in causes(judged.checks):
            assert readable(cause.check.name, cause.check.outcome is Outcome.WRONG) in told
            assert cause.also in told
        assert f"softmax: {judged.standing}" in told
        for diagnosis in filter(None, (check.diagnosis for check in judged.checks)):
            assert diagnosis.split(":")[0] in told.replace("\n", " ")


def test_what_a_kernel_forgot_or_redefined_counts_and_not_what_the_cells_say(shown: dict[str, str]) -> None:
    assert "none of softmax is defined here yet" in shown["forgotten"]
    assert "softmax: passed" not in shown["nothing"]
    assert "softmax: passed" in shown["remembered"]
    assert "`from dojo import check` has replaced your own `check`: give yours another name" in shown["replaced"]


def test_a_crash_names_the_cell_and_the_line(shown: dict[str, str]) -> None:
    assert "cell [2]" in shown["crash"]
    assert "return x.no_such_method()" in shown["crash"]


def test_interrupting_the_kernel_interrupts_the_grading_and_leaves_no_process(kernel) -> None:
    manager, client = kernel
    endless = "def softmax(x, dim=-1):\n    while True:\n        pass"
    client.execute_interactive(f"{IMPORT}\n{endless}", timeout=60)
    process = psutil.Process(manager.provisioner.pid)
    before = {child.pid for child in process.children(recursive=True)}
    texts: list[str] = []
    asked = client.execute("check('softmax')")

    def judged_by() -> list[psutil.Process]:
        return [child for child in process.children(recursive=True) if child.pid not in before]

    deadline = time.monotonic() + 60
    while len(judged_by()) < 3:  # judge, server and a worker
        assert time.monotonic() < deadline
        time.sleep(0.05)
    family = judged_by()
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=30))["parent_header"].get("msg_id") != asked:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert not psutil.wait_procs(family, timeout=10)[1]
    while True:
        message = client.get_iopub_msg(timeout=5)
        if message["parent_header"].get("msg_id") != asked:
            continue
        texts.append(str(message["content"].get("data", "")))
        if message["content"].get("execution_state") == "idle":
            break
    assert any("interrupted, and not judged" in text for text in texts)


def test_hint_reveal_history_and_next_speak_in_a_notebook(shown: dict[str, str]) -> None:
    said = ["hint 1 of", "stays hidden", "class MultiQueryAttention", "mqa", "min — ", "did you mean mqa", "mean rope"]
    for call, expected in zip(CALLS, said, strict=True):
        assert expected in shown[call]


def script(project: Path, source: str, home: Path) -> str:
    """What a script prints, run by plain Python beside the notebooks."""
    path = home / "script.py"
    path.write_text(f"import sys\n\nsys.path.append({str(project)!r})\n{source}")
    environment = os.environ | {"DOJO_HOME": str(home), "NO_COLOR": "1"}
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True)
    return done.stdout


@pytest.mark.proof
def test_in_a_plain_script_the_same_calls_print_text_and_a_helper_of_the_users_own_travels(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "my_helpers.py").write_text("def shifted(x, dim):\n    return x - x.amax(dim, keepdim=True)\n")
    source = textwrap.dedent("""
        from dojo import check, hint, next_kata
        from my_helpers import shifted

        check("softmax")
        hint("rope", again=True)
        next_kata(1)


        def softmax(x, dim=-1):
            wide = shifted(x.double(), dim).exp()
            return (wide / wide.sum(dim, keepdim=True)).to(x.dtype)


        check("softmax")
    """)
    first, _, second = script(project, WRONG + source, tmp_path).partition("hint 1 of")
    for expected in ("grading softmax", "softmax: wrong", "✗"):
        assert expected in first
    assert "softmax: passed" in second


def test_a_check_left_in_a_graded_file_does_nothing(graded) -> None:
    source = f"from dojo import check\n{RIGHT}\ncheck('softmax')\n"
    assert graded("softmax", source, tier="core").verdict == "passed"


def test_what_cannot_travel_is_told_in_a_sentence() -> None:
    kata = catalog.katas()["softmax"]
    with pytest.raises(Trouble, match="none of softmax is defined here yet"):
        capture.capture(kata, {}, {})
    lock = threading.Lock()
    with pytest.raises(Trouble, match="softmax cannot be sent to the judge"):
        capture.capture(kata, {"softmax": lambda x, dim=-1, lock=lock: x}, {})
    large = bytes(capture.LIMIT + 1)
    with pytest.raises(Trouble, match=r"softmax .* 16 MiB; 16 may travel"):
        capture.capture(kata, {"softmax": lambda x, dim=-1, large=large: x}, {})


def test_what_later_stages_ask_for_travels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kata, source = catalog.katas()["attention_ladder"], master.read_text(catalog.katas()["attention_ladder"].master)
    monkeypatch.setattr(capture.linecache, "getlines", lambda name: source.splitlines(keepends=True))
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, "cell", "exec"), names)
    captured = capture.capture(kata, names, {"cell": "cell 1"})
    assert stages.open_in(kata, captured.text) == len(stages.of(kata))
    assert b"decoder_mask" in captured.pickled_cells.pickled


def test_the_text_of_an_attempt_is_its_imports_and_what_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {"one": "import torch\nimport sys\nscale = 3\nother = 4", "two": WRONG, "three": "%matplotlib inline"}
    monkeypatch.setattr(capture.linecache, "getlines", lambda name: cells[name].splitlines(keepends=True))
    text = capture.capture(catalog.katas()["softmax"], {"softmax": len}, {name: name for name in cells}).text
    assert text == WRONG
    assert api.check.__doc__
