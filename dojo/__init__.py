"""The dojo: katas of the modern language model, and a judge whose verdict is right.

In a notebook: `from dojo import check; check("rope")`, and likewise `figure`, `hint`, `reveal`, `history` and
`next_kata`.
"""

from typing import Any

FOR_NOTEBOOKS = ("check", "figure", "hint", "reveal", "history", "next_kata")


def __getattr__(name: str) -> Any:
    if name in FOR_NOTEBOOKS:  # imported when asked for: a worker, too, imports this package
        from dojo.notebook import api

        return getattr(api, name)
    raise AttributeError(f"module 'dojo' has no attribute '{name}'")
