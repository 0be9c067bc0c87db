"""What `Embedding` must do. The oracle is torch's own embedding in float64."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.bugs import Bug, Equivalent
from dojo.contract import ModuleContract, core, robust
from dojo.expect import Ban, Call, Draw, drawn_from_normal, parameters_are, refuses
from dojo.judge.proxy import Attempt


def library(init: dict, params: dict, token_ids: Tensor) -> Tensor:
    return F.embedding(token_ids.long(), params["weight"])


def by_index(init: dict, params: dict, token_ids: Tensor) -> Tensor:
    return params["weight"][token_ids.long()]


def by_one_hot(init: dict, params: dict, token_ids: Tensor) -> Tensor:
    """Gradients of equal ids then meet in a product, rounded once."""
    weight = params["weight"]
    return F.one_hot(token_ids.long(), len(weight)).to(weight.dtype) @ weight


def call(d: Draw, *shape: int, rows: int = 13, dim: int = 5, ids: Tensor | None = None) -> Call:
    inputs = {"token_ids": d.integers(0, rows, *shape) if ids is None else ids}
    return Call(inputs, {"num_embeddings": rows, "embedding_dim": dim}, {"weight": d.normal(rows, dim)})


class TestEmbedding(ModuleContract):
    name = "Embedding"
    oracle = library
    variants = (by_index, by_one_hot, library)
    rounded_once = True
    ban = Ban(r"embedding", ("torch.nn.functional.embedding", "torch.nn.functional.embedding_bag"))
    axes = {"token_ids": "batch seq", "result": "batch seq dim"}
    cases = {
        "a_row_of_ids": lambda d: call(d, 7),
        "a_batch": lambda d: call(d, 2, 7),
        "first_and_last_row": lambda d: call(d, ids=torch.tensor([[0, 12, 12], [12, 0, 5]])),
        "an_id_again_and_again": lambda d: call(d, ids=torch.tensor([3, 3, 3, 1, 3, 3])),
        "int32_ids": lambda d: call(d, ids=d.integers(0, 13, 2, 7, dtype=torch.int32)),
        "many_ids": lambda d: call(d, 2, 600, rows=5),
    }
    more_shapes = {
        "one_id": lambda d: call(d, ids=torch.tensor(4)),
        "one_id_in_a_row": lambda d: call(d, 1),
        "three_dimensions": lambda d: call(d, 2, 3, 4),
        "one_column": lambda d: call(d, 2, 3, dim=1),
        "one_row": lambda d: call(d, 2, 3, rows=1),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5),
        "seq": lambda d, n: call(d, 2, n),
        "vocabulary": lambda d, n: call(d, 2, 3, rows=n),
        "width": lambda d, n: call(d, 2, 3, dim=n),
    }
    time_limit = 60.0

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 64, 128, rows=101, dim=128)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt) -> None:
        with torch.no_grad():
            parameters_are(attempt.Embedding(13, 5), {"weight": (13, 5)})

    @robust
    def test_an_id_outside_the_table_is_an_index_error(self, attempt: Attempt, draw: Draw) -> None:
        module = self.ready(attempt, call(draw, 3))
        for outside in (13, 14, 1000, 2**32 + 1):
            ids = torch.tensor([2, outside, 0], device=attempt.device)
            sentence = "an id from num_embeddings on is an IndexError"
            refuses(partial(module, ids), sentence=sentence, error="IndexError")
        for dtype in (torch.int64, torch.int32):
            for outside in (-1, -13, -14):
                row = torch.tensor([2, outside, 0], device=attempt.device, dtype=dtype)
                sentence = "a negative id is an IndexError and does not wrap around"
                last = torch.cat([torch.zeros_like(row).repeat(300), row[1:2]])
                for ids in (row, row[1], torch.stack([row.clamp_min(0), row]), last, row.expand(2, 3)):
                    refuses(partial(module, ids), sentence=sentence, error="IndexError")

    @robust
    def test_weight_is_drawn_from_a_truncated_normal(self, attempt: Attempt) -> None:
        drawn_from_normal(attempt.Embedding, (400, 200), 1.0, 3.0, "weight is a standard normal, truncated at ±3")


BUGS = [
    Bug(
        "an embedding matrix that is not a parameter",
        "a plain tensor is neither trained nor saved nor moved.",
        "self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))",
        "self.weight = torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)",
    ),
    Bug(
        "stored as (embedding_dim, num_embeddings)",
        "one row is one token's vector.",
        "self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.empty(embedding_dim, num_embeddings, device=device, dtype=dtype))",
    ),
    Bug(
        "an explicit dtype ignored",
        "the parameter is made in the dtype that the constructor is given.",
        "self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device))",
    ),
    Bug(
        "super().__init__ without the call",
        "a module must be set up before it can hold parameters.",
        "super().__init__()",
        "super().__init__",
    ),
    Bug(
        "not truncated",
        "the tails are cut at ±3.",
        "nn.init.trunc_normal_(self.weight, std=1.0, a=-3.0, b=3.0)",
        "nn.init.normal_(self.weight)",
    ),
    Bug(
        "standard deviation 0.02",
        "that is GPT-2's table, which is tied to the output; this one has deviation 1.",
        "nn.init.trunc_normal_(self.weight, std=1.0, a=-3.0, b=3.0)",
        "nn.init.trunc_normal_(self.weight, std=0.02, a=-3.0, b=3.0)",
    ),
    Bug(
        "uniform instead of normal",
        "the table is drawn from a normal distribution.",
        "nn.init.trunc_normal_(self.weight, std=1.0, a=-3.0, b=3.0)",
        "nn.init.uniform_(self.weight, -3.0, 3.0)",
    ),
    Bug(
        "negative ids wrap around",
        "an index of -1 silently reads the last row of the table.",
        "outside = token_ids[(token_ids < 0) | (token_ids >= len(self.weight))]",
        "outside = token_ids[token_ids >= len(self.weight)]",
    ),
    Bug(
        "ids outside the table clamped",
        "a silent substitute hides a broken tokenizer.",
        "if outside.numel() > 0:",
        "token_ids = token_ids.clamp(0, len(self.weight) - 1)\n        if False:",
    ),
    Bug(
        "a ValueError instead of an IndexError",
        "the contract asks for an IndexError, as lookups raise.",
        'raise IndexError(f"id {outside[0].item()} is outside the table of {len(self.weight)} rows")',
        'raise ValueError(f"id {outside[0].item()} is outside the table of {len(self.weight)} rows")',
    ),
    Bug(
        "ids counted from 1",
        "id 0 is the first row.",
        "return self.weight[token_ids]",
        "return self.weight[token_ids - 1]",
    ),
    Bug(
        "scaled by the root of the width",
        "that is part of the model of 2017, not of the table.",
        "return self.weight[token_ids]",
        "return self.weight[token_ids] * self.weight.shape[1] ** 0.5",
    ),
    Bug(
        "the table detached from the graph",
        "a table that gets no gradient never learns.",
        "return self.weight[token_ids]",
        "return self.weight.data[token_ids]",
    ),
    Bug(
        "gradients of a repeated id counted once",
        "each occurrence adds its gradient to the row.",
        "return self.weight[token_ids]",
        "rows = self.weight[token_ids]; flat = token_ids.flatten().long(); share = torch.ones(len(self.weight), device=flat.device).index_add(0, flat, torch.ones(len(flat), device=flat.device)) - 1; keep = (1 / share.clamp(min=1))[token_ids].unsqueeze(-1).to(rows.dtype); return rows * keep + (rows * (1 - keep)).detach()",  # noqa: E501
    ),
    Bug(
        "int32 ids not taken",
        "ids may be int32 or int64.",
        "return self.weight[token_ids]",
        "return torch.gather(self.weight, 0, token_ids.reshape(-1, 1).expand(-1, self.weight.shape[1])).reshape(*token_ids.shape, -1)",  # noqa: E501
    ),
]

EQUIVALENT = (
    Equivalent(r"std=1\.0.*→", "1 is the default."),
    Equivalent(r"outside = .*→.*(< 0\]|> len)", "indexing itself raises IndexError above the table."),
    Equivalent(r"outside\[0\].*→", "another offending id, or the same as a tensor, is named."),
)
