"""The optimisers against PyTorch's own."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.agreement import normal, solution


@pytest.mark.parametrize("settings", [{}, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.5}])
@pytest.mark.parametrize(("dtype", "off"), [(torch.float64, 1e-15), (torch.float32, 1e-6)])
def test_adamw_is_torchs(settings: dict, dtype: torch.dtype, off: float) -> None:
    made = []
    for kind in (torch.optim.AdamW, solution("adamw").AdamW):
        params = [torch.nn.Parameter(normal(4, 3, seed=seed).to(dtype)) for seed in (1, 2, 3)]
        optimiser = kind([{"params": params[:2]}, {"params": params[2:], "lr": 0.05}], **settings)
        for step in range(12):
            optimiser.zero_grad()
            for number, p in enumerate(params):
                if (step + number) % 3:
                    p.grad = normal(4, 3, seed=10 * step + number).to(dtype)
            optimiser.step()
            optimiser.param_groups[0]["lr"] *= 0.9
        made.append(torch.cat([p.detach() for p in params]))
    assert (made[0] - made[1]).abs().max() <= off


def test_adamw_has_its_known_values() -> None:
    p = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimiser, found = solution("adamw").AdamW([p], lr=0.1, weight_decay=0.1), []
    for _ in range(2):
        p.grad = torch.full_like(p, 0.5)
        optimiser.step()
        found.append(p.item())
    assert found == pytest.approx([0.89, 0.7811], abs=1e-7)
