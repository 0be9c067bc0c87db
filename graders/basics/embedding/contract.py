"""What `Embedding` must do. The oracle is torch's own embedding in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Ban,
    Call,
    Draw,
    ModuleContract,
    drawn_from_normal,
    fail,
    half_precisions,
    robust,
    tensor,
)


def library(params: dict, token_ids: Tensor) -> Tensor:
    return F.embedding(token_ids.long(), params["weight"])


def by_index(params: dict, token_ids: Tensor) -> Tensor:
    return params["weight"][token_ids.long()]


def by_one_hot(params: dict, token_ids: Tensor) -> Tensor:
    """Gradients of equal ids then meet in a product, rounded once."""
    weight = params["weight"]
    return F.one_hot(token_ids.long(), len(weight)).to(weight.dtype) @ weight


class TestEmbedding(ModuleContract):
    name = "Embedding"
    oracle = library
    variants = (by_index, by_one_hot, library)
    rounded_once = True
    ban = Ban(r"embedding", ("torch.nn.functional.embedding", "torch.nn.functional.embedding_bag"))
    axes = {"token_ids": "batch seq", "result": "batch seq dim"}
    cases = {
        "a_row_of_ids": {"shape": (7,)},
        "a_batch": {"shape": (2, 7)},
        "first_and_last_row": {"ids": [[0, 12, 12], [12, 0, 5]]},
        "an_id_again_and_again": {"ids": [3, 3, 3, 1, 3, 3]},
        "many_ids": {"shape": (2, 600), "num_embeddings": 5},
    }
    hard_cases = {"int32_ids": {"shape": (2, 7), "dtype": torch.int32}}
    holds = {
        "Initialization": ("test_weight_is_drawn", "test_no_row_starts"),
        "Gradients": ("test_gradients_match",),
        "Ids": ("test_hard_cases", "test_no_ids", "test_large_ids"),
    }
    memory_in = "shape"
    timed = {"shape": (64, 128), "num_embeddings": 101, "embedding_dim": 128}
    time_limit = 25.0

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (2, 5), num_embeddings: int = 13, embedding_dim: int = 5,
        ids: list | None = None, dtype: torch.dtype = torch.int64,
    ) -> Call:  # fmt: skip
        token_ids = d.integers(0, num_embeddings, *shape, dtype=dtype) if ids is None else torch.tensor(ids)
        init = {"num_embeddings": num_embeddings, "embedding_dim": embedding_dim}
        return Call({"token_ids": token_ids}, init, cls.params(d, init, weight=embedding_dim**0.5))

    @robust
    def test_no_ids_give_no_vectors(self, attempt: Attempt, draw: Draw) -> None:
        """A prompt is empty, and the program ends in the maximum of nothing."""
        for shape in ((0,), (2, 0)):
            call = self.call(draw, shape=shape)
            with self.case_context(attempt, "no ids", call):
                got = tensor(self.ready(attempt, call)(call.to(attempt.device).inputs["token_ids"]), attempt.device)
            if got.shape != (*shape, 5):
                fail("no ids give no vectors", f"got {tuple(got.shape)} for ids of shape {shape}, width 5")

    @robust
    @half_precisions
    def test_large_ids_find_their_row_in_half_precision(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """Tokens get their neighbours' vectors: in bfloat16 only 256 numbers of a vocabulary can be told apart."""
        ids = [255, 256, 257, 2047, 2048, 2049, 3000, 3001]
        call = self.call(draw, ids=ids, num_embeddings=3002, embedding_dim=2)
        self.verify(attempt, draw, "large_ids", call, dtype)

    @robust
    def test_weight_is_drawn_from_a_truncated_normal(self, attempt: Attempt) -> None:
        """Vectors of all tokens, the first included, should start alike in size: a model trained on others differs."""
        drawn_from_normal(attempt.Embedding, (400, 200), 1.0, 3.0, "weight is a standard normal, truncated at ±3")

    @robust
    def test_no_row_starts_as_zeros(self, attempt: Attempt, draw: Draw) -> None:
        """Token 0 has no vector to begin with: right for padding alone, and here 0 is an ordinary token."""
        weight = self.build(attempt, self.call(draw)).describe()["parameters"].get("weight")
        rows = [] if weight is None else (weight == 0).all(-1).nonzero().flatten().tolist()
        if rows:
            fail("every row is drawn, none starts as zeros", f"rows of zeros: {rows}")
