"""Whose is what: a folder of folders, and the exports of Moodle, Canvas and Gradescope as these lay them out.

- **Moodle**, "Download all submissions": `Ada Lovelace_4711_assignsubmission_file/gqa.py`, in older versions with an
  underscore at the end, or without folders `Ada Lovelace_4711_assignsubmission_file_gqa.py`. The number is another in
  each assignment. Team submissions have the team's name; with blind marking everybody is `Participant`.
- **Canvas**, "Download submissions": `lovelaceada_LATE_12_345_gqa-1.py`, of which 12 is the student and 345 the upload.
  Anonymous ones are `anon_x7Yz2_345_gqa.py`; what was typed into Canvas is `lovelaceada_12_text.html`.
- **Gradescope**, "Export submissions": `assignment_1_export/submission_2/gqa.py`, and in a `submission_metadata.yml`
  the submitters of each.

Only what lies at the top says whose it is, for what lies further down, a student has named.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from dojo.cohort.records import Problem
from dojo.cohort.submissions.archive import InZip, is_zip
from dojo.cohort.submissions.names import is_attempt, shown
from dojo.cohort.submissions.tree import File, Folder, Unreadable, visible
from dojo.content.catalog import TRACKS

NUMBER = "[0-9]{1,20}"
MOODLE = re.compile(rf"(?P<who>[^_]+)(?:_(?P<number>{NUMBER}))?_assignsubmission_[a-z]+(?:_(?P<file>.+)?)?", re.DOTALL)
CANVAS = (
    re.compile(rf"(?:LATE_)?(?P<who>anon_(?P<number>\w+?))_(?P<upload>{NUMBER})_(?P<file>.+)", re.DOTALL),
    re.compile(rf"(?P<who>.+?)(?:_LATE)?_(?P<number>{NUMBER})_(?P<upload>{NUMBER})_(?P<file>.+)", re.DOTALL),
    re.compile(rf"(?P<who>.+?)(?:_LATE)?_(?P<number>{NUMBER})_(?P<file>(?:text|link)\.html)", re.DOTALL),
)
GRADESCOPE = "submission_metadata.yml"
METADATA_LIMIT = 64 << 20  # bytes
NOBODY = {*TRACKS, "katas", "notebooks"}  # a folder of this name is a student's, but is no student

Open = Callable[[File], Folder]  # a zip as a folder; raises Unreadable
Shares = dict[str, list["File | Folder"]]  # what each student has handed in


def shares(top: Folder, opened: Open) -> tuple[Shares, list[Problem]]:
    """What each student has handed in, and what is nobody's. Raises Unreadable."""
    found: Shares = defaultdict(list)
    problems: list[Problem] = []
    for each in _exports(top, opened) or [_unwrapped(top)]:
        named: dict[str, list[tuple[str, File | Folder]]] = defaultdict(list)
        for who, number, entry in _told(each, problems):
            named[shown(who).strip() or repr(who)].append((number, entry))
        for name, entries in named.items():
            alone = len({number for number, _ in entries}) == 1
            for number, entry in entries:
                found[name if alone else f"{name} ({number})"].append(entry)
    return found, problems + _twins(found)


def recognised(entry: File | Folder) -> re.Match[str] | None:
    """What a platform says by the name of a file or folder at the top."""
    moodle = MOODLE.fullmatch(entry.name)
    if moodle and bool(moodle["file"]) == isinstance(entry, File):
        return moodle
    found = (pattern.fullmatch(entry.name) for pattern in CANVAS if isinstance(entry, File))
    return next(filter(None, found), None)


def _exports(top: Folder, opened: Open) -> list[Folder]:
    """The platforms' exports, one an assignment, that a folder holds, if it holds no other folders and zips.

    A student can lay out a folder like an export, but not those of the others.
    """
    found: list[Folder] = []
    for entry in visible(top):
        if isinstance(entry, File) and not is_zip(entry):
            continue
        if recognised(entry):
            return []
        try:
            export = _unwrapped(opened(entry) if isinstance(entry, File) else entry)
            if not _is_export(export):
                return []
        except Unreadable:
            return []
        found.append(export)
    return found


def _is_export(folder: Folder) -> bool:
    return folder.get(GRADESCOPE) is not None or any(map(recognised, folder.entries()))


def _unwrapped(top: Folder) -> Folder:
    """What lies in the one folder that everything lies in, as in the zip of a folder."""
    entries = visible(top)
    if len(entries) != 1 or isinstance(only := entries[0], File) or recognised(only) or only.name in NOBODY:
        return top
    inside = visible(only)
    of_folders = all(is_zip(entry) or not isinstance(entry, File) for entry in inside)
    wraps = isinstance(top, InZip) and of_folders and not NOBODY & {entry.name for entry in inside}
    return only if wraps or _is_export(only) else top


def _told(top: Folder, problems: list[Problem]) -> Iterator[tuple[str, str, File | Folder]]:
    """The name of whoever has handed in something, what tells two of that name apart, and what it is."""
    submitters = _submitters(top, problems)
    for entry in visible(top):
        if said := recognised(entry):
            if isinstance(entry, File):
                entry = replace(entry, name=said["file"], upload=int(said.groupdict().get("upload") or 0))
            yield said["who"], said["number"] or "", entry
        elif isinstance(entry, File):
            if is_zip(entry) and not entry.refused:
                yield entry.name[: -len(".zip")], "", entry
            elif entry.refused or is_attempt(entry.name):
                nobodys = "it lies in nobody's folder: put it into one that is called as the student is"
                problems.append(Problem("", entry.path, entry.refused or nobodys))
        elif entry.name in NOBODY:
            why = "this is a folder of katas, not of a student's: put it into one that is called as the student is"
            problems.append(Problem("", entry.path, why))
        else:
            yield *submitters.get(entry.name, (entry.name, "")), entry


def _submitters(top: Folder, problems: list[Problem]) -> dict[str, tuple[str, str]]:
    """By Gradescope's folder the names of those who have submitted it, and their numbers."""
    import yaml

    file = top.get(GRADESCOPE)
    if not isinstance(file, File):
        return {}
    found = {}
    try:
        said = yaml.load(file.content(METADATA_LIMIT), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for folder, about in said.items():
            people = about[":submitters"]
            names = [str(each.get(":name") or each.get(":email") or each.get(":sid") or folder) for each in people]
            numbers = [str(each.get(":sid") or each.get(":email") or "") for each in people]
            found[str(folder)] = " & ".join(names) or str(folder), " & ".join(numbers)
    except Unreadable as error:
        problems.append(Problem("", file.path, f"{error}; its students are called by their folders"))
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        told = str(error).split("\n")[0]
        why = f"it is not as Gradescope writes it ({shown(told)}), so some students are called by their folders"
        problems.append(Problem("", file.path, why))
    return found


def _twins(found: Shares) -> list[Problem]:
    """A word about students whose names differ in capitals alone: they are two, but may be meant to be one."""
    first: dict[str, str] = {}
    return [
        Problem(name, found[name][0].path, f"'{name}' and '{other}' are two students here; rename one if they are not")
        for name in sorted(found)
        if (other := first.setdefault(name.casefold(), name)) != name
    ]
