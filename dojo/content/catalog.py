"""Which katas there are: the tree of masters is the registry, `solutions/TRACK/NAME.py`.

The path gives a kata's name and track, the `dojo:` block in the master's header the rest.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import ModuleType

FOLDERS = ("katas", "solutions", "graders")  # what a project has


def _project() -> Path:
    """The project: what DOJO_ROOT names, or what the current folder lies in, or the checkout that this file is of.

    A package that was installed without a checkout carries one of its own: `setup.py` puts it there.
    """
    if os.environ.get("DOJO_ROOT"):
        return Path(os.environ["DOJO_ROOT"]).expanduser().resolve()
    try:
        here = Path.cwd()
    except FileNotFoundError:  # somebody has deleted it
        here = Path(__file__)
    above = (path for path in (here, *here.parents) if all((path / name).is_dir() for name in FOLDERS))
    carried = Path(__file__).resolve().parents[1] / "project"
    return next(above, carried if carried.is_dir() else carried.parents[1])


ROOT = _project()
STARTED_BY = "DOJO_STARTED_BY"  # the noxfile and the entry points say there what the user typed
TRACKS = (
    "basics", "positions", "attention", "feedforward", "blocks", "models", "accounting", "losses", "inference",
    "long_context", "optimisation", "training", "parallelism", "adaptation", "mixtures", "alignment", "tokens",
    "foundations", "beyond", "classics", "debug", "interviews",
)  # fmt: skip


def typed(command: str) -> str:
    """A command in the words that start it here: `grade rope` is `nox -s grade -- rope`, or `dojo grade rope`."""
    program = os.environ.get(STARTED_BY, "nox")
    if not program.startswith("nox"):
        return f"{program} {command}"
    name, _, words = command.partition(" ")
    return f"{program} -s {name} -- {words}" if words else f"{program} -s {name}"


class Trouble(Exception):
    """Something the user can mend; the message says what and how, and needs no traceback."""


class UnknownKata(Trouble, ValueError):
    """A word that is neither a kata, a track nor `all`."""


class BrokenMaster(Trouble, ValueError):
    """A master that cannot be read: a mistake in this project or in a kata being written."""


@dataclass(frozen=True)
class Kata:
    """One kata as its master describes it, and where its files lie."""

    name: str
    title: str
    track: str
    level: int
    minutes: int
    builds_on: tuple[str, ...]
    sources: tuple[str, ...]
    root: Path = ROOT
    opens_with: str = ""  # the kata whose stub is the program that one with stages begins with

    @property
    def master(self) -> Path:
        return self.root / "solutions" / self.track / f"{self.name}.py"

    @property
    def stub(self) -> Path:
        return self.root / "katas" / self.track / f"{self.name}.py"

    @property
    def proofs(self) -> Path:
        """The folder of the grader and of what proves it: see `content.proofs`."""
        return self.root / "graders" / self.track / self.name

    @property
    def grader(self) -> Path:
        return self.proofs / "contract.py"

    @property
    def notebook(self) -> Path:
        return self.root / "notebooks" / self.track / f"{self.name}.ipynb"

    @property
    def figure(self) -> Path:
        """The picture of the lesson before the kata, drawn by `figures`; it stands beside the master that says how."""
        return self.master.with_suffix(".svg")

    @property
    def home(self) -> Path:
        """The untracked folder for what we remember about this user's work."""
        return self.root / ".dojo"

    def say(self, path: Path) -> str:
        """A path as the user would type it from the project folder."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)


def katas(root: Path = ROOT) -> dict[str, Kata]:
    """Every kata by name, in the order of learning: track, then what builds on nothing new, then level and name."""
    folder = root / "solutions"
    if not folder.is_dir():
        named = "DOJO_ROOT names a folder without katas" if os.environ.get("DOJO_ROOT") else "there are no katas here"
        raise Trouble(
            f"{named}, for there is no folder {folder}: go to your clone of the project (`cd`), or name that clone, "
            "as in DOJO_ROOT=~/dojo"
        )
    paths = [path for path in folder.glob("*/*.py") if path.stem.isidentifier()]
    _check_unique(paths)
    found = [_read(path, root) for path in paths]
    found.sort(key=lambda kata: (TRACKS.index(kata.track), kata.level, kata.name))
    known = {kata.name: kata for kata in found}
    placed: dict[str, Kata] = {}

    def place(kata: Kata, above: tuple[str, ...] = ()) -> None:
        for name in kata.builds_on:
            if name in known and known[name].track == kata.track and name not in above:
                place(known[name], (*above, kata.name))
        placed.setdefault(kata.name, kata)

    for kata in found:
        place(kata)
    return placed


def select(words: list[str], root: Path = ROOT) -> list[Kata]:
    """The katas that the words name, each a kata, a track or `all`; no words at all mean `all`.

    They come in the order of the words, none twice. Raises UnknownKata, naming near ones.
    """
    known = katas(root)
    chosen: dict[str, Kata] = {}
    for word in words or ["all"]:
        name = _stem(word)
        members = [k for k in known.values() if word == "all" or name == k.name or word == k.track]
        if not members:
            raise UnknownKata(_unknown(word, known))
        chosen.update((kata.name, kata) for kata in members)
    return list(chosen.values())


def one(word: str) -> Kata:
    """The kata of that name, for commands that do not take a track. Raises UnknownKata."""
    chosen = select([word])
    if len(chosen) != 1:
        raise UnknownKata(f"'{word}' is {len(chosen)} katas: name one of {', '.join(k.name for k in chosen)}")
    return chosen[0]


def named(name: str, root: Path = ROOT) -> Kata:
    """The kata of that very name, read without the others: for a name that this project's own files hold."""
    return _read(next((root / "solutions").glob(f"*/{name}.py")), root)


def _stem(word: str) -> str:
    """A kata's name from its file's, as a shell completes it: katas/positions/rope.py means rope."""
    path = Path(word).absolute()
    above = {"katas", "notebooks"} & set(path.parts[-3:-1])  # or katas/rope.py, as it was without track folders
    return path.stem if path.suffix in (".py", ".ipynb") and above else word


def _unknown(word: str, known: dict[str, Kata]) -> str:
    import difflib

    names = [*known, *dict.fromkeys(k.track for k in known.values()), "all"]
    near = difflib.get_close_matches(word.lower(), names, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}."
    return f"no kata or track is called '{word}': {advice} `{typed('list')}` shows them all."


def _check_unique(paths: list[Path]) -> None:
    seen: dict[str, Path] = {}
    for path in sorted(paths):
        other = seen.setdefault(path.stem, path)
        if other is not path:
            raise BrokenMaster(f"{path}: {other.parent.name} has a {path.stem} too, and a kata has a name of its own")


def _read(path: Path, root: Path) -> Kata:
    track = path.parent.name
    if track not in TRACKS:
        raise BrokenMaster(f"{path}: its folder '{track}' is no track: the tracks are {', '.join(TRACKS)}")
    about = _header(path)
    try:
        kata = Kata(
            name=path.stem,
            title=str(about["title"]),
            track=track,
            level=int(about["level"]),
            minutes=int(about["minutes"]),
            builds_on=tuple(map(str, about.get("builds_on") or ())),
            sources=tuple(map(str, about.get("sources") or ())),
            root=root,
            opens_with=str(about.get("opens_with") or ""),
        )
    except KeyError as missing:
        raise BrokenMaster(f"{path}: the header's `dojo:` block has no {missing}") from None
    except (TypeError, ValueError) as error:
        raise BrokenMaster(f"{path}: the header's `dojo:` block cannot be read: {error}") from None
    if not 1 <= kata.level <= 5:
        raise BrokenMaster(f"{path}: level is {kata.level}, and levels go from 1 to 5")
    return kata


def _header(path: Path) -> dict:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with path.open(encoding="utf-8") as file:
        fenced = file.readline().rstrip() == "# ---"
        lines = takewhile(lambda line: line.startswith("#") and line.rstrip() != "# ---", file if fenced else ())
        header = "".join(line[2:] for line in lines)
    try:
        about = yaml.load(header, loader)["jupyter"]["dojo"]  # a safe loader either way
    except yaml.YAMLError as error:
        raise BrokenMaster(f"{path}: the header is no YAML: {error}") from None
    except (KeyError, TypeError):
        about = None
    if not isinstance(about, dict):
        raise BrokenMaster(f"{path}: the header between the `# ---` lines has no `dojo:` block under `jupyter:`")
    return about


def load(path: Path) -> ModuleType:
    """A grader or a master as a module of its own, made anew at each call."""
    name = "_".join([*path.parts[-3:-1], path.stem])  # positions_rope_contract
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # as for every .py file
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
