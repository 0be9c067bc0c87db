"""What `pack` and `document_mask` must do. The oracles walk along the stream, and ask of each query and key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Contract, Draw, GeneratorContract, bare, fail, shorter
from dojo.judge.protocol import Args, Kwargs

NAMES = ("tokens", "documents", "positions", "labels")
Rows = dict[str, list[list[int]]]


def walked(documents: Sequence[Sequence[int]], seq_len: int, eos_id: int, pad_id: int = 0) -> Rows:
    stream = [(token, number) for number, ids in enumerate(documents) for token in (*ids, eos_id)]
    stream += [(pad_id, -1)] * (-len(stream) % seq_len)
    rows: Rows = {name: [] for name in NAMES}
    before, position = -1, 0
    for place, (token, number) in enumerate(stream):
        if place % seq_len == 0:
            for name in NAMES:
                rows[name].append([])
            position = 0
        elif number == before:
            position += 1
            rows["labels"][-1][-1] = -100 if number == -1 else token
        else:
            position = 0
        for name, value in zip(NAMES, (token, number, position, -100), strict=True):
            rows[name][-1].append(value)
        before = number
    return rows


def drawn(d: Draw, least: int = 1, ids: Sequence[int] = range(10, 90), ends: Args = (3, 1)) -> list:
    """Calls with documents that are shorter and longer than a row; of `ids` some may be `ends`, the end and padding."""
    pick = d.random()
    counts = [(pick.randint(2, 6), pick.randint(3, 8)) for _ in range(8)]
    return [([pick.choices(ids, k=pick.randint(least, 2 * n)) for _ in range(many)], n, *ends) for many, n in counts]


def smaller(call: Args) -> Iterator[Args]:
    """The same with fewer documents, then with shorter ones."""
    documents, *rest = call
    yield from ((each, *rest) for each in shorter(documents) if each)
    for number, ids in enumerate(documents):
        yield from (([*documents[:number], each, *documents[number + 1 :]], *rest) for each in shorter(ids) if each)


class TestPack(GeneratorContract):
    name = "pack"
    oracle = walked
    simpler = smaller
    holds = {
        "Rows": ("test_documents_are_one", "test_documents_may_have"),
        "End token": ("test_the_end_token",),
        "Ids": ("test_places_decide",),
        "Empty documents": ("test_an_empty_document",),
        "Cost": ("test_time",),
    }
    claims = {
        "documents are one stream in rows": [
            ([[5, 6, 7], [8], [9, 10]], 4, 2),
            ([[5, 6, 7], [8, 9, 10]], 4, 2),
            ([[5, 6, 7, 8, 9], [11]], 4, 2),
            ([[5, 6], [7], [5, 6]], 6, 3, 1),
            ([[*range(20, 31)]], 4, 3, 1),
        ],
        "documents may have any length": drawn,
        "the end token belongs to the document before it": [([[5], [6], [7, 8]], 7, 2), ([[5, 6], [7, 8, 9]], 3, 4, 1)],
    }
    edges = {
        "places decide and not values": lambda d: (
            drawn(d, ids=range(4), ends=(2, 0)) + drawn(d, ids=range(4), ends=(3, 3))
        ),
        "an empty document is its end token": lambda d: [
            *(([[], [5], [], [], [6, 7]], 4, 2), ([[5, 6, 7], []], 4, 2)),
            *drawn(d, least=0, ends=(3, 3)),
        ],
    }
    time_limit = 4.5  # three tensors for each document take 2

    @classmethod
    def complete(cls) -> None:
        super().complete()
        cls.makes_tensor = False  # but a dict of them, which are compared as lists

    timed = ([[10 + place % 80 for place in range(number % 19)] for number in range(2000)], 512, 3, 1)

    def answer(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Rows:
        got = super().answer(attempt, args, kwargs)
        for name in NAMES:
            value = got.get(name) if isinstance(got, dict) else None
            if not isinstance(value, Tensor) or value.dtype is not torch.int64:
                seen = bare(value.dtype) if isinstance(value, Tensor) else f"a {type(value).__name__}"
                fail("the result is a dict of four int64 tensors", f"`{name}` is {seen}")
        return {name: got[name].tolist() for name in NAMES}

    def expected(self, call: Args, got: Any, reference: Any = None) -> Rows:
        """Positions in padding are those of the answer."""
        exact = walked(*call)
        padding = exact["documents"][-1].count(-1)
        if padding and len(got["positions"]) == len(exact["positions"]):
            exact["positions"][-1][-padding:] = got["positions"][-1][-padding:]
        return exact


def who_sees_whom(documents: Tensor) -> Tensor:
    rows = [
        [[key <= query and row[key] == row[query] != -1 for key in range(len(row))] for query in range(len(row))]
        for row in documents.tolist()
    ]
    return torch.tensor(rows, dtype=torch.bool)[:, None]


class TestDocumentMask(Contract):
    name = "document_mask"
    oracle = who_sees_whom
    variants = ()
    differentiable = False
    half = ()
    holds = {"Padding": ("test_hard_cases",), "Cost": ("test_operation_count", "test_time")}
    cases = {"documents": {}, "one_document": {"share": 0.0}, "documents_of_one_token": {"share": 1.0}}
    hard_cases = {"padding": {"padding": 5}, "a_document_and_padding": {"share": 0.0, "padding": 4}}
    timed = {"rows": 8, "seq": 256}

    @classmethod
    def call(cls, d: Draw, rows: int = 3, seq: int = 11, share: float = 0.3, padding: int = 0) -> Call:
        """Documents as `pack` numbers them: after about a share of the tokens one ends. The last row may be padded."""
        documents = (d.uniform(rows * seq) < share).cumsum(0)
        documents[documents.numel() - padding :] = -1
        return Call({"documents": documents.view(rows, seq)})
