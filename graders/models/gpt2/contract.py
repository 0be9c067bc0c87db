"""What `GPT2` must do. The oracle reads the state dict's tensors in float64, a head at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Draw,
    HeadsContract,
    assert_raises,
    core,
    oracles,
    parameters_are,
    robust,
)
from dojo.judge.proxy import Module

HEAD, EMBEDDING = "lm_head.weight", "transformer.wte.weight"


def library_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def gelu(x: Tensor) -> Tensor:
    """Written out, in the dtype of x."""
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def model(attend: oracles.Attention, norm: Callable[..., Tensor], curve: Callable[[Tensor], Tensor]) -> Callable:
    def formula(init: dict, params: dict, ids: Tensor) -> Tensor:
        def layer(name: str, x: Tensor) -> Tensor:
            return x @ params[f"{name}.weight"] + params[f"{name}.bias"]

        def normed(name: str, x: Tensor) -> Tensor:
            return norm(x, params[f"{name}.weight"], params[f"{name}.bias"], 1e-5)

        width, seq = init["d_model"], ids.shape[1]
        x = params[EMBEDDING][ids] + params["transformer.wpe.weight"][:seq]
        for number in range(init["num_layers"]):
            block = f"transformer.h.{number}"
            qkv, heads = layer(f"{block}.attn.c_attn", normed(f"{block}.ln_1", x)), []
            for start in range(0, width, width // init["num_heads"]):
                q, k, v = (
                    qkv[..., at + start : at + start + width // init["num_heads"]] for at in (0, width, 2 * width)
                )
                heads.append(attend(q, k, v, oracles.causal(seq)))
            x = x + layer(f"{block}.attn.c_proj", torch.cat(heads, -1))
            inner = curve(layer(f"{block}.mlp.c_fc", normed(f"{block}.ln_2", x)))
            x = x + layer(f"{block}.mlp.c_proj", inner)
        return normed("transformer.ln_f", x) @ params[EMBEDDING].mT

    return formula


class TestGPT2(HeadsContract):
    name = "GPT2"
    oracle = model(oracles.library, oracles.library_layer_norm, library_gelu)
    variants = (
        model(oracles.library, oracles.library_layer_norm, library_gelu),
        model(oracles.stage_by_stage, oracles.layer_norm, gelu),
        model(oracles.normalised_last, oracles.layer_norm, library_gelu),
    )
    cases = {
        "one_layer": {},
        "two_layers": {"layers": 2},
        "as_long_as_allowed": {"seq": 14},
        "as_many_heads_as_entries_of_one": {"heads": 4, "size": 4},
        "a_small_stream": {"wte": 0.003, "wpe": 0.003, "c_proj": 0.001},
        "wide_activations": {"c_fc": 3.0},
    }
    hard_cases = {"very_large_scores": {"c_attn": 40.0}}
    holds = {
        "State dict": ("test_a_strict", "test_holds_exactly"),
        "Tied": ("test_head_and", "test_gradients"),
        "Half precision": ("test_half_precision", "test_float16"),
        "Errors": ("test_heads_must", "test_longer"),
    }
    off = {"test_state_dict_holds_the_parameters_alone": "the head stands in it too; a strict load shows what it holds"}
    representative = ("two_layers", "a_small_stream")
    more_shapes = {"one_token": {"seq": 1}, "one_entry_one_head": {"batch": 1, "heads": 1}}
    near_300 = {"offset": 300.0}
    grows = {size: size for size in ("batch", "seq", "heads", "size", "vocab")}
    timed = {"seq": 64, "vocab": 211, "layers": 2, "heads": 4, "size": 16, "longest": 64}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, vocab: int = 13, layers: int = 1, heads: int = 3, size: int = 4,
        longest: int = 14, offset: float = 0.0, **scales: float,
    ) -> Call:  # fmt: skip
        """Positions around plus and minus `offset`; a head has this many features; other words scale parameters."""
        sizes = (vocab, max(seq, longest), heads * size, layers, heads)
        init = dict(zip(cls.signature.init, sizes, strict=True))
        params = cls.params(d, init, **{"c_attn": 3.0, "wte": 2.0, "wpe": 2.0} | scales)
        params["transformer.wpe.weight"][:, ::2] += offset
        params["transformer.wpe.weight"][:, 1::2] -= offset
        return Call({"ids": d.integers(0, vocab, batch, seq)}, init, params)

    @core
    def test_holds_exactly_the_parameters_of_the_contract(self, attempt: Attempt, draw: Draw) -> None:
        for make in self.cases.values():
            call = make(draw)  # head and embedding may be registered in either order, and so under either name
            shapes = {name: tuple(value.shape) for name, value in call.params.items()}
            parameters_are(self.build(attempt, call), shapes)

    def loaded(self, attempt: Attempt, made: Call, dtype: torch.dtype) -> Module:
        """The module, cast, with the checkpoint loaded strictly, as Hugging Face saves it."""
        module, params = self.build(attempt, made), made.to(attempt.device).params
        module.to(device=attempt.device, dtype=dtype)
        module.method("load_state_dict", params | {HEAD: params[EMBEDDING]})
        return module

    def agrees(self, attempt: Attempt, draw: Draw, label: str, module: Module, made: Call, dtype: torch.dtype) -> None:
        with self.case_context(attempt, label, made):
            args, kwargs = self.arguments(made.to(attempt.device))
            got = {"result": module.request(args, kwargs)["value"]}
        self.compare(attempt, draw, label, made, got, dtype)

    @core
    def test_a_strict_load_takes_the_checkpoint(self, attempt: Attempt, draw: Draw) -> None:
        made, label = self.cases["two_layers"](draw), "two_layers, by load_state_dict"
        with self.case_context(attempt, label, made):
            module = self.loaded(attempt, made, torch.float32)
        self.agrees(attempt, draw, label, module, made, torch.float32)

    @core
    def test_head_and_embedding_stay_one_parameter(self, attempt: Attempt, draw: Draw) -> None:
        made = self.cases["one_layer"](draw).cast(torch.float64)
        module = self.loaded(attempt, made, torch.float64)
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})
        other = made.with_params(**{EMBEDDING: -made.params[EMBEDDING]})
        module.load_state_dict({EMBEDDING: other.params[EMBEDDING].to(attempt.device)})
        label = "the embedding overwritten after .to(float64) and load_state_dict"
        self.agrees(attempt, draw, label, module, other, torch.float64)

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Past the table a model fails by an error about shapes; in Hugging Face's code too."""
        made = self.cases["one_layer"](draw)
        for seq in (15, 17):
            call = made.with_inputs(ids=draw.integers(0, 13, 2, seq))
            use = partial(self.run, attempt, "too_long", call)
            assert_raises(use, seq, sentence="more than max_len tokens are a ValueError")
