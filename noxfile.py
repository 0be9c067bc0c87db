"""Katas of the modern language model. `nox -s grade -- softmax` grades your softmax.

Words after `--` go to the command, as in `nox -s hint -- softmax`; `nox -s grade -- --help` explains a command.
`nox --no-venv -s …` uses your own environment as it is. Plain `nox` shows what a learner needs first.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import itertools
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nox

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit("dojo needs Python 3.11 or newer, and this nox runs on an older one: install nox with a newer Python")

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from dojo.cli.commands import COMMANDS  # noqa: E402  # which needs no dependency of ours
from dojo.cli.commands.declared import Command  # noqa: E402

ENVIRONMENT = ROOT / ".nox" / "dojo"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
CONSTRAINTS = ROOT / "constraints.txt"
# one more than there are processors, for some tests wait for a browser or a clock
SIDE_BY_SIDE = (f"--numprocesses={(os.cpu_count() or 1) + 1}", "--dist=worksteal")
OFFLINE = re.compile("NewConnectionError|NameResolutionError|Max retries exceeded|Connection to .* timed out")
# as `lint-imports`, of the interpreter that we use
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as c; c(['--no-cache', '--no-logo'])"

nox.options.sessions = ["help"]  # plain `nox`
# python=False below: nox would give each session an environment of its own, and they share the one made here
nox.options.stop_on_first_error = True
if not {"-v", "--verbose"} & set(sys.argv):
    logging.getLogger("nox").setLevel(logging.WARNING)  # what a command says is enough


@nox.session(name="help", python=False)
def help_(session: nox.Session) -> None:
    """Show what there is to do, what a learner needs first at the top."""
    _run(sys.executable, "-m", "dojo", "help", more=_environment(session))  # here before there is an environment


def _session_of(name: str, command: Command) -> None:
    """Make a session of a command of the dojo."""

    def run(session: nox.Session) -> None:
        extras = [extra for option, extra in command.extras.items() if option in " ".join(session.posargs)]
        _dojo(session, name, *extras)

    run.__doc__ = command.in_nox
    nox.session(run, name=name, python=False)


for each in COMMANDS.items():
    _session_of(*each)


@nox.session(python=False)
def lab(session: nox.Session) -> None:
    """Open the notebooks in JupyterLab, which is installed first (words after -- go to it)."""
    _dojo(session, "sync", "lab", words=[], must=False)  # scripts that were edited since; it tells of a conflict
    pairs = "--ServerApp.contents_manager_class=dojo.notebook.paired.PairedFiles"
    where = ("--ServerApp.root_dir=.", "--LabApp.default_url=/lab/tree/notebooks", pairs)
    _run(_python(session, "lab"), "-m", "jupyterlab", *where, *session.posargs)


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """Run the project's own tests (words after -- go to pytest)."""
    _run(_python(session, "test"), "-m", "pytest", *SIDE_BY_SIDE, *session.posargs)


@nox.session(python=False)
def proof(session: nox.Session) -> None:
    """Run everything, what `tests` leaves out too (-- --changed: only what proves the katas that changed)."""
    everything = ("-m", "proof or not proof", *SIDE_BY_SIDE)
    of_all = not any(word.startswith("--changed") for word in session.posargs)  # a cluster's tests are about no kata
    _run(_python(session, "test", *(["cohort"] if of_all else [])), "-m", "pytest", *everything, *session.posargs)


@nox.session(python=False)
def lessons(session: nox.Session) -> None:
    """Prove the lessons: their steps, and their notebooks run with the answers in them (-- -k rope)."""
    everything = ("-m", "proof or not proof", "tests/test_lessons.py", *SIDE_BY_SIDE)
    _run(_python(session, "test"), "-m", "pytest", *everything, *session.posargs)


@nox.session(python=False)
def mutants(session: nox.Session) -> None:
    """Say which one-place mutants of the solutions the graders let through (-- rope)."""
    _run(_python(session), "benchmarks/mutants.py", *session.posargs)


@nox.session(python=False)
def soak(session: nox.Session) -> None:
    """Count wrong verdicts over many runs on a loaded machine; takes hours (-- --solution 10 --bugs 1 is a taste)."""
    _run(_python(session), "benchmarks/soak.py", *session.posargs)


@nox.session(python=False)
def attacks(session: nox.Session) -> None:
    """Grade every attack of tests/attacks here, in the sandbox and on Ray, and print how each ended."""
    _run(_python(session, "test", "cohort"), "benchmarks/attacks.py", *session.posargs)


@nox.session(python=False)
def pictures(session: nox.Session) -> None:
    """Take the pictures of the page in the browser anew, docs/pictures/*.png."""
    _run(_python(session, "test", "web"), "docs/pictures.py", *session.posargs)


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Measure solutions beside the best PyTorch (-- rope), a class (-- cohort, or -- class_size), or the -- page."""
    if session.posargs[:1] == ["cohort"]:
        _run(_python(session, "cohort"), "benchmarks/cohort.py", *session.posargs[1:])
    elif session.posargs[:1] == ["class_size"]:
        _run(_python(session), "benchmarks/class_size.py", *session.posargs[1:])
    elif session.posargs[:1] == ["page"]:
        _run(_python(session, "test"), "benchmarks/page.py", *session.posargs[1:])
    else:
        _run(_python(session, "test"), "benchmarks/bench.py", *session.posargs)  # which brings transformers and peft


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Check style with ruff, types with mypy and the direction of imports (-- --fix mends what it can)."""
    python = _python(session, "lint")
    fix = "--fix" in session.posargs
    _run(python, "-m", "ruff", "check", *(["--fix"] if fix else []), ".")
    _run(python, "-m", "ruff", "format", *([] if fix else ["--check"]), ".")
    _run(python, "-c", LINT_IMPORTS)
    _run(python, "-m", "mypy")


def _dojo(session: nox.Session, command: str, *extras: str, words: list[str] | None = None, must: bool = True) -> None:
    """Run a command of the dojo in the folder that nox was called from, with the session's words or these."""
    words = session.posargs if words is None else words
    python = _python(session, *extras)
    _run(python, "-m", "dojo", command, *words, cwd=session.invoked_from, more=_environment(session), must=must)


def _environment(session: nox.Session) -> dict[str, str]:
    """What the dojo is told by its environment: how it was started, and where it is."""
    by = "nox --no-venv" if _in_own_environment(session) else "nox"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {"DOJO_STARTED_BY": by, "DOJO_ROOT": str(ROOT), "PYTHONPATH": path}


def _in_own_environment(session: nox.Session) -> bool:
    config = session._runner.global_config  # nox has no public word for "was --no-venv given?"
    return config.no_venv or config.force_venv_backend == "none"


def _python(session: nox.Session, *extras: str) -> str:
    """The interpreter to use, its environment up to date; with --no-venv the user's own, untouched."""
    if _in_own_environment(session):
        active = "VIRTUAL_ENV" in os.environ or "CONDA_PREFIX" in os.environ
        on_path = shutil.which("python") or shutil.which("python3") or sys.executable
        return sys.executable if not active and importlib.util.find_spec("torch") else on_path
    if not PYTHON.exists():
        print("dojo: making the environment in .nox/dojo, once; PyTorch is most of it", flush=True)
        _run(sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update", "--clear", str(ENVIRONMENT))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    _install("core", project["dependencies"], "about 1 GB with PyTorch's CPU build, several with its CUDA build")
    _install("command", ["-qq", "--no-deps", "--editable", str(ROOT)], "the command `dojo`")
    for extra in extras:
        _install(extra, project["optional-dependencies"][extra], f"what `nox -s {session.name}` needs besides")
    return str(PYTHON)


def _install(what: str, requirements: list[str], note: str) -> None:
    """Install requirements, unless the stamp says that just these are there already."""
    wanted = hashlib.sha256(json.dumps([requirements, CONSTRAINTS.read_text("utf-8")]).encode()).hexdigest()
    stamp = ENVIRONMENT / f"dojo-{what}.stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"dojo: bringing the environment up to date, once ({note})", flush=True)
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", *quiet]
    said = ENVIRONMENT / "pip.log"
    with said.open("w", encoding="utf-8") as errors:
        status = _status([*pip, "--constraint", str(CONSTRAINTS), *requirements], stderr=errors)
    if status:
        print(f"dojo: {_why(said.read_text('utf-8', 'replace'))} What pip said is in {said}", file=sys.stderr)
        sys.exit(2)
    said.unlink()
    stamp.write_text(wanted)


def _why(said: str) -> str:
    """What kept pip from installing, by what it said, and what to do."""
    if OFFLINE.search(said):
        return (
            "pip reaches no package index, and what dojo needs is not all installed yet: connect to the network, then "
            "type the same command again."
        )
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    return f"pip could not install what dojo needs ({errors[0] if errors else 'it gave no reason'})."


def _run(
    *command: str, cwd: str | Path = ROOT, more: Mapping[str, str] = MappingProxyType({}), must: bool = True
) -> None:
    """Run a command that speaks for itself: nox adds only the exit status, where it must succeed."""
    status = _status(command, cwd=cwd, env=os.environ | more)
    if status and must:
        if status < 0:
            print(f"dojo: {' '.join(command)} was ended by signal {-status}", file=sys.stderr)
        sys.exit(status if status > 0 else 128 - status)  # a session that fails would make every status a 1


def _status(command: Sequence[str], **how: Any) -> int:
    """The exit status of a command; Ctrl-C is its own, and it cleans up after itself."""
    process = subprocess.Popen(command, **how)
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()


def _forgotten_dashes(words: list[str]) -> str:
    """What to type instead of `nox -s grade rope`, which nox takes for two sessions; nothing if all is well."""
    end = words.index("--") if "--" in words else len(words)
    at = next((n for n, word in enumerate(words[:end]) if word in ("-s", "-e", "--session", "--sessions")), end)
    named = list(itertools.takewhile(lambda word: not word.startswith("-"), words[at + 1 : end]))
    if not named or named[0] not in SESSIONS or set(named) <= SESSIONS:
        return ""
    right = shlex.join(["nox", *words[:at], "-s", named[0], "--", *named[1:], *words[end + 1 :]])
    return f"dojo: words for `{named[0]}` stand after `--`. Type: {right}"


SESSIONS = set(nox.registry.get())
if mistake := _forgotten_dashes(sys.argv[1:]):
    print(mistake, file=sys.stderr)
    sys.exit(2)
