"""Which katas there are: the folder of masters is the registry, and each master's header describes its kata."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
TRACKS = ("basics", "positions", "attention", "feedforward", "blocks", "models", "accounting")


class Trouble(Exception):
    """Something the user can mend; the message says what and how, and needs no traceback."""


class UnknownKata(Trouble, ValueError):
    """A word that is neither a kata, a track nor `all`."""


class BrokenMaster(Trouble, ValueError):
    """A master that cannot be read: a mistake in this project or in a kata being written."""


@dataclass(frozen=True)
class Kata:
    """One kata as its master's header describes it, and where its files lie."""

    name: str
    title: str
    track: str
    level: int
    minutes: int
    builds_on: tuple[str, ...]
    sources: tuple[str, ...]
    root: Path = ROOT

    @property
    def master(self) -> Path:
        return self.root / "solutions" / f"{self.name}.py"

    @property
    def stub(self) -> Path:
        return self.root / "katas" / f"{self.name}.py"

    @property
    def grader(self) -> Path:
        return self.root / "graders" / f"{self.name}.py"

    @property
    def notebook(self) -> Path:
        return self.root / "notebooks" / f"{self.name}.ipynb"

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
        raise Trouble(f"there is no folder {folder}: the katas live in a checkout of the project; run it from there")
    found = [_read(path, root) for path in folder.glob("*.py") if path.stem.isidentifier()]
    found.sort(key=lambda kata: (TRACKS.index(kata.track), kata.level, kata.name))
    known, placed = {kata.name: kata for kata in found}, {}

    def place(kata: Kata, above: tuple[str, ...] = ()) -> None:
        for name in kata.builds_on:
            if name in known and known[name].track == kata.track and name not in above:
                place(known[name], (*above, kata.name))
        placed.setdefault(kata.name, kata)

    for kata in found:
        place(kata)
    return placed


def tracks(root: Path = ROOT) -> list[str]:
    """The tracks that have katas, in the order of learning."""
    return list(dict.fromkeys(kata.track for kata in katas(root).values()))


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


def one(word: str, root: Path = ROOT) -> Kata:
    """The kata of that name, for commands that do not take a track. Raises UnknownKata."""
    chosen = select([word], root)
    if len(chosen) != 1:
        raise UnknownKata(f"'{word}' is {len(chosen)} katas: name one of {', '.join(k.name for k in chosen)}")
    return chosen[0]


def _stem(word: str) -> str:
    """A kata's name from its file's, as a shell completes it: katas/rope.py means rope."""
    path = Path(word)
    return path.stem if path.suffix in (".py", ".ipynb") and path.parent.name in ("katas", "notebooks") else word


def _unknown(word: str, known: dict[str, Kata]) -> str:
    import difflib

    names = [*known, *dict.fromkeys(k.track for k in known.values()), "all"]
    near = difflib.get_close_matches(word.lower(), names, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}."
    return f"no kata or track is called '{word}': {advice} `nox -s list` shows them all."


def _read(path: Path, root: Path) -> Kata:
    about = _header(path)
    try:
        kata = Kata(
            name=path.stem,
            title=str(about["title"]),
            track=str(about["track"]),
            level=int(about["level"]),
            minutes=int(about["minutes"]),
            builds_on=tuple(map(str, about.get("builds_on") or ())),
            sources=tuple(map(str, about.get("sources") or ())),
            root=root,
        )
    except KeyError as missing:
        raise BrokenMaster(f"{path}: the header's `dojo:` block has no {missing}") from None
    except (TypeError, ValueError) as error:
        raise BrokenMaster(f"{path}: the header's `dojo:` block cannot be read: {error}") from None
    if kata.track not in TRACKS:
        raise BrokenMaster(f"{path}: track is '{kata.track}', which is none of {', '.join(TRACKS)}")
    if not 1 <= kata.level <= 5:
        raise BrokenMaster(f"{path}: level is {kata.level}, and levels go from 1 to 5")
    return kata


def _header(path: Path) -> dict:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    lines = []
    with path.open(encoding="utf-8") as file:
        fences = 0
        for line in file:
            if line.rstrip() == "# ---":
                fences += 1
            elif fences == 1 and line.startswith("#"):
                lines.append(line[2:])
            else:
                break
            if fences == 2:
                break
    try:
        about = yaml.load("".join(lines), loader)["jupyter"]["dojo"]  # a safe loader either way
    except yaml.YAMLError as error:
        raise BrokenMaster(f"{path}: the header is no YAML: {error}") from None
    except (KeyError, TypeError):
        about = None
    if not isinstance(about, dict):
        raise BrokenMaster(f"{path}: the header between the `# ---` lines has no `dojo:` block under `jupyter:`")
    return about


def load(path: Path) -> ModuleType:
    """A grader or a master as a module of its own, made anew at each call."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
