"""Whether verdicts are right on a GPU: solutions and right attempts, known bugs and mistakes, and attacks.

    python benchmarks/on_gpu.py KATA ... [--solutions] [--out FILE.json]
    python benchmarks/on_gpu.py --attacks [NAME ...] [--out FILE.json]

Right answers must pass and wrong ones must not. Attacks, those of tests/attacks and of tests/attacks_on_gpu, are graded
as softmax: each must fail with its sentence, and no process may keep memory of the GPU afterwards.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import torch  # noqa: E402

from benchmarks import subjects  # noqa: E402
from dojo.content import catalog, proofs  # noqa: E402
from dojo.content.master import read_text  # noqa: E402
from dojo.grading import parallel  # noqa: E402
from dojo.grading.options import Entry, Options  # noqa: E402
from dojo.grading.run import run  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402
from dojo.verdict.types import Outcome  # noqa: E402
from tests.test_attacks import SAYS, attacks  # noqa: E402

ON_GPU = {  # what the verdict must say of each attack
    "keeps_all_memory": ("out of memory",),
    "hangs_in_a_kernel": ("no answer after",),
    "indexes_out_of_bounds": ("device-side assert",),
    "writes_where_nothing_is": ("illegal memory access",),
}
Case = tuple[catalog.Kata, str, str, str]  # the kata, what it is, `passed` or what else it must be, its source


def answers(kata: catalog.Kata, solutions_alone: bool) -> Iterator[Case]:
    """What is graded as a kata."""
    solution = read_text(kata.master)
    yield kata, "solution", "passed", solution
    if solutions_alone:
        return
    for style, source in proofs.right_attempts(kata).items():
        yield kata, f"right: {style}", "passed", source
    for bug in proofs.bugs(kata):
        yield kata, f"bug: {bug.name}", "failed", bug.plant(solution)
    for name, source in proofs.mistakes(kata).items():
        yield kata, f"mistake: {name}", "failed", source


def attacked(names: list[str]) -> Iterator[Case]:
    """The attacks of these names, or all."""
    own = {path.stem: path.read_text("utf-8") for path in (PROJECT / "tests" / "attacks_on_gpu").glob("*.py")}
    for name, source in (own | attacks()).items():
        if names and name not in names:
            continue
        yield catalog.named("softmax"), f"attack: {name}", "failed", source


def held() -> int:
    """MiB of the GPU's memory that are in use, by whoever it is."""
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[0])


def main() -> int:
    """Print what is not as it should be, and sums; returns 1 if there is any such thing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA", help="katas or tracks, or attacks; all when none is named")
    parser.add_argument("--solutions", action="store_true", help="the solutions alone")
    parser.add_argument("--attacks", action="store_true", help="the attacks, and nothing else")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="of all of it every N-th, from the I-th on")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write each verdict to this file, as JSON")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU here that PyTorch can use")
    katas = [] if args.attacks else subjects.chosen(parser, args.names)
    cases = (
        [*attacked(args.names)] if args.attacks else [case for kata in katas for case in answers(kata, args.solutions)]
    )
    first, step = map(int, args.part.split("/"))
    cases = cases[first::step]
    torch.zeros(1, device="cuda")
    parallel.import_all()
    server, found, wrong, before = ForkServer(), [], 0, held()
    for kata, what, wanted, source in cases:
        begun = time.monotonic()
        entry = Entry(kata, source, f"{kata.name}.py", "")
        (verdict,) = run([entry], Options(7, device="cuda", diagnose=False), server)
        checks = [check for check in verdict.checks if not check.outcome.harmless]
        said = "\n".join([verdict.message, *(f"{check.name} {check.outcome}: {check.message}" for check in checks)])
        name = what.partition(": ")[2]
        sentences = ON_GPU.get(name) or SAYS.get(name) if args.attacks else None
        right = (verdict.verdict == "passed") is (wanted == "passed")
        right = right and all(check.outcome is not Outcome.GRADER_ERROR for check in checks)
        right = right and (not sentences or any(each in said for each in sentences))
        row = {"kata": kata.name, "what": what, "verdict": verdict.verdict, "right": right, "said": said}
        found.append(row | {"seconds": time.monotonic() - begun, "MiB": held() - before})
        wrong += not right
        if args.out:
            args.out.write_text(json.dumps(found, indent=1))
        if not right:
            print(f"{kata.name}: {what}: {verdict.verdict}, which is wrong\n{said[:2000]}\n", flush=True)
    server.close()
    print(f"{len(found) - wrong} of {len(found)} as they should be; {held() - before} MiB of the GPU are left behind")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
