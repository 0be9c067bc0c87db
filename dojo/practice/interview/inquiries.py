"""What a candidate asks the interviewer, and the answer: bullets of the contract, found by topics and synonyms.

Questions of a session are lines of a file in its folder, so that the mock's own terminal and one beside the editor may
both ask.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content import catalog, master, stages
from dojo.content.catalog import Trouble
from dojo.practice.interview import timed_session
from dojo.practice.interview.timed_session import STATE, End, TimedSession

if TYPE_CHECKING:
    from dojo.content.catalog import Kata

FILE = "questions.jsonl"  # in a session's folder
UP_TO_YOU = "Up to you: say what you assume."
LIVE = 10.0  # seconds since a running session has written its state, at most
ALIKE = 88  # of 100, two words that are one, mistyped or inflected
NEAR = 0.6  # of the best match, what is answered besides
TOPIC, SYNONYM, BULLET = 3.0, 2.0, 1.0  # what a word that matches counts
ENOUGH = 2.0  # less is no match
STOP = set(
    """
    a about all am an and any are as at be by can could do does for from get given has have how i if in into is it its
    may me must my need no not of on one or other our out same say shall should so some such take taken than that the
    their them then there these they this to two us want was we what when where which while who why will with would you
    your
    """.split()
)
SYNONYMS = (  # words that people use for the same
    "half precision fp16 fp32 fp64 bf16 float16 bfloat16 float32 dtype autocast cast upcast mixed",
    "dtype type float double precision",
    "error errors validate validation raise exception valueerror invalid check assert bad refuse illegal",
    "mask masked masking masks padding pad padded attend visible hidden allowed causal",
    "masked rows fully empty nothing nan zeros",
    "cost buffer complexity memory speed fast slow efficient performance flops copy loop vectorize allocate",
    "growth grow amortized append concatenate cat reallocate buffer preallocate",
    "positions position offset rope start index positional",
    "cache kv cached decode decoding incremental reuse",
    "chunks chunk several tokens prefill step steps block",
    "room full limit overflow maximum length max_len beyond longer capacity",
    "stop eos end finished finish termination terminate after",
    "mode eval evaluation train training dropout grad graph no_grad inference",
    "shape shapes dimension dimensions axes axis leading batch broadcast broadcasting",
    "large big overflow stable stability extreme inf infinite underflow cancellation",
    "scale scaling sqrt temperature divide",
    "mean average sum reduction normalize normalise averaging loss",
    "default defaults optional argument omitted none",
    "device cuda gpu cpu",
    "gradient gradients backward autograd differentiable detach",
    "init initial initialization initialisation weights start",
    "weights parameters shared copied tied",
    "random seed rng chance generator uniform uniforms sampling draw",
    "state checkpoint resume resumption snapshot save load restore state_dict crash file",
    "norm norms clip clipping",
    "schedule warmup cosine rate lr decay",
    "optimizer adamw adam sgd momentum betas decay",
    "non finite nan inf skip skipped infinite",
    "order first last sequence sorted",
    "tie ties equal equality exact bitwise identical same",
    "window sliding local bound bounded recent",
    "groups group kv_heads gqa mqa grouped heads",
    "count counts number many amount bugs",
    "kinds kind sort where place bugs",
    "pooling pool mean last token average classifier",
    "accept acceptance accepted reject rejection probability",
    "side left right padding align",
)


@dataclass(frozen=True)
class Inquiry:
    """A question, when it was asked, and the topics whose bullets were the answer."""

    at: float  # seconds into the session
    kata: str
    stage: int
    text: str
    topics: list[str]


def bullets(kata: Kata, stage: int) -> dict[str, str]:
    """What can be asked for, by topic: the contract, of a kata with stages as far as they are open."""
    opened = stages.of(kata)[:stage]
    if not opened:
        return master.contract(kata)
    return {topic: text for each in opened for topic, text in master.topics_of(each.contract).items()}


def matching(question: str, known: dict[str, str]) -> list[str]:
    """The topics that a question is about, best first; none where nothing is near enough."""
    from rapidfuzz import fuzz

    asked = _words(question)
    scores: dict[str, float] = {}
    for topic, bullet in known.items():
        own, said = _words(topic), _words(bullet.replace("**", ""))
        others = set().union(*(line for line in map(_words, SYNONYMS) if own & line)) - own
        for word in asked:
            kinds = ((own, TOPIC), (others, SYNONYM), (said, BULLET))
            worth = (weight for words, weight in kinds if any(word == w or fuzz.ratio(word, w) >= ALIKE for w in words))
            scores[topic] = scores.get(topic, 0.0) + next(worth, 0.0)
    best = max(scores.values(), default=0.0)
    found = [topic for topic, score in scores.items() if score >= max(ENOUGH, NEAR * best)]
    return sorted(found, key=lambda topic: -scores[topic])[:2]


def _words(text: str) -> set[str]:
    """The words of a text that say something, in the singular."""
    found = re.findall(r"[a-z][a-z0-9_]*", text.casefold())
    return {word.removesuffix("s") if len(word) > 3 else word for word in found if word not in STOP}


def ask(held: TimedSession, text: str) -> str:
    """Ask the interviewer of a session, keep the question, and return the answer in Markdown."""
    answers = []
    for name in held.katas:
        known = bullets(catalog.katas()[name], held.stage)
        topics = matching(text, known)
        inquiry = Inquiry(held.spent, name, held.stage, text, topics)
        with (held.folder / FILE).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asdict(inquiry))}\n")  # one write a line: two terminals may ask at once
        answers += [known[topic] for topic in topics]
    return "\n\n".join(answers) or UP_TO_YOU


def asked(folder: Path) -> list[Inquiry]:
    """What was asked in a session, oldest first; lines that a crash has cut off do not count."""
    found = []
    try:
        lines = (folder / FILE).read_text("utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        with suppress(ValueError, TypeError):
            found.append(Inquiry(**json.loads(line)))
    return found


def topics_of(inquiries: Iterable[Inquiry], kata: str) -> list[str]:
    """The topics that were asked for, each once."""
    return list(dict.fromkeys(topic for each in inquiries if each.kata == kata for topic in each.topics))


def running() -> TimedSession:
    """The one mock that is held now, in another terminal. Raises Trouble where there is none, or several."""
    states = (catalog.ROOT / "mocks").glob(f"**/{STATE}")
    live = [path.parent for path in states if abs(time.time() - path.stat().st_mtime) < LIVE]
    held = [each for each in map(timed_session.load, live) if each.end is End.OPEN]
    if not held:
        raise Trouble("no mock is running: nobody is there to be asked. `mock NAME` begins one")
    if len(held) > 1:
        folders = ", ".join(catalog.katas()[each.katas[0]].say(each.folder) for each in held)
        raise Trouble(f"{len(held)} mocks are running, in {folders}: say which by `--mock FOLDER`")
    return held[0]
