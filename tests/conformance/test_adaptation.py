"""The adapters against the library that people use."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.conformance.agreement import agree, normal, solution

peft = pytest.importorskip("peft", reason="peft is part of the test extra")


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(("rank", "alpha"), [(2, 16), (3, 5.0)])
def test_lora_is_pefts(rank: int, alpha: float, merged: bool) -> None:
    x, own = normal(2, 7, 5), {}
    values = {"weight": normal(6, 5, seed=2), "lora_a": normal(rank, 5, seed=3), "lora_b": normal(6, rank, seed=4)}

    def theirs(dtype: torch.dtype) -> Tensor:
        base = nn.Linear(5, 6, bias=False, dtype=dtype)
        config = peft.LoraConfig(r=rank, lora_alpha=alpha)
        layer = peft.tuners.lora.Linear(base, "ours", config, r=rank, lora_alpha=alpha).to(dtype)
        parts = {"weight": base.weight, "lora_a": layer.lora_A["ours"].weight, "lora_b": layer.lora_B["ours"].weight}
        assert {name: part.shape for name, part in parts.items()} == {name: v.shape for name, v in values.items()}
        for name, part in parts.items():
            part.data.copy_(values[name])
        if merged:
            layer.merge()
        own[dtype] = base.weight.detach().clone()
        return layer(x.to(dtype))

    def ours(dtype: torch.dtype) -> Tensor:
        layer = solution("lora").LoRALinear(5, 6, rank, alpha, dtype=dtype)
        layer.load_state_dict(values)
        if merged:
            layer.merge()
        assert torch.allclose(layer.weight, own.get(dtype, layer.weight), rtol=1e-5, atol=1e-6)
        return layer(x.to(dtype))

    agree(theirs, ours)


def test_lora_a_starts_as_pefts() -> None:
    torch.manual_seed(0)
    base = nn.Linear(5, 6, bias=False)
    layer = peft.tuners.lora.Linear(base, "ours", peft.LoraConfig(r=3), r=3)
    torch.manual_seed(0)
    nn.Linear(5, 6, bias=False)
    nn.Linear(5, 3, bias=False), nn.Linear(3, 6, bias=False)  # what peft makes before it draws A anew
    started = nn.init.uniform_(torch.empty(3, 5), -(5**-0.5), 5**-0.5)
    assert torch.equal(layer.lora_A["ours"].weight, started)
    assert not layer.lora_B["ours"].weight.count_nonzero()
