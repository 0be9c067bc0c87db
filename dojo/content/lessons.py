"""Reads the lesson before a kata: an idea with its figure, small steps with checks of their own, an experiment.

Its cells stand in the master between statement and answer, where they stand in the notebook:

- `idea`: a Markdown cell of 100 to 200 words; nothing of the answer.
- `figure`: a code cell that draws with matplotlib; its first statement is a docstring, the text alternative.
- `step`: a Markdown cell that asks, then a code cell with one function, its body between the markers of the answer.
- `step-cases`: below it a Markdown cell of rows, a line each; what is indented goes on with the line above. What is
  right, `angles(3, 4, 100.0) = [3, 0.3]`, or the value that a usual mistake gives, and which one that is:
  `angles(3, 4, 100.0) ≠ [3, 3]: every pair has the same angle`.
- `experiment`: a Markdown cell that says what to look for, and a code cell to run and to change, after a pass.

Code cells are tagged `active-ipynb` too, and so are comments in the master.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dojo.content import files, master, signature, stages
from dojo.content.catalog import BrokenMaster, Kata, Trouble, typed
from dojo.content.cells import LESSON, NOTEBOOK_ONLY, Cell, read_text, split
from dojo.content.master import BEGIN, END

if TYPE_CHECKING:
    from pathlib import Path

    from nbformat import NotebookNode

FEWEST_WORDS, MOST_WORDS = 100, 200  # of an idea
FEWEST_STEPS, MOST_STEPS = 2, 4
MOST_LINES = 60  # of a lesson in its master, blank ones and the lines that begin a cell aside
WIDTH = 760  # pixels of a figure where there is room for so many
REPOSITORY = "https://github.com/llm-dojo/dojo"  # where a notebook installs the project from that has none
ROW = re.compile(r"(?P<call>(?P<name>\w+)\(.*?\)) (?P<sign>[=≠]) (?P<value>.+)")
ANSWER = re.compile(rf"^( *){BEGIN}\n.*?^ *{END}\n?", re.MULTILINE | re.DOTALL)
NUMBERS = {"inf": math.inf, "nan": math.nan}  # which are no literals
Arguments = tuple[list[Any], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """A call of a step's function, and the value that is right or that a mistake gives; `why` says which mistake."""

    call: str
    arguments: Arguments
    value: Any
    why: str
    place: str  # FILE:LINE

    @property
    def right(self) -> bool:
        """Whether the value is what is asked for."""
        return not self.why


@dataclass(frozen=True)
class Step:
    """A small function on the way to a kata."""

    number: int
    ask: str  # in Markdown
    name: str  # of the function
    solution: str
    stub: str
    imports: str  # of the kata's stub, as far as the function needs them
    place: str  # FILE:LINE of the function
    rows: tuple[Row, ...] = ()

    @property
    def kinds(self) -> dict[str, str]:
        """By parameter that is a tensor Float, Int or Bool."""
        found = signature.signature_in(self.solution, self.name)
        return found.kinds if found else {}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters in their order."""
        found = signature.signature_in(self.solution, self.name)
        return found.inputs if found else ()

    @property
    def begun(self) -> str:
        """A file to write the step in."""
        return f"{self.imports}{self.stub}"

    @property
    def solved(self) -> str:
        """The same with the answer in it."""
        return f"{self.imports}{self.solution}"


@dataclass(frozen=True)
class Lesson:
    """What leads to a kata, and what to look at when it is done."""

    idea: str  # in Markdown
    figure: str  # the code that draws it
    alternative: str  # what can be seen on it
    steps: tuple[Step, ...]
    experiment: tuple[str, str]  # what to look for, in Markdown, and the code
    lines: int
    places: dict[str, tuple[int, str]] = field(default_factory=dict)  # by part its first line, and FILE:LINE


def of(kata: Kata) -> Lesson | None:
    """The lesson of a kata; None where it has none. Raises BrokenMaster, which says FILE:LINE."""
    cells = [cell for cell in split(read_text(kata.master))[1] if cell.of_lesson]
    if not cells:
        return None
    if stages.of(kata):
        raise BrokenMaster(f"{_place(kata, cells[0])}: a kata in stages has no lesson: take the cells out")
    for cell in cells:
        if not cell.markdown and NOTEBOOK_ONLY not in cell.tags:
            raise BrokenMaster(
                f'{_place(kata, cell)}: code of a lesson is a comment in the master: tag it "{NOTEBOOK_ONLY}" too'
            )
    by_part = {part: [cell for cell in cells if part in cell.tags] for part in ("idea", "figure", "experiment")}
    for part, kinds in {"idea": [True], "figure": [False], "experiment": [True, False]}.items():
        if [cell.markdown for cell in by_part[part]] != kinds:
            wanted = " and then ".join("a Markdown cell" if markdown else "a code cell" for markdown in kinds)
            where = _place(kata, (by_part[part] or cells)[0])
            raise BrokenMaster(f"{where}: a lesson has {wanted} tagged `{part}`, and this one has other cells")
    figure = by_part["figure"][0]
    return Lesson(
        by_part["idea"][0].prose,
        figure.prose,
        _alternative(kata, figure),
        tuple(_steps(kata, cells)),
        (by_part["experiment"][0].prose, by_part["experiment"][1].prose),
        sum(bool(line.lstrip("# ").strip()) for cell in cells for line in cell.lines),
        {part: (found[0].start, _place(kata, found[0])) for part, found in by_part.items()},
    )


def step(kata: Kata, number: int) -> Step:
    """One step by its number. Raises Trouble where there is none."""
    lesson = of(kata)
    if lesson is None:
        raise Trouble(f"{kata.name} has no lesson, and so no steps")
    if not 1 <= number <= len(lesson.steps):
        shown = f"`{typed(f'show {kata.name} --lesson')}` shows them"
        raise Trouble(f"{kata.name} has {len(lesson.steps)} steps, and none of number {number}: {shown}")
    return lesson.steps[number - 1]


def is_untouched(step: Step, source: str) -> bool:
    """Whether the function is what the notebook began with."""

    def shape(text: str) -> str | None:
        return next((ast.dump(n) for n in ast.parse(text).body if getattr(n, "name", "") == step.name), None)

    try:
        return shape(source) == shape(step.stub)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def taken_from_steps(kata: Kata, defined: dict[str, str]) -> list[str]:
    """Which of these names are functions of steps, by the cells that define them: those of steps end in their check."""
    checks = re.compile(rf"""^check\(["']{kata.name}["'], step=""", re.MULTILINE)
    lesson = of(kata)
    names = {each.name for each in lesson.steps} if lesson else set()
    return [name for name, source in defined.items() if name in names and checks.search(source)]


def faults(kata: Kata) -> list[str]:
    """What is wrong with a kata's lesson as far as it can be read, as FILE:LINE: what."""
    try:
        lesson = of(kata)
    except BrokenMaster as broken:
        return [str(broken)]
    stale = [
        f"{each.place}: {kata.say(each.path)} is not what this cell draws: run `figures`"
        for each in figures(kata)
        if each.stale
    ]
    if lesson is None:
        return stale
    found, places = stale, {part: place for part, (_, place) in lesson.places.items()}
    count = master.words(lesson.idea)
    if not FEWEST_WORDS <= count <= MOST_WORDS:
        found.append(f"{places['idea']}: {count} words in the idea: write {FEWEST_WORDS} to {MOST_WORDS}")
    if not FEWEST_STEPS <= len(lesson.steps) <= MOST_STEPS:
        found.append(f"{places['idea']}: {len(lesson.steps)} steps: a lesson has {FEWEST_STEPS} to {MOST_STEPS}")
    if lesson.lines > MOST_LINES:
        found.append(f"{places['idea']}: {lesson.lines} lines in the lesson, more than {MOST_LINES}")
    for each in lesson.steps:
        found += _faults_of_rows(each)
    return found


@dataclass(frozen=True)
class Figure:
    """A figure that is drawn when the project is built, and then is a file beside the master."""

    path: Path
    code: str
    alternative: str  # what can be seen on it
    place: str  # FILE:LINE of the code
    before: str = ""  # code that it needs

    @property
    def mark(self) -> str:
        """What stands in the file, and says which code has drawn it."""
        return f"<!-- drawn by code of digest {files.digest(self.code)[:16]} -->"

    @property
    def stale(self) -> bool:
        """Whether the file was drawn by other code than the master has now."""
        return not self.path.exists() or self.mark not in read_text(self.path)

    @property
    def html(self) -> str:
        """The figure as an element that needs no other file; nothing where it is not drawn."""
        if not self.path.exists():
            return ""
        import base64
        from html import escape

        encoded = base64.b64encode(self.path.read_bytes()).decode()
        source = f"data:image/svg+xml;base64,{encoded}"
        return f'<img alt="{escape(self.alternative)}" width="{WIDTH}" src="{source}">'


def figures(kata: Kata) -> list[Figure]:
    """The figures of a kata: that of its lesson, and that of its explanation, where it has them."""
    return [each for each in (figure_of_lesson(kata), figure_of_explanation(kata)) if each]


def figure_of_lesson(kata: Kata) -> Figure | None:
    """The figure of a kata's lesson, if it has one."""
    lesson = of(kata)
    if lesson is None:
        return None
    return Figure(kata.figure, lesson.figure, lesson.alternative, lesson.places["figure"][1])


def figure_of_explanation(kata: Kata) -> Figure | None:
    """The figure that explains a kata's answer, if it has one; the first line of its cell says what can be seen."""
    cells = split(read_text(kata.master))[1]
    code_cells = [cell for cell in cells if not cell.markdown and {"solution", NOTEBOOK_ONLY} <= set(cell.tags)]
    found = [cell for cell in code_cells if "matplotlib" in cell.prose]
    if not found:
        return None
    code = found[0].prose
    path = kata.figure.with_name(f"{kata.name}.explained.svg")
    alternative = code.split("\n", 1)[0].removeprefix("# ")
    return Figure(path, code, alternative, _place(kata, found[0]), master.solution_code(read_text(kata.master)))


def figure(kata: Kata) -> dict[str, str] | None:
    """The figure of a kata's lesson as HTML and as text, by type as notebooks have it; None where there is none."""
    found = figure_of_lesson(kata)
    return {"text/html": found.html, "text/plain": found.alternative} if found and found.html else None


def notebook_cells(kata: Kata) -> list[tuple[int, NotebookNode]]:
    """The lesson's cells for the notebook, each with the number of the script's cells that stand before it."""
    lesson = of(kata)
    if lesson is None:
        return []
    from nbformat import v4

    starts = [cell.start for cell, _ in master.stub_cells(kata)[:-1]]
    end = len(starts) + 1  # the last cell of a script grades

    def before(line: int) -> int:
        return sum(start < line for start in starts)

    found = [
        (before(lesson.places["idea"][0]), _markdown(f"## The idea\n\n{lesson.idea}")),
        (before(lesson.places["figure"][0]), _code(SET_UP.format(repository=REPOSITORY, name=kata.name))),
    ]
    if shown := figure(kata):
        found[-1][1].outputs = [v4.new_output("display_data", data=shown)]
    for each in lesson.steps:
        at = before(int(each.place.rpartition(":")[2]))
        found.append((at, _markdown(f"### Step {each.number} of {len(lesson.steps)}\n\n{each.ask}")))
        found.append((at, _code(f'{each.stub}\n\n\ncheck("{kata.name}", step={each.number})')))
    look, code = lesson.experiment
    found.append((found[-1][0], _markdown(f"## The kata\n\n{THE_KATA}")))
    found.append((end, _markdown(f"## Look at it, after a pass\n\n{look}")))
    found.append((end, _code(code, "raises-exception")))  # where it is run before there is an answer
    return found


SET_UP = """\
import sys

sys.path.append("../..")  # the project
try:
    import dojo
except ModuleNotFoundError:  # on Colab, say
    %pip install --quiet git+{repository}
from dojo import check, figure

figure("{name}")"""
THE_KATA = """\
What to write is asked at the top. If your answer calls a function of a step, copy that into a cell below: the script
has these cells alone."""


def is_of_lesson(cell: dict) -> bool:
    """Whether a notebook's cell is of the lesson, and not of the script."""
    tags = (cell.get("metadata") or {}).get("tags")
    return isinstance(tags, list) and LESSON in tags


def _steps(kata: Kata, cells: list[Cell]) -> list[Step]:
    parts = [cell for cell in cells if not {"step", "step-cases"}.isdisjoint(cell.tags)]
    if [("step-cases" in cell.tags, cell.markdown) for cell in parts] != STEP * (len(parts) // 3):
        where = _place(kata, (parts or cells)[0])
        raise BrokenMaster(f"{where}: a step is a Markdown cell, a code cell and a Markdown cell tagged `step-cases`")
    return [_step(kata, n // 3 + 1, *parts[n : n + 3]) for n in range(0, len(parts), 3)]


STEP = [(False, True), (False, False), (True, True)]  # whether a cell has cases, and whether it is Markdown


def _step(kata: Kata, number: int, ask: Cell, code: Cell, cases: Cell) -> Step:
    place, text = _place(kata, code), code.prose
    solution = "\n".join(line for line in text.split("\n") if line.strip() not in (BEGIN, END))
    stub = ANSWER.sub(r"\1raise NotImplementedError\n", text + "\n").rstrip("\n")
    try:
        made = [node for node in ast.parse(solution).body if not isinstance(node, (ast.Import, ast.ImportFrom))]
        ast.parse(stub)
    except SyntaxError as error:
        raise BrokenMaster(f"{place}: this is no Python: {error.msg}") from None
    if len(made) != 1 or not isinstance(made[0], ast.FunctionDef) or stub == text:
        raise BrokenMaster(f"{place}: a step is one function, its body between `{BEGIN}` and `{END}`")
    name, imports = made[0].name, _imports(kata, solution)
    return Step(number, ask.prose, name, solution, stub, imports, place, tuple(_rows(kata, name, cases)))


def _rows(kata: Kata, name: str, cases: Cell) -> list[Row]:
    found = []
    for number, line in _lines(cases):
        place = f"{kata.say(kata.master)}:{number}"
        match = ROW.fullmatch(line)
        if match is None or match["name"] != name:
            raise BrokenMaster(
                f"{place}: {line!r} is no row: `{name}(3) = 0.5` is right, and "
                f"`{name}(3) ≠ 0.7: what is done wrong` a mistake"
            )
        value, _, why = match["value"].partition(": ") if match["sign"] == "≠" else (match["value"], "", "")
        if match["sign"] == "≠" and not why:
            raise BrokenMaster(f"{place}: {line!r} does not say which mistake gives that value, after a colon")
        try:
            call = ast.parse(match["call"], mode="eval").body
            assert isinstance(call, ast.Call)  # as the expression above has it
            named = {word.arg: _literal(word.value) for word in call.keywords if word.arg}
            arguments = [_literal(node) for node in call.args], named
            row = Row(match["call"], arguments, _literal(ast.parse(value, mode="eval").body), why, place)
        except (SyntaxError, ValueError) as error:
            raise BrokenMaster(f"{place}: {line!r} has what is no literal: {error}") from None
        found.append(row)
    return found


def _lines(cases: Cell) -> list[tuple[int, str]]:
    """The rows of a cell by the number of the line where each begins."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(cases.lines, cases.start + 1):
        text = re.sub(r"^# ?", "", line)
        if text[:1].isspace() and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {text.strip()}")
        elif text.strip():
            found.append((number, text.strip()))
    return found


def _faults_of_rows(of_step: Step) -> list[str]:
    right = [row for row in of_step.rows if row.right]
    found = [] if right else [f"{of_step.place}: no row says what is right: `{of_step.name}(…) = …`"]
    if not any(not row.right for row in of_step.rows):
        found.append(f"{of_step.place}: no row names a mistake: `{of_step.name}(…) ≠ …: …`")
    seen: dict[str, Row] = {}
    for row in of_step.rows:
        if not row.right and row.call not in {each.call for each in right}:
            found.append(f"{row.place}: no row above says what {row.call} gives: add `{row.call} = …`")
        other = seen.setdefault(f"{row.call} {row.value!r}", row)
        if other is not row:
            found.append(f"{row.place}: {row.call} gives the same in {other.place}, and it can mean one thing only")
    return found


def _alternative(kata: Kata, cell: Cell) -> str:
    try:
        text = ast.get_docstring(ast.parse(cell.prose))
    except SyntaxError as error:
        raise BrokenMaster(f"{_place(kata, cell)}: the figure is no Python: {error.msg}") from None
    if not text:
        raise BrokenMaster(f"{_place(kata, cell)}: the figure has no docstring that says what can be seen on it")
    return " ".join(text.split())


def _imports(kata: Kata, source: str) -> str:
    """The imports of the kata's stub that a source needs, with the blank lines below them."""
    named = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    needed = [
        ast.unparse(node)
        for node in ast.parse(master.stub_text(kata)).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and named & {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    ]
    return "\n".join([*needed, "", "", ""]) if needed else ""


def _literal(node: ast.expr) -> Any:
    """What a literal says; `inf` and `nan` are numbers too. Raises ValueError."""

    class _Numbers(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:  # so the visitor is called
            return ast.Constant(NUMBERS[name.id]) if name.id in NUMBERS else name

    return ast.literal_eval(_Numbers().visit(node))


def _place(kata: Kata, cell: Cell) -> str:
    return f"{kata.say(kata.master)}:{cell.start}"


def _markdown(source: str) -> NotebookNode:
    from nbformat.v4 import new_markdown_cell

    return new_markdown_cell(source, metadata={"tags": [LESSON]})


def _code(source: str, *tags: str) -> NotebookNode:
    from nbformat.v4 import new_code_cell

    return new_code_cell(source, metadata={"tags": [NOTEBOOK_ONLY, LESSON, *tags]})
