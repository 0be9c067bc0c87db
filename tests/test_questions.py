"""Questions of an interviewer: how a master holds them, how they are asked, and when they come back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from dojo.content import catalog, master
from dojo.content.catalog import Kata
from dojo.content.master import Question

CELLS = """\
# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is $x$ divided?
#
# - The variance of a dot product is $d$, and
#   a large one saturates.
# - Gradients vanish.
#
# Source: Vaswani et al. 2017,
# arXiv:1706.03762

# %% [markdown] tags=["solution", "questions"]
# ### What does `dtype` decide?
# - The range.
#
# Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html
"""


@pytest.fixture
def asking(tmp_path: Path) -> Kata:
    """A kata whose master holds two questions."""
    kata = dataclasses.replace(catalog.katas()["softmax"], root=tmp_path)
    kata.master.parent.mkdir(parents=True)
    kata.master.write_text(CELLS)
    return kata


def test_a_master_holds_questions_with_points_and_sources(asking: Kata) -> None:
    first, second = master.questions(asking)
    points = ("The variance of a dot product is $d$, and a large one saturates.", "Gradients vanish.")
    assert first == Question("Why is $x$ divided?", points, "Vaswani et al. 2017, arXiv:1706.03762")
    assert second.points == ("The range.",)
    assert second.source.startswith("https://docs.pytorch.org")


def test_what_questions_lack_is_told_with_file_and_question(asking: Kata) -> None:
    assert master.question_faults(asking) == ["solutions/basics/softmax.py: 2 questions (`### …?`), fewer than 6"]
    asking.master.write_text(CELLS.replace("# - The range.\n", "").replace("# Source: V", "# V") + CELLS)
    told = "\n".join(master.question_faults(asking))
    assert "“What does `dtype` decide?” has no points (`- …`)" in told
    assert "“Why is $x$ divided?” has no paragraph `Source: …`" in told
    assert "“Why is $x$ divided?” is asked 2 times" in told
