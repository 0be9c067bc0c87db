"""Every attack of tests/attacks in every place where strangers' code is graded, and whether it ended as it must.

    nox -s attacks [-- --places local,sandbox,ray] [-- --only forges_a_doubt,shouts]

An attack is held where its verdict says one of the sentences that tests/test_attacks.py demands, and an honest attempt
that is graded after all of them passes. The exit status says whether all were. A place that this machine has not is
said to be missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from dojo.cohort.engine import STARVED, Engine, LocalEngine, results  # noqa: E402
from dojo.cohort.records import Result, Submitted  # noqa: E402
from dojo.cohort.store import Terms  # noqa: E402
from dojo.content import catalog  # noqa: E402
from dojo.content.catalog import Trouble  # noqa: E402
from dojo.content.master import read_text  # noqa: E402
from dojo.judge import sandbox  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402
from tests.test_attacks import BROKEN, SAYS, attacks  # noqa: E402

HONEST = "~honest"  # which is sorted, and graded, last
SHARED = [Path("/proc/sysvipc", kind) for kind in ("shm", "msg", "sem")]


@contextmanager
def local(around: Sequence[str] = ()) -> Iterator[Engine]:
    """The processes of this machine."""
    server = ForkServer(around=[*around])
    engine = LocalEngine(server)
    try:
        yield engine
    finally:
        engine.close()
        server.close()


@contextmanager
def on_ray() -> Iterator[Engine]:
    """A cluster of this machine alone."""
    from dojo.cohort.on_ray import RayEngine

    with closing(RayEngine("auto", sandboxed=False)) as engine:
        yield engine


PLACES: dict[str, Callable[[], AbstractContextManager[Engine]]] = {
    "local": local,
    "sandbox": lambda: local(sandbox.prefix()),
    "ray": on_ray,
}


def held(result: Result) -> str:
    """How an attack ended where it had to; nothing where it did not."""
    name, verdict = result.submitted.student, result.verdict
    if name == HONEST:
        return "passed" if verdict["verdict"] == "passed" else ""
    said = " ".join([verdict["message"], *(check["message"] for check in verdict["checks"])])
    # who only waits is told from a busy machine once that is quiet, and until then a person has it
    settled = result.for_a_person in ("", STARVED)
    ended = settled and verdict["verdict"] == ("broken" if name in BROKEN else "failed")
    return next((words for words in SAYS[name] if words in said), "") if ended else ""


def main() -> int:
    """Run them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--only", default=",".join(SAYS), help="names of attacks")
    args = parser.parse_args()
    names = sorted([*args.only.split(","), HONEST])
    texts = attacks() | {HONEST: read_text(catalog.katas()["softmax"].master)}
    ended, missing = dict[tuple[str, str], str](), list[str]()

    def fetch(name: str, kata: str) -> Submitted:
        return Submitted(name, kata, f"{name}.py", texts[name])

    for place in args.places.split(","):
        before, begun = [path.read_text() for path in SHARED if path.exists()], time.monotonic()
        try:
            with PLACES[place]() as engine:
                every = results([(name, "softmax") for name in names], fetch, Terms(5), engine)
                for count, result in enumerate(every, 1):
                    ended[result.submitted.student, place] = held(result)
                    print(f"\r{place}: {count} of {len(names)}", end="", file=sys.stderr)
        except Trouble as trouble:
            missing.append(f"{place} is not here: {trouble}")
            continue
        left = [path.read_text() for path in SHARED if path.exists()] != before
        lasting = ", SOMETHING IS LEFT in shared memory" * left
        print(f"\r{place}: {time.monotonic() - begun:.0f} s{lasting}", file=sys.stderr)
    places = [place for place in args.places.split(",") if any(p == place for _, p in ended)]
    width = max(map(len, names))
    print(f"{'attack':<{width}}  {'  '.join(f'{place:<8}' for place in places)}  ended by")
    for name in names:
        row = ["held" if ended.get((name, place)) else "NOT HELD" for place in places]
        says = next(filter(None, (ended.get((name, place)) for place in places)), "")
        print(f"{name:<{width}}  {'  '.join(f'{cell:<8}' for cell in row)}  {says}")
    for line in missing:
        print(line)
    lost = [(name, place) for place in places for name in names if not ended.get((name, place))]
    print(f"{len(names) * len(places) - len(lost)} of {len(names) * len(places)} held")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
