"""`starter`: a template repository for a course, with stubs alone, and a workflow that grades every push."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from dojo.content import catalog, files, master
from dojo.content.catalog import Kata, Trouble
from dojo.verdict.types import Tier

DOJO = "https://github.com/llm-dojo/dojo"
ADDRESS = re.compile(r"(https://|git@|ssh://)[\w.:@/~+-]+")
STEP = """\
      - name: {kata} {tier}
        id: {id}
        if: always()
        uses: classroom-resources/autograding-command-grader@v1
        with:
          test-name: {kata} {tier}
          command: >-
            jq -e '.[] | select(.kata == "{kata}") | .verdict == "passed" or .tiers.{tier} == "passed"'
            ${{{{ runner.temp }}}}/verdict/verdict.json
          timeout: 1
          max-score: 1"""


def main(args: argparse.Namespace) -> int:
    """Write the repository that the command line asks for, and say what to do with it."""
    names = args.katas.replace(",", " ").split()
    if not names:
        raise Trouble("--katas names none: name them with commas between them, as in --katas gqa,rope")
    katas = catalog.select(names)
    write(katas, args.out, args.dojo or DOJO)
    count = f"{len(katas)} kata{'s' * (len(katas) != 1)}"
    print(f"{args.out} is a template repository of {count}, with a workflow for GitHub Classroom and one for GitLab")
    print("next: put it under git and push it. It holds no solutions, but its workflows clone the dojo, which does:")
    print("what counts is what you grade yourself, see docs/classroom/README.md", flush=True)
    return 0


def write(katas: Sequence[Kata], out: Path, dojo: str = DOJO) -> None:
    """Write the repository into a new or an empty folder. Raises Trouble."""
    if not ADDRESS.fullmatch(dojo):
        raise Trouble(f"--dojo {dojo}: that is no address that git can clone, such as {DOJO}")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise Trouble(f"--out {out}: there is something there already: name a new folder, or an empty one")
    for name, text in contents(katas, dojo).items():
        files.write_atomic(out / name, text)


def contents(katas: Sequence[Kata], dojo: str = DOJO) -> dict[str, str]:
    """The repository's files."""
    steps = [(f"{kata.name}_{tier}", kata.name, tier) for kata in katas for tier in Tier]
    words = {
        "dojo": dojo,
        "katas": " ".join(kata.name for kata in katas),
        "points": "\n".join(STEP.format(kata=kata, tier=tier, id=name) for name, kata, tier in steps),
        "results": "\n".join(f"          {n.upper()}_RESULTS: ${{{{ steps.{n}.outputs.result }}}}" for n, *_ in steps),
        "runners": ",".join(name for name, *_ in steps),
        "table": "\n".join(_table(katas)),
    }
    texts = {kata.say(kata.stub): master.stub_text(kata) for kata in katas}
    texts["README.md"] = _filled("README.md", words)
    texts[".github/workflows/classroom.yml"] = _filled("classroom.yml", words)
    texts[".gitlab-ci.yml"] = _filled("gitlab-ci.yml", words)
    texts[".gitignore"] = "__pycache__/\nverdict.*\njunit.xml\n"
    return texts


def _filled(name: str, words: dict[str, str]) -> str:
    """A template with its words in braces filled in; other braces are left alone."""
    template = resources.files(__package__).joinpath(name).read_text("utf-8")
    return re.sub(r"(?<!\{)\{(\w+)\}(?!\})", lambda found: words[found[1]], template)


def _table(katas: Sequence[Kata]) -> list[str]:
    rows = [f"| `{kata.say(kata.stub)}` | {kata.title} | {kata.level} | {kata.minutes} |" for kata in katas]
    return ["| file | what you write | level | minutes |", "|---|---|---|---|", *rows]
