"""All that a teacher gets once a class is graded, in one folder.

Its file names are safe wherever they lie, and of whatever is replaced there is a copy.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dojo.cohort.course import settings
from dojo.cohort.course.settings import Rules
from dojo.cohort.outputs import class_page, feedback, tables
from dojo.cohort.outputs.grades import Class
from dojo.cohort.outputs.platforms import gradebooks, gradescope
from dojo.cohort.records import Problem, Result
from dojo.cohort.store import Store
from dojo.content import files
from dojo.verdict.page import html

MADE = re.compile(r"<small>made [^;]*;")  # of a page: when, which alone is no news
LONGEST = 120  # bytes of a name, which leaves room for an ending
RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)  # of Windows
DIGITS = 8  # of the digest that tells two names apart
EARLIER = "earlier"


def write_all(
    results: Sequence[Result],
    problems: Sequence[Problem],
    pairs: Sequence[tuple[str, str, str, float]],
    folder: Folder,
    rules: Rules,
    side_by_side: str = "",
    store: Store | None = None,
) -> list[Path]:
    """Write everything into the folder, and return the files.

    `results.csv`, `class.html`, with a rubric `grades.csv` and the platforms' own tables, and for each student
    `feedback/NAME.md`, `feedback/NAME.html` and `gradescope/NAME/results.json`. `pairs` are two students, or one and
    "the solution", the kata, and the share of their tokens that match; `side_by_side` is the text of `alike.html`.
    With a store the results are brief, the whole ones are read there a student at a time, and who would be told the
    same as the last time is left out.
    """
    found = Class(results, problems, rules)
    names = file_names(found.students)
    folder.write("results.csv", tables.results(found))
    if found.rubric is not None:
        folder.write("grades.csv", tables.points(found))
        for name, text in gradebooks.tables(found).items():
            folder.write(f"grades-{name}.csv", text)
    pages = {student: f"feedback/{name}.html" for student, name in names.items()}
    folder.write("class.html", class_page.page(found, pairs, pages, bool(side_by_side)), _undated)
    if side_by_side:
        folder.write("alike.html", side_by_side, _undated)
    known, states = (store.feedback_states(), _states(found, names, store)) if store else ({}, dict[str, str]())
    for student, name in names.items():
        paths = [pages[student], f"feedback/{name}.md", f"gradescope/{name}/results.json"]
        if student in known and known[student] == states[student] and all((folder.path / p).is_file() for p in paths):
            continue
        own = found.only(student, _whole(found, student, store)) if store else found
        folder.write(paths[0], feedback.page(own, student), _undated)
        folder.write(paths[1], feedback.markdown(own, student))
        folder.write(paths[2], gradescope.of_student(own, student))
    if store:
        store.remember_feedback(states)
    return list(folder.written)


def _whole(found: Class, student: str, store: Store) -> Iterator[Result]:
    """A student's results with all that is known of them, their group's among them."""
    for unit in found.rules.course.roster.units_of(student):
        yield from store.results(found.katas, unit)


def _states(found: Class, names: Mapping[str, str], store: Store) -> dict[str, str]:
    """All that a student's feedback hangs on, as a digest for each."""
    rules, course = found.rules, found.rules.course
    places = (Path(__file__).parent, Path(settings.__file__).parent, Path(html.__file__).parents[1])
    code = [files.digest(path.read_bytes()) for place in places for path in sorted(place.rglob("*.[ph][yt]*"))]
    common = repr((code, course.rubric, course.visible, found.katas))
    graded = store.states(found.katas)
    states = {}
    for student, name in names.items():
        own = [graded[unit] for unit in course.roster.units_of(student) if unit in graded]
        decided = [(rules.late.get((student, kata)), rules.decisions.get((student, kata))) for kata in found.katas]
        states[student] = files.digest(repr((common, name, own, decided)))
    return states


def _undated(page: str) -> str:
    return MADE.sub("", page, count=1)


def file_names(students: Iterable[str]) -> dict[str, str]:
    """A file name for each student, in which letters of any script stay as they are.

    No two are the same, not even where the system does not tell capitals or ways to write an accent apart: what several
    names come to ends in digits of the name's digest.
    """
    plain = {student: _plain(student) for student in dict.fromkeys(students)}
    like = Counter(map(_folded, plain.values()))
    alone = {student: name for student, name in plain.items() if like[_folded(name)] == 1}
    found, taken = dict(alone), set(map(_folded, alone.values()))
    for student in plain.keys() - alone.keys():
        digest, digits = files.digest(student.encode("utf-8", "surrogatepass")), DIGITS
        while _folded(name := f"{plain[student]}-{digest[:digits]}") in taken:
            digits += 1
        taken.add(_folded(name))
        found[student] = name
    return found


def _plain(student: str) -> str:
    """A name with what no file system refuses and no shell obeys."""
    text = unicodedata.normalize("NFC", student)
    kept = "".join(c if unicodedata.category(c)[0] in "LMN" or c in "-_." else "-" for c in text)
    kept = re.sub("-{2,}", "-", kept)
    kept = kept.encode("utf-8", "ignore")[:LONGEST].decode("utf-8", "ignore").strip("-.")
    return f"_{kept}" if RESERVED.fullmatch(kept) else kept or "student"


def _folded(name: str) -> str:
    """What two names share that some file system takes for the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


class Folder:
    """Where a class's files are written.

    What one replaces goes to `earlier/` and the time, in the same place there, unless it was written here before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: dict[Path, str] = {}  # the digest of what stands there
        self._earlier: Path | None = None

    def write(self, name: str, text: str, same: Callable[[str], str] = str) -> None:
        """Write a text, unless the file says the same already, which `same` may leave a line out of."""
        path = self.path / name
        content = text.encode("utf-8", "backslashreplace")  # a name may hold bytes that are no text
        if path.is_file():
            old = path.read_bytes()
            known, self.written[path] = self.written.get(path), files.digest(old)
            if same(old.decode("utf-8", "replace")) == same(content.decode()):
                return
            if self.written[path] != known:
                files.write_atomic(self._copies() / name, old)
        files.write_atomic(path, content)
        self.written[path] = files.digest(content)

    def _copies(self) -> Path:
        if self._earlier is None:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            names = [stamp, *(f"{stamp}-{n}" for n in range(2, 10000))]
            self._earlier = next(path for n in names if not (path := self.path / EARLIER / n).exists())
        return self._earlier
