"""Reads a master: its cells, and what follows from them for the stub, the hints, the lesson and the interview.

A master is a Jupytext percent script. Its first markdown cell is the ask, and one tagged `contract` is what a reviewer
would insist on, in bullets that open with a topic; in the old form one cell is both. Cells tagged `hint`, `solution`
and `questions` are for those who ask for them; bodies between `### BEGIN SOLUTION` and `### END SOLUTION` are the
answer. Where the stub is a program to be mended, the comments between `### HANDED OUT` and `### END SOLUTION` are what
stands in the stub instead of the answer. The cells of the lesson before the kata are for `content.lessons`.
"""

from __future__ import annotations

import ast
import dis
import re
import textwrap
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from dojo.content import numbers, stages
from dojo.content.catalog import BrokenMaster, Kata, named
from dojo.content.cells import NOTEBOOK_ONLY, Cell, read_text, split

BEGIN, HANDED_OUT, END = "### BEGIN SOLUTION", "### HANDED OUT", "### END SOLUTION"
ARXIV = re.compile(r"(?<!\[)arXiv:(\d{4}\.\d{4,5}(?:v\d+)?|[a-z-]+(?:\.[A-Z]{2})?/\d{7}(?:v\d+)?)")
POINT = re.compile(r"^- (.+(?:\n(?!- |Answer:|Source:|\s*$).+)*)", re.MULTILINE)
ANSWER = re.compile(r"^Answer: .+(?:\n(?!- |\s*$).+)*", re.MULTILINE)
SOURCE = re.compile(r"^Source: *(.+(?:\n(?!- |\s*$).+)*)", re.MULTILINE)
TOPIC = re.compile(r"\*\*(\S+(?: \S+){0,2})\.\*\*\s")  # of a contract's bullet, one to three words
UNCOUNTED = re.compile(
    r"\A# [^\n]*|^```.*?^```|\$\$.*?\$\$|\$[^$]+\$|^\*\*Example\.\*\*.*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL
)
ASK_WORDS, CONTRACT_WORDS, BULLETS = 120, 200, 8  # at most
HOUSE_RULES = "House rules hold: docs/house_rules.md."
FEWEST = 4  # questions of a kata
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Question:
    """What an interviewer asks about a kata, the points of a good answer, and where they come from; in Markdown."""

    text: str
    points: tuple[str, ...]
    source: str
    answer: str = ""  # the paragraph `Answer: …`, where it is a number

    @property
    def number(self) -> numbers.Number | None:
        """The number that is the answer, where it is one."""
        return numbers.read(self.answer)


def stub_text(kata: Kata) -> str:
    """The master without lesson, hints, solution cells and bodies. Needs no jupytext, for every grading asks it."""
    opened = [named(kata.opens_with, kata.root).master] if kata.opens_with else []
    return _stub_text(kata, tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in (kata.master, *opened)))


@lru_cache(maxsize=256)  # who shows where all katas stand asks for all of them
def _stub_text(kata: Kata, stamps: tuple[tuple[int, int], ...]) -> str:
    """The stub of masters that have these stamps."""
    stub = script(stub_cells(kata))
    try:
        ast.parse(stub)
    except SyntaxError as error:
        raise BrokenMaster(f"{kata.master}: its stub would not be Python: {error}") from None
    return stub


def stub_cells(kata: Kata) -> list[tuple[Cell, str]]:
    """The cells that stand in the stub, and what stands in them there."""
    text = read_text(kata.master)
    cells = split(text)[1]
    if stages.of(kata):
        cells = stages.at_first(kata, cells, _handed_out(kata))
    scopes = _scopes(kata, text)
    kept: list[tuple[Cell, str]] = []
    for cell in cells:
        if cell.of_lesson or {"hint", "solution"} & set(cell.tags):
            continue
        lines = cell.lines if cell.markdown else _without_solution(kata, cell, scopes)
        if "contract" in cell.tags:
            lines = _folded(cell)
        if cell.markdown and not kept:
            lines = [*"\n".join(lines).rstrip().split("\n"), *_origins(kata)]
        if any(line.strip() for line in lines):
            kept.append((cell, "\n".join(lines).strip("\n")))
    return [*kept, _grading(kata)]


def lesson_text(kata: Kata) -> str:
    """The master explained: statement, answer, explanation, figures and experiment, without hints and markers."""
    all_cells = split(read_text(kata.master))[1]
    cells = [cell for cell in all_cells if not (cell.of_lesson or "hint" in cell.tags)]
    cells += [cell for cell in all_cells if "experiment" in cell.tags]  # last, for it runs what stands above
    kept: list[tuple[Cell, str]] = []
    for cell in cells:
        lines = _solved(cell.lines)
        lines = [*lines, *_origins(kata)] if cell.markdown and not kept else lines
        lines = ["# ## Look at it", "#", *lines] if cell.markdown and "experiment" in cell.tags else lines
        kept.append((cell, "\n".join(lines).strip("\n")))
    return script(kept)


def hints(kata: Kata) -> list[str]:
    """The hints in Markdown, mildest first."""
    return [cell.prose for cell in split(read_text(kata.master))[1] if cell.markdown and "hint" in cell.tags]


def explanation(kata: Kata) -> str:
    """What the master says about its answer, in Markdown."""
    cells = split(read_text(kata.master))[1]
    return "\n\n".join(cell.prose for cell in cells if cell.markdown and "solution" in cell.tags)


def ask(kata: Kata) -> str:
    """What the kata asks for, in Markdown: all of a statement in one part; of one with stages the first of them."""
    cells = split(stub_text(kata))[1]
    first = next((cell.prose for cell in cells if cell.markdown), "")
    return "\n\n".join([first, *(stage.prompt for stage in stages.of(kata)[:1])])


def scenario(kata: Kata) -> str:
    """The first cell of a master in Markdown, without where it comes from: with stages, what comes before them."""
    return next((cell.prose for cell in split(read_text(kata.master))[1] if cell.markdown), "")


def contract(kata: Kata) -> dict[str, str]:
    """What a reviewer would insist on: by topic a bullet in Markdown; nothing for a statement in one part."""
    return topics_of(_contract_text(kata))


def topics_of(text: str) -> dict[str, str]:
    """The bullets of a contract, or of one stage's, by topic."""
    return {topic: bullet for topic, bullet in _bullets(text) if topic}


def statement(kata: Kata) -> str:
    """Ask and contract in Markdown."""
    return "\n\n".join(filter(None, [ask(kata), _contract_text(kata)]))


def statement_faults(kata: Kata) -> list[str]:
    """Where a statement in two parts is too long, and which bullets have no topic of their own, a sentence each."""
    text, where = _contract_text(kata), kata.say(kata.master)
    if not text:
        return []
    first, bullets = scenario(kata), _bullets(text)
    topics = Counter(topic for topic, _ in bullets if topic)
    parts = [(first, text, "")] if not stages.of(kata) else [(first, "", "")]
    parts += [(stage.prompt, stage.contract, f" of stage {stage.number}") for stage in stages.of(kata)]
    limits = [
        each
        for asked, held, where_of in parts
        for each in (
            (words(asked), ASK_WORDS, f"words in the ask{where_of}"),
            (words(held), CONTRACT_WORDS, f"words in the contract{where_of}"),
            (len(_bullets(held)), BULLETS, f"bullets in the contract{where_of}"),
        )
    ]
    faults = [f"{where}: {count} {what}, more than {most}" for count, most, what in limits if count > most]
    faults += stages.faults(kata)
    untold = [each for topic, each in bullets if not topic]
    faults += [f"{where}: “{each[:40]}” opens with no topic, `- **One to three words.** …`" for each in untold]
    return faults + [
        f"{where}: the topic {topic!r} has {count} bullets" for topic, count in topics.items() if count > 1
    ]


def words(text: str) -> int:
    """How many words a part of a statement has: title, formulas, code blocks and the example do not count."""
    return len(re.findall(r"\S*\w\S*", UNCOUNTED.sub(" ", text)))


def _contract_text(kata: Kata) -> str:
    cells = split(read_text(kata.master))[1]
    return "\n\n".join(cell.prose for cell in cells if cell.markdown and "contract" in cell.tags)


def _bullets(text: str) -> list[tuple[str, str]]:
    """The topic of each bullet, empty where it has none, and the bullet; a paragraph between them is one too."""
    parts = re.split(r"^- |\n\n(?=\S)", text, flags=re.MULTILINE)
    found = [(TOPIC.match(part), part.strip()) for part in parts if part.strip()]
    return [(match[1] if match else "", part) for match, part in found]


def follow_ups(kata: Kata) -> str:
    """What an interviewer asks next, with points of good answers, in Markdown."""
    cells = split(read_text(kata.master))[1]
    return "\n\n".join(cell.prose for cell in cells if cell.markdown and "questions" in cell.tags)


def questions(kata: Kata) -> list[Question]:
    """The same as questions, easier first: headings `### …?`, below each its points and a paragraph `Source: …`."""
    found = []
    for part in re.split(r"^### +", follow_ups(kata), flags=re.MULTILINE)[1:]:
        text, _, answer = part.partition("\n")
        points = (" ".join(point.split()) for point in POINT.findall(answer))
        source = " ".join(" ".join(SOURCE.findall(answer)).split())
        number = " ".join(" ".join(ANSWER.findall(answer)).split())
        found.append(Question(text.strip(), tuple(points), source, number))
    return found


def question_faults(kata: Kata) -> list[str]:
    """What the questions of a master lack, a sentence each."""
    asked, where = questions(kata), kata.say(kata.master)
    faults = [f"{where}: {len(asked)} questions (`### …?`), fewer than {FEWEST}"] if len(asked) < FEWEST else []
    faults += [f"{where}: “{q.text}” has no points (`- …`)" for q in asked if not q.points]
    faults += [f"{where}: “{q.text}” has no paragraph `Source: …`" for q in asked if not q.source]
    faults += [f"{where}: “{q.text}”: {fault}" for q in asked if q.number for fault in q.number.faults(q.text)]
    faults += [
        f"{where}: “{q.text}”: a paragraph `Answer: …` is not of the form in dojo/content/numbers.py"
        for q in asked
        if q.answer and not q.number
    ]
    counts = Counter(q.text for q in asked)
    return faults + [f"{where}: “{text}” is asked {count} times" for text, count in counts.items() if count > 1]


def linked(markdown: str) -> str:
    """Markdown in which each arXiv id, `arXiv:1706.03762` or `arXiv:cs/0112017`, is a link."""
    return ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", markdown)


def solution_code(master: str) -> str:
    """The code of a master's text alone, as one would write it: no prose, no markers."""
    bodies = []
    for cell in split(master)[1]:
        if not cell.markdown and NOTEBOOK_ONLY not in cell.tags:
            bodies.append("\n".join(_solved(cell.lines)).strip("\n"))
    return "\n\n\n".join(filter(None, bodies)) + "\n"


def is_untouched(kata: Kata, text: str) -> bool:
    """Whether a text defines what the stub does: comments, blank lines and imports alone do not count as work."""
    stub = stub_text(kata)
    try:
        return text == stub or _without_imports(text) == _without_imports(stub)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def names(kata: Kata) -> list[str]:
    """The functions and classes that the kata asks for; a `Protocol` is what an argument has."""
    made = [node for node in ast.parse(stub_text(kata)).body if isinstance(node, DEFINITIONS)]
    return [node.name for node in made if "Protocol" not in map(ast.unparse, getattr(node, "bases", ()))]


def names_in_all(kata: Kata) -> list[str]:
    """The same of all stages of a kata that has some."""
    return [*dict.fromkeys([*names(kata), *(name for stage in stages.of(kata) for name in stage.names)])]


def bound(kata: Kata) -> list[str]:
    """The names that the stub gives a value: what it asks for, and the constants beside it."""
    return [name for node in ast.parse(stub_text(kata)).body for name in _defined(node)]


def definitions(wanted: list[str], sources: list[str]) -> tuple[list[str], dict[str, tuple[str, ast.stmt]]]:
    """The imports of some sources, and by name the latest definition of what is wanted and of all that it names.

    A definition is its source and its statement; they come in the order of the sources.
    """
    imports: dict[str, None] = {}
    defined: dict[str, tuple[str, ast.stmt]] = {}
    for source in sources:
        try:
            statements = ast.parse(source).body
            compile(source, "", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # magics, or work that is not done
        for node in statements:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imports[ast.unparse(node)] = None
            for name in _defined(node):
                defined.pop(name, None)  # the last of several stands where it was run
                defined[name] = (source, node)
    kept: set[str] = set()
    todo = [name for name in wanted if name in defined]
    while todo:
        name = todo.pop()
        kept.add(name)
        todo += [name for name in _globals(defined[name][1]) if name in defined and name not in kept]
    return [*imports], {name: found for name, found in defined.items() if name in kept}


def answer(kata: Kata, sources: list[str]) -> dict[str, str] | None:
    """What some sources define of the kata, to be compared: neither comments nor other code count. None if not all."""
    wanted = names(kata)
    found = {name: ast.dump(node) for name, (_, node) in definitions(wanted, sources)[1].items()}
    return found if found.keys() >= set(wanted) else None


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, DEFINITIONS):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", ast.Constant(None))]
    return [t.id for t in ast.walk(ast.Tuple(targets)) if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)]


def _globals(node: ast.stmt) -> set[str]:
    """The names that a statement reads and does not give a value itself."""
    parts, found = [compile(ast.Module([node], []), "", "exec")], set[str]()
    for part in parts:
        parts += [each for each in part.co_consts if isinstance(each, CodeType)]
        found |= {each.argval for each in dis.get_instructions(part) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found


def _without_imports(text: str) -> list[str]:
    return [ast.dump(node) for node in ast.parse(text).body if not isinstance(node, (ast.Import, ast.ImportFrom))]


def _handed_out(kata: Kata) -> list[Cell]:
    """The code that a kata opens with: that of another one's stub, but for its test."""
    if not kata.opens_with:
        return []
    cells = split(stub_text(named(kata.opens_with, kata.root)))[1]
    return [
        cell
        for cell in cells
        if not cell.markdown and NOTEBOOK_ONLY not in cell.tags and "def test(" not in "\n".join(cell.lines)
    ]


def _origins(kata: Kata) -> list[str]:
    """What the kata builds on, where it comes from and what else holds, as the last lines of what it asks for."""
    text = f"**Builds on** {', '.join(kata.builds_on)}. " if kata.builds_on else ""
    text += f"**Sources:** {'; '.join(kata.sources)}." if kata.sources else ""
    lines = textwrap.wrap(linked(text), 120, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return [*(["#", *lines] if lines else []), "#", f"# {HOUSE_RULES}"]


def _folded(cell: Cell) -> list[str]:
    """A contract so that JupyterLab, and whatever else shows Markdown, folds it below its topics."""
    body = "\n".join(cell.lines).strip("\n").split("\n")
    topics = ", ".join(topics_of(cell.prose))
    return [f"# <details><summary>Contract: {topics}</summary>", "#", *body, "#", "# </details>"]


def _grading(kata: Kata) -> tuple[Cell, str]:
    """The cell that grades what a notebook has defined. Active there alone: in a script Jupytext makes it comments."""
    code = [
        "import sys",
        "",
        'sys.path.append("../..")  # the project',
        "from dojo import check",
        "",
        f'check("{kata.name}")',
    ]
    cell = Cell(stages.GRADING, [f"# {line}".rstrip() for line in code], 0)
    return cell, "\n".join(cell.lines)


def _scopes(kata: Kata, text: str) -> list[tuple[int, int, bool]]:
    """First line, last line and whether it is a function, for each def and class of the master, outermost first."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise BrokenMaster(f"{kata.master}, line {error.lineno}: {error.msg}") from None
    found = [n for n in ast.walk(tree) if isinstance(n, DEFINITIONS)]
    return sorted((n.lineno, n.end_lineno or n.lineno, not isinstance(n, ast.ClassDef)) for n in found)


def without_handed_out(text: str) -> str:
    """A master's text without what is handed out in place of the answer."""
    return re.sub(rf"^ *{HANDED_OUT}\n(?:.*\n)*?(?= *{END}$)", "", text, flags=re.MULTILINE)


def _solved(lines: list[str]) -> list[str]:
    """Lines of a master with the answer in them, and neither markers nor what is handed out instead."""
    kept = without_handed_out("\n".join(lines)).split("\n")
    return [line for line in kept if line.strip() not in (BEGIN, END)]


def _without_solution(kata: Kata, cell: Cell, scopes: list[tuple[int, int, bool]]) -> list[str]:
    lines: list[str] = []
    opened = instead = None
    for number, line in enumerate(cell.lines, cell.start + 1):
        word = line.strip()
        if (word == BEGIN) is (opened is not None) and word in (BEGIN, END):
            raise BrokenMaster(f"{kata.master}, line {number}: `{word}` without its partner")
        if word == BEGIN:
            opened = number
            inside = [function for first, last, function in scopes if first <= number <= last]
            rest = [other.strip() for other in cell.lines[number - cell.start :]]
            handed = HANDED_OUT in rest[: rest.index(END) if END in rest else None]
            # methods that only the answer needs vanish from their class, as helpers vanish from the module
            if inside and inside[-1] and line[0] == " " and not handed:
                lines.append(line.replace(BEGIN, "raise NotImplementedError"))
        elif word == HANDED_OUT and opened:
            instead = number
        elif word == END:
            opened = instead = None
        elif instead:
            lines.append(re.sub(r"^( *)# ?", r"\1", line))
        elif opened is None:
            lines.append(line)
    if opened is not None:
        raise BrokenMaster(f"{kata.master}, line {opened}: `{BEGIN}` without its partner")
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).split("\n")


def script(cells: list[tuple[Cell, str]]) -> str:
    """A percent script of these cells and their bodies, without a header: the notebook says what Jupytext must know."""
    parts = []
    for (cell, body), (following, next_body) in zip(cells, [*cells[1:], (None, "")], strict=True):
        blank = _blank_lines(cell, body, following, next_body)
        parts.append(f"{cell.marker}\n{body}\n" + "\n" * blank)
    return "".join(parts)


def _blank_lines(cell: Cell, body: str, following: Cell | None, next_body: str) -> int:
    """Blank lines after a cell as PEP 8, and so ruff, wants them when cells between have gone."""
    if following is None:
        return 0
    after_definition = not cell.markdown and body.rsplit("\n", 1)[-1].startswith(" ")
    definition_next = not following.markdown and re.match(r"(async def|def|class|@)", next_body)
    return 2 if after_definition or (not cell.markdown and definition_next) else 1
