"""The pages of the site in Markdown: one per kata and track, made from the masters, and the project's own papers.

They lie as the repository does, so that the links between papers hold; a link to what is no page goes to the repository
on the web. Hints, answers, explanations, known bugs and the questions of interviewers are left out.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dojo.content import master, stages
from dojo.content.catalog import BrokenMaster, Kata, typed
from dojo.content.cells import NOTEBOOK_ONLY, read_text, split
from dojo.content.mathml import CODE, BadFormula, with_mathml

QUOTE_ANSWERS = (  # or known bugs, and so are no pages
    "docs/first_session.md", "docs/in_the_wild.md", "docs/mock.md", "docs/mutants.md", "docs/same-verdicts.md",
)  # fmt: skip
GUIDES = ("README.md", "docs/house_rules.md", "docs/interviews.md")  # what a learner reads first
LINK = re.compile(rf"{CODE}|(?<=\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"!(?=\[[^\]]*\]\()")  # the sign that makes a link a picture
ROWS = re.compile(r"^```text\n(?:(?!```).*\n)*?.* → .*\n(?:(?!```).*\n)*```$", re.MULTILINE)  # wrong answers as edits


@dataclass(frozen=True)
class Page:
    """One page: its path as a Markdown file of the site, and its text."""

    path: str
    text: str


def pages(root: Path, katas: dict[str, Kata]) -> Iterator[Page]:
    """All pages of the site. Raises BrokenMaster."""
    tracks: dict[str, list[Kata]] = {}
    for kata in katas.values():
        tracks.setdefault(kata.track, []).append(kata)
    papers = _papers(root)
    yield Page("index.md", _first(tracks, papers))
    for track, members in tracks.items():
        yield Page(f"katas/{track}/index.md", _of_track(track, members))
    for kata in katas.values():
        yield Page(path_of(kata), _of_kata(kata, katas))
    known = {*papers, *map(path_of, katas.values())}
    for paper in papers:
        yield Page(paper, _of_paper(root, paper, known))


def path_of(kata: Kata) -> str:
    """Where a kata's page lies."""
    return f"katas/{kata.track}/{kata.name}.md"


def repository(root: Path) -> str:
    """The address of the repository on the web."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Homepage"]


def _papers(root: Path) -> list[str]:
    """The project's papers: first the guides, then the others."""
    found = [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md"))]
    names = [path.relative_to(root).as_posix() for path in found]
    return [*GUIDES, *(name for name in names if name not in GUIDES + QUOTE_ANSWERS)]


def _first(tracks: dict[str, list[Kata]], papers: list[str]) -> str:
    count = sum(map(len, tracks.values()))
    rows = [
        f"| [{_title(track)}](katas/{track}/index.md) | {len(members)} | {_levels(members)} | "
        f"{', '.join(kata.title for kata in members)} |"
        for track, members in tracks.items()
    ]
    others = [paper for paper in papers if paper not in GUIDES]
    return "\n\n".join(
        [
            "# The katas",
            f"{count} pieces of language models that people are asked to write in interviews: what each asks for, and "
            "what a reviewer would insist on. You write one file, and a grader tells whether it is right, and why not; "
            "the [README](README.md) says how to begin. [House rules](docs/house_rules.md) hold for all of them.",
            f"Hints, solutions and explanations are not on these pages: `{typed('hint')}` and `{typed('reveal')}` have "
            "them.",
            "\n".join(["| track | katas | levels | what you write |", "|---|---|---|---|", *rows]),
            _contents("Katas", [f"katas/{track}/index" for track in tracks]),
            _contents("Guides", ["README <README>", *(paper.removesuffix(".md") for paper in GUIDES[1:])]),
            _contents("The project", [paper.removesuffix(".md") for paper in others]),
        ]
    )


def _of_track(track: str, members: list[Kata]) -> str:
    rows = [f"| [{k.title}]({k.name}.md) | `{k.name}` | {k.level} | {k.minutes} |" for k in members]
    table = "\n".join(["| what you write | kata | level | minutes |", "|---|---|--:|--:|", *rows])
    start = f"`{typed(f'grade {track}')}` grades what you wrote of this track."
    return "\n\n".join([f"# {_title(track)}", table, start, _contents("", [kata.name for kata in members])])


def _of_kata(kata: Kata, katas: dict[str, Kata]) -> str:
    parts = [f"# {kata.title}", _facts(kata, katas), master.scenario(kata).partition("\n")[2].strip()]
    staged = stages.of(kata)
    if staged:
        parts += [_of_stage(stage) for stage in staged]
    parts += ["## What stands in your file", _stub(kata)]
    rules = f"The [house rules]({_from(kata, 'docs/house_rules.md')}) hold besides."
    if topics := {} if staged else master.contract(kata):
        bullets = "\n".join(f"- {bullet}" for bullet in topics.values())
        parts += ["## Contract", "What a reviewer would insist on. " + rules, bullets]
    else:
        parts += [rules]
    if kata.sources:
        parts += ["## Sources", "\n".join(f"- {master.linked(source)}" for source in kata.sources)]
    parts += ["## Start", _start(kata)]
    try:
        return with_mathml("\n\n".join(filter(None, parts))) + "\n"
    except BadFormula as bad:
        raise BrokenMaster(f"{kata.master}: {bad}") from bad


def _facts(kata: Kata, katas: dict[str, Kata]) -> str:
    below = [f"[{name}]({_from(kata, path_of(katas[name]))})" for name in kata.builds_on if name in katas]
    facts = [f"`{kata.name}`", f"track [{_title(kata.track)}](index.md)", f"level {kata.level} of 5"]
    facts += [f"{kata.minutes} minutes", *([f"builds on {', '.join(below)}"] if below else [])]
    return " · ".join(facts)


def _of_stage(stage: stages.Stage) -> str:
    """A stage; from the second one on it is folded, for in an interview it is not known before it opens."""
    heading, _, asked = stage.prompt.partition("\n")
    told = f"{asked.strip()}\n\n**What a reviewer would insist on**\n\n{stage.contract}"
    if stage.number > 1:
        told = f"<details><summary>It opens when stage {stage.number - 1} passes</summary>\n\n{told}\n\n</details>"
    return f"{heading}\n\n{told}"


def _stub(kata: Kata) -> str:
    """The code that a kata begins with; a program to be mended is to be read and run where it can be run."""
    if kata.opens_with or master.HANDED_OUT in read_text(kata.master):
        names = ", ".join(f"`{name}`" for name in master.names(kata))
        address = f"{repository(kata.root)}/blob/main/{kata.stub.relative_to(kata.root).as_posix()}"
        return f"The program to mend, [`{kata.say(kata.stub)}`]({address}). It has {names}."
    cells = split(master.stub_text(kata))[1]
    code = ["\n".join(cell.lines).strip() for cell in cells if not cell.markdown and NOTEBOOK_ONLY not in cell.tags]
    return "```python\n" + "\n\n\n".join(filter(None, code)) + "\n```"


def _start(kata: Kata) -> str:
    steps = {typed(f"grade {kata.name}"): f"grades {kata.say(kata.stub)}"}
    if stages.of(kata):
        steps[typed(f"mock {kata.name}")] = "an interview against the clock"
    steps[typed(f"hint {kata.name}")] = "helps a little"
    width = max(map(len, steps))
    lines = [f"{step:{width}}   # {what}" for step, what in steps.items()]
    readme = f"In a clone of the repository; the [README]({_from(kata, 'README.md')}) says what that takes."
    return f"{readme}\n\n```console\n" + "\n".join(lines) + "\n```"


def _contents(caption: str, names: list[str]) -> str:
    """What the sidebar shows below a page."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["```{toctree}", *options, "", *names, "```"])


def _of_paper(root: Path, paper: str, known: set[str]) -> str:
    """A paper without rows of wrong answers, whose links to what is no page lead to the repository on the web.

    Its pictures are links too: they show files of learners, with answers in them.
    """
    instead = f"*These rows quote a solution: [the repository]({repository(root)}/blob/main/{paper}) has them.*"
    text = PICTURE.sub("", ROWS.sub(instead, read_text(root / paper)))

    def moved(found: re.Match[str]) -> str:
        path = found["path"]
        if found["code"]:
            return found[0]
        target = os.path.normpath(Path(paper).parent / path)
        if target in known or not (root / target).exists():  # of the latter Sphinx complains
            return found[0]
        kind = "tree" if (root / target).is_dir() else "blob"
        return f"{repository(root)}/{kind}/main/{target}{found['anchor'] or ''}"

    return LINK.sub(moved, text)


def _from(kata: Kata, path: str) -> str:
    """The link from a kata's page to another page."""
    return Path(os.path.relpath(path, Path(path_of(kata)).parent)).as_posix()


def _title(track: str) -> str:
    return track.replace("_", " ").capitalize()


def _levels(members: list[Kata]) -> str:
    levels = sorted({kata.level for kata in members})
    return f"{levels[0]}" if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"
