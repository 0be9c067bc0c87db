"""How a file grows when a stage opens, and what of a prompt is spoken."""

from __future__ import annotations

from dojo.content import stages

GROWN = """\
class Trainer:
    def __init__(self, model, clip=None):
        self.model = model

    def state_dict(self):
        raise NotImplementedError

    def load_state_dict(self, state):
        raise NotImplementedError
"""


def test_new_methods_come_in_the_order_of_the_stage() -> None:
    had = GROWN.partition("\n\n")[0].replace(", clip=None", "") + "\n"
    assert stages._grown(had, GROWN) == (GROWN, "")


def test_neither_a_log_nor_signatures_are_spoken() -> None:
    prompt = '## Stage 1 · 5 min\n\n"Why?"\n\n```text\nstep loss\n```\n\n```python\ndef f():\n    ...\n```'
    assert stages.Stage(1, 5, prompt, "", "", (), "", "", ()).spoken == '"Why?"'
