"""Holds a mock of three katas in a terminal, from start to scorecard, and prints its text: what docs/mock.md shows.

python -m tests.mock_transcript > docs/mock.md
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from dojo.content import catalog, proofs
from tests import terminal
from tests.conftest import copy_of_project

WORDS = ["mock", "--track", "attention", "--minutes", "30", "--seed", "4", "--real"]
HEAD = f"""\
# A mock, from start to scorecard

What a terminal of 80 columns shows of `nox -s {WORDS[0]} -- {" ".join(WORDS[1:])}`, without
colours and without the line that counts the time down. The candidate is a script, which is why the clock shows seconds;
`python -m tests.mock_transcript > docs/mock.md` holds it again. `…` stands for two of the three statements.

"""
MASK = """
if __name__ == "__main__":
    print(causal_mask(2, 4).int())
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True] * 4]
"""
SDPA = """
if __name__ == "__main__":
    q, k, v = torch.tensor([[2.0]]), torch.tensor([[3.0]]).log() / 2, torch.tensor([[4.0]])
    k, v = torch.cat([k, torch.zeros(1, 1)]), torch.cat([v, torch.tensor([[8.0]])])
    torch.testing.assert_close(scaled_dot_product_attention(q, k, v), torch.tensor([[5.0]]))
"""
FIRST_MASK = "import torch\n\n\ndef causal_mask(q_len, k_len=None, *, device=None):\n    return "
FIRST_SDPA = "import torch\n\n\ndef scaled_dot_product_attention(q, k, v, mask=None):\n    scores = q @ k"
SQUARE = f"{FIRST_MASK}torch.ones(q_len, k_len or q_len, dtype=torch.bool, device=device).tril()\n{MASK}"
CRASH = f"{FIRST_SDPA} / k.shape[-1] ** 0.5\n    return scores.softmax(-1) @ v\n{SDPA}"
PLAIN = f"""{FIRST_SDPA}.mT / k.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v
{SDPA}"""


def main() -> None:
    """Print the page."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DOJO_HOME": f"{folder}/home", "DOJO_STARTED_BY": "nox", "PYTHONPATH": folder}
        project = copy_of_project(Path(folder))
        shown, status = terminal.run(WORDS, steps(project), project, patience=300, columns=80)
    if "stands now" not in shown:
        raise SystemExit(f"the mock ended too early (status {status}):\n{shown}")
    print(f"{HEAD}```\n{told(shown)}\n```")


def steps(project: Path) -> list[terminal.Step]:
    """What the candidate does, and upon which words."""

    def save(text: str) -> Callable[..., None]:
        def write(*_: object) -> None:
            rounds = sorted(max((project / "mocks").iterdir()).glob("*/*.py"))
            rounds[number - 1].write_text(text)

        number = len(codes) + 1
        return write

    codes: list[list[terminal.Step]] = []
    done, enter = terminal.press(b"q\n"), ("Enter goes on", terminal.press(b"\n"))
    saves = save(SQUARE), save(f"{_right('causal_mask')}\n{MASK}")
    codes.append([("from now", saves[0]), ("on the example you gave", terminal.after(4, saves[1]))])
    saves = save(CRASH), save(PLAIN)
    codes.append([("from now", saves[0]), ("sdpa raises", terminal.after(5, saves[1]))])
    codes.append([("from now", terminal.after(3, save(_right("mqa"))))])
    asked = [
        [*rated("It is what a cache has: the new queries stand last", 3), *rated("", 4), *rated("", 3)],
        [*rated("Their variance is d_k, and softmax would saturate", 4), *rated("", 2), *rated("", 3)],
        [*rated("The cache shrinks by the number of heads", 3), skipped(), *rated("", 1)],
    ]
    rounds = [[*code, (" runs", terminal.after(5, done)), *given] for code, given in zip(codes, asked, strict=True)]
    return [*rounds[0], enter, *rounds[1], enter, *rounds[2]]


def rated(said: str, rating: int) -> list[terminal.Step]:
    return [("Enter shows", terminal.press(f"{said}\n".encode())), ("How well", terminal.press(f"{rating}\n".encode()))]


def skipped() -> terminal.Step:
    return "Enter shows", terminal.press(b"s\n")


def _right(name: str) -> str:
    return next(iter(proofs.field(catalog.named(name)).values()))


def told(shown: str) -> str:
    """The text of a terminal, without what it obeys, and without the line that is written over and over."""
    text = re.sub(r"\x1b\]8;[^\x1b]*\x1b\\", "", shown.replace("\r\n", "\n"))
    text = re.sub(r"\r\x1b\[2K(?:[\d:]+ left[^\r\n]*)?", "", text)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    first, *others = re.split(r"(?<=write in)(\s\S+\n)", text)
    for number in range(3, len(others), 2):
        others[number] = re.sub(r"\A.*?(?=^\d+ minutes from now)", "\n…\n\n", others[number], flags=re.S | re.M)
    text = first + "".join(others)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()


if __name__ == "__main__":
    main()
