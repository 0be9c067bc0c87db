"""Ties between statements and checks: no sentence without a check, and no check without a sentence.

A claim is a bullet of a statement, or its paragraph about what is not allowed. It is tied to checks by its words: by
the ties that all katas share, and by those of a grader's `CLAIMS`, which map words of a claim to a regular expression
of checks. The kill matrix proves each tie: some wrong attempt breaks that claim alone. What every kata promises, and
need not say, stands in CONTRIBUTING. What is left open stands in the bullet **Not graded**.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from dojo.content import catalog, master
from dojo.content.catalog import Kata
from dojo.grading.runner import class_name

PROMISED = re.compile(
    "values_match|gradients_match|uses_only|stays_in_pytorch|any_leading_dimensions|float64|half_precision|float16|"
    "inputs_and_global_state|global_state|any_memory_layout|each_call_stands_alone|operation_count|memory_grows|"
    "time_stays|no_tensor_is_much_larger|state_dict|training_and_evaluation|any_shape_in_any_order|other_weights|"
    "tables_lose_nothing|takes_device_and_dtype|device_it_was_moved_to|by_name|holds_exactly|are_refused|must_divide|"
    "hard_cases|construction_takes_no_more|bfloat16|Testtest::"
)
# What compares results fails with them.
FOLLOWS = re.compile(f"{PROMISED.pattern}|gets_zeros|::test_any_|whole_numbers|divided_by_0|unlikely")
PARAMETERS = re.compile("holds_exactly")  # a module that has others can be given no values
TIES = {  # words of a claim, and the checks that hold it
    r"shape|`\(\.\.\.|\(batch|comes? from|head_dim`|formula|last dimension|integers|int32": "values",
    r"^\*\*(Heads|Pairs|gelu|A layer|RoPE|Feed-forward|Positions|Bidirectional|The gate|`\w*(ffn|attn)`)": "values",
    r"^\*\*(Parameter|`weight`)|[Pp]arameters?\*\*|No bias": "holds_exactly",
    "Initialisation|initialised|ones|zeros and|start": "drawn|starts?_|start_with",
    r"[Dd]type|float16|float64": "half_precision|float64|float16|in_float32|dtype",
    "modified|non-contiguous|expanded": "inputs_and_global_state|any_memory_layout",
    "[Nn]o loops|[Nn]o tensor that grows|memory": "operation_count|memory_grows|no_tensor_is_much_larger",
    "attend to nothing|exact zeros": "gets_zeros",
    "mask": "mask|gets_zeros",
    "[Gg]radients?": "gradients",
    "[Cc]onstant|no gradient": "constants_get",
    "ValueError|IndexError|refused": "refused|must_divide|index_error|value_error",
    "[Tt]ables": "tables_lose_nothing|made_once|takes_no_more|device_it_was_moved|state_dict|buffers",
    "Not allowed|forbidden": "uses_only|stays_in_pytorch",
    "[Dd]ropout": "drop",
    "[Cc]ausal|later|attends to positions": "later_token",
    "padding": "padding",
    "positions?": "position|distance",
    "Norm": "norms?_",
    "Each call": "stands_alone|no_tensor_is_much_larger",
}


def claims(kata: Kata) -> list[str]:
    """The claims of a statement, each on one line, but for what it says is not graded."""
    found = re.findall(r"^- .+?(?=\n- |\n\n(?! )|\Z)|^Not allowed.+?(?=\n\n|\Z)", master.statement(kata), re.M | re.S)
    told = (" ".join(each.removeprefix("- ").split()) for each in found)
    return [each for each in told if not each.startswith("**Not graded")]


def checks(kata: Kata) -> dict[str, Callable[..., None]]:
    """The checks of a grader, by callable and name, as verdicts call them."""
    module = catalog.load(kata.grader)
    made = [each for each in vars(module).values() if isinstance(each, type) and each.__name__.startswith("Test")]
    names = [(cls, name) for cls in made if cls.__module__ == module.__name__ for name in dir(cls)]
    return {
        f"{class_name(cls)}::{name}": getattr(cls, name)
        for cls, name in names
        if name.startswith("test_") and getattr(cls, name)
    }


def ties(kata: Kata, told: list[str]) -> dict[str, list[str]]:
    """The checks that hold each of these texts."""
    known = (TIES | own_ties(kata)).items()
    every = checks(kata)

    def tied(text: str) -> list[str]:
        held = "|".join(each for words, each in known if re.search(words, text))
        return [check for check in every if held and re.search(held, check, re.I)]

    return {text: tied(text) for text in told}


def unproven(kata: Kata, failed: Mapping[str, Collection[str]]) -> list[str]:
    """The claims that no wrong attempt breaks alone, a sentence each. `failed` holds the checks that each has failed.

    One that breaks a claim alone fails a check that holds it, and no other but those that compare results as well.
    """

    def alone(held: Collection[str]) -> bool:
        for checks in ({check.partition("[")[0] for check in each} for each in failed.values()):
            others = [check for check in checks - {*held} if not FOLLOWS.search(check)]
            if checks & {*held} and (not others or any(map(PARAMETERS.search, checks & {*held}))):
                return True
        return False

    # What is asked of a test, bad tests break: no rows of a matrix.
    tied = [(told, held) for told, held in ties(kata, claims(kata)).items() if not any("Testtest::" in h for h in held)]
    return [
        f"{kata.name}: no wrong attempt breaks this claim alone: “{claim}”" for claim, held in tied if not alone(held)
    ]


def own_ties(kata: Kata) -> dict[str, str]:
    """The ties of a grader's own."""
    found: dict[str, str] = getattr(catalog.load(kata.grader), "CLAIMS", {})
    return found


def loose_ends(kata: Kata) -> list[str]:
    """Claims without a check, checks without a claim, and ties to words that are not there; a sentence each."""
    statement, found = master.statement(kata), ties(kata, claims(kata))
    told = ties(kata, [statement])[statement]
    silent = [check for check in checks(kata) if check not in told and not PROMISED.search(check)]
    lost = [words for words in own_ties(kata) if not re.search(words, statement)]
    return [
        *(f"{kata.name}: no check holds the claim “{claim}”" for claim, held in found.items() if not held),
        *(f"{kata.name}: no sentence of the statement asks for the check {check}" for check in silent),
        *(f"{kata.name}: the statement does not hold the words {words!r} of CLAIMS" for words in lost),
    ]
