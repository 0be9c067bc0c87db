"""A Gradescope autograder as a zip: it grades each submission as it arrives, with this project and no network.

What Gradescope does with it: https://gradescope-autograders.readthedocs.io/en/latest/specs/.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path

from dojo.cohort.course import settings
from dojo.cohort.course.settings import Course
from dojo.content import catalog
from dojo.content.catalog import ROOT, Kata, Trouble

HELD = ("dojo", "graders", "katas", "solutions")  # of this project
INDEX = re.compile(r"https?://[\w.:@/~+-]+")


def main(args: argparse.Namespace) -> int:
    """Write the zip that the command line asks for, and say what to do with it."""
    katas = catalog.select(args.katas.replace(",", " ").split())
    course = settings.read(args.course, [kata.name for kata in katas]) if args.course else Course()
    seed = secrets.randbelow(2**31)
    write(args.autograder, katas, course, seed, args.wheels, args.index or "")
    size = args.autograder.stat().st_size / 1e6
    print(
        f"{args.autograder} is an autograder of {', '.join(kata.name for kata in katas)} ({size:.0f} MB), seed {seed}"
    )
    print("next: upload it on Gradescope, Programming Assignment, Configure Autograder, on Ubuntu 22.04 or newer.")
    print("It knows points and what students see. Deadlines, roster and decisions count where you grade the class,")
    print("with `cohort`: see docs/classroom/README.md", flush=True)
    return 0


def write(
    out: Path, katas: Sequence[Kata], course: Course, seed: int, wheels: Path | None = None, index: str = ""
) -> None:
    """Write the zip. With a folder of `wheels` its setup needs no network; `index` is one more for pip.

    Raises Trouble.
    """
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    if index and not INDEX.fullmatch(index):
        raise Trouble(f"--index {index}: that is no address of a package index")
    vendored = _wheels(wheels, needed) if wheels else []
    settings = {
        "katas": [kata.name for kata in katas],
        "seed": seed,
        "rubric": asdict(course.rubric) if course.rubric else None,
        "visible": course.visible,
    }
    texts = {
        "autograder.json": json.dumps(settings, indent=1),
        "requirements.txt": "\n".join(needed) + "\n",
        "constraints.txt": (ROOT / "constraints.txt").read_text("utf-8"),
        **({"index.txt": f"{index}\n"} if index else {}),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, template in (("setup.sh", "setup.sh"), ("run_autograder", "run_autograder.sh")):
            _add(archive, name, resources.files(__package__).joinpath(template).read_text("utf-8"), 0o100755)
        for name, text in texts.items():
            _add(archive, name, text, 0o100644)
        for path in _project():
            archive.write(path, f"project/{path.relative_to(ROOT)}")
        for path in vendored:
            archive.write(path, f"wheels/{path.name}", zipfile.ZIP_STORED)


def _add(archive: zipfile.ZipFile, name: str, text: str, mode: int) -> None:
    member = zipfile.ZipInfo(name)
    member.external_attr, member.compress_type = mode << 16, zipfile.ZIP_DEFLATED
    archive.writestr(member, text)


def _project() -> Iterator[Path]:
    for folder in HELD:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _wheels(folder: Path, needed: Sequence[str]) -> list[Path]:
    """The wheels of a folder, which must have one for each requirement."""
    found = sorted(folder.glob("*.whl"))
    there = {re.sub(r"[-_.]+", "-", path.name.partition("-")[0]).lower() for path in found}
    names = [re.split(r"[^\w.-]", word, maxsplit=1)[0].lower() for word in needed]
    if missing := [name for name in names if name not in there]:
        command = f"python -m pip download --dest {folder} --constraint constraints.txt {' '.join(missing)}"
        raise Trouble(f"--wheels {folder} has no wheel of {', '.join(missing)}: for the image's Python, `{command}`")
    return found
