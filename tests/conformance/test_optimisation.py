"""The optimisers against PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.utils.checkpoint

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


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_scaler_is_torchs(seed: int) -> None:
    """Bit for bit: AdamW, clipping, one step of five with inf, and a scale that hovers at the limit."""
    overflows = torch.rand(25, generator=torch.Generator().manual_seed(seed)) < 0.2
    made = []
    for kind in (lambda **more: torch.amp.GradScaler("cpu", **more), solution("mixed_precision").LossScaler):
        params = [torch.nn.Parameter(normal(4, 3, seed=number).float()) for number in (1, 2, 3)]
        optimizer = torch.optim.AdamW([{"params": params[:2]}, {"params": params[2:], "lr": 0.05}], lr=0.02)
        scaler, scales = kind(init_scale=2.0**14, growth_interval=3), []
        for step, bad in enumerate(overflows.tolist()):
            loss = sum((p.half().float() * normal(4, 3, seed=10 * step + n)).sum() for n, p in enumerate(params))
            loss = loss + (params[step % 3] * torch.inf).sum() if bad else loss
            if step % 2:
                solution("mixed_precision").train_step(loss, optimizer, scaler, 1.0)
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            scales.append(scaler.get_scale())
        made.append((torch.cat([p.detach() for p in params]), scales))
    assert torch.equal(made[0][0], made[1][0])
    assert made[0][1] == made[1][1]
    assert len({*made[0][1]}) > 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_torchs(reentrant: bool) -> None:
    """Bit for bit: a dropout, a block within a block, numbers drawn between forward and backward."""
    torchs = partial(torch.utils.checkpoint.checkpoint, use_reentrant=reentrant)
    ours, theirs = (checkpointed_twice(each) for each in (solution("checkpointing").checkpoint, torchs))
    assert all(map(torch.equal, ours, theirs))


def checkpointed_twice(checkpoint: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
    """A result, all gradients and random numbers."""
    torch.manual_seed(1)
    block = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 4))
    x = normal(3, 4).float().requires_grad_()
    y = checkpoint(lambda x, k: block(checkpoint(block, x)) * k, x * 1, 0.5)
    drawn = torch.rand(2)
    (checkpoint(block, y) * y).sum().backward()
    return [y.detach(), x.grad, drawn, torch.rand(2), *(p.grad for p in block.parameters())]
