"""Questions whose answer is a number: the formula, its settings, and which typed numbers are near enough.

In a master it is a paragraph below the points, and the question names each setting in backticks:

    Answer: `2 * heads * seq**2` bytes, within 5 %. Settings: `heads` 8, 32; `seq` 2048, 8192.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass

ANSWER = re.compile(r"Answer: `([^`]+)`(?: ([^,]+))?, within ([\d.]+) %\. Settings: (.+)\.")
SETTING = re.compile(r"`(\w+)` ([\d., ]+)")
FUNCTIONS = {"ceil": math.ceil, "exp": math.exp, "log": math.log, "log2": math.log2, "sqrt": math.sqrt}
NUMBER = re.compile(r"[-+]?(\d[\d,_]*\.?\d*|\.\d+)(e[-+]?\d+)?")
POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
WIDEST = 50.0  # percent
Settings = dict[str, float]


@dataclass(frozen=True)
class Number:
    """A formula over settings that are drawn anew each time it is asked."""

    formula: str
    unit: str
    percent: float  # that an answer may be off
    settings: dict[str, tuple[float, ...]]

    def value(self, settings: Settings) -> float:
        """What is right for these settings."""
        return float(eval(self.formula, {"__builtins__": {}}, {**FUNCTIONS, **settings}))  # of our own masters

    def fits(self, answer: float, settings: Settings) -> bool:
        """Whether a number is near enough."""
        return abs(answer - self.value(settings)) <= abs(self.value(settings)) * self.percent / 100

    def shown(self, value: float) -> str:
        """A number as it is read, with its unit."""
        return f"{shown(value)} {self.unit}".strip()

    def faults(self, question: str) -> list[str]:
        """What is wrong with it as the answer to this question."""
        found = [f"the question does not name `{name}`" for name in self.settings if f"`{name}`" not in question]
        if not 0 < self.percent <= WIDEST:
            found.append(f"an answer within {self.percent:g} % is none: at most {WIDEST:g} %, more than 0")
        every = (dict(zip(self.settings, each, strict=True)) for each in itertools.product(*self.settings.values()))
        try:
            if len({*map(self.value, every)}) == 1:
                found.append(f"`{self.formula}` is the same for all settings")
        except (ArithmeticError, NameError, SyntaxError, TypeError, ValueError) as error:
            found.append(f"`{self.formula}` gives no number: {error}")
        return found


def read(paragraph: str) -> Number | None:
    """The number that a paragraph `Answer: …` gives, None where it is not of that form."""
    match = ANSWER.fullmatch(paragraph)
    if not match:
        return None
    settings = {
        name: tuple(float(value) if "." in value else int(value) for value in re.findall(r"[\d.]+", values))
        for name, values in SETTING.findall(match[4])
    }
    return Number(match[1], match[2] or "", float(match[3]), settings)


def asked(question: str, settings: Settings) -> str:
    """A question with its settings in their places."""
    for name, value in settings.items():
        question = question.replace(f"`{name}`", shown(value))
    return question


def typed(text: str, unit: str = "") -> float | None:
    """The number that was typed, as in `4.3e9`, `4,300`, `4.3 GB`, `4 GiB` or `2.5 M`; None where it is none."""
    text = text.strip().lower().replace("·10^", "e").replace("*10^", "e").replace("×10^", "e")
    match = NUMBER.match(text)
    if not match:
        return None
    number = float(match[0].replace(",", "").replace("_", ""))
    rest = text[match.end() :].strip()
    if rest[:1] == "b" and "byte" not in unit:
        return number * 1e9  # billions
    power = POWERS.get(rest[:1], 0) if len(rest) == 1 or rest[1:2] in "bif" or rest[1:] == unit[:1] else 0
    return number * (1024 if rest[1:2] == "i" else 1000) ** power


def shown(value: float) -> str:
    """A number with as many digits as one reads: 8,192, 0.05, 4.29e+09."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:.3g}"
