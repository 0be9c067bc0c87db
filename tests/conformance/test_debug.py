"""The mended trainer against a loop of PyTorch's own parts, one batch for each update."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import LinearLR, SequentialLR

from tests.conformance.agreement import solution


def test_a_run_is_that_of_torchs_optimizer_schedulers_and_clipping() -> None:
    ours = solution("debug_trainer")
    torch.manual_seed(1)
    model = ours.Model(17, 8).double()
    twin = copy.deepcopy(model)
    trainer = ours.Trainer(model, 0.05, 3, 10, max_norm=0.4, weight_decay=0.2)
    matrices, vectors = ([p for p in twin.parameters() if (p.dim() > 1) is wanted] for wanted in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.2}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.05, betas=(0.9, 0.95), eps=1e-5)
    warmup = LinearLR(optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=2)
    decay = LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=7)
    schedule = SequentialLR(optimizer, [warmup, decay], milestones=[3])
    for number in range(10):
        ids = torch.randint(1, 17, (6, 9))
        for row in range(1, 6):
            ids[row, 9 - row :] = 0
        assert optimizer.param_groups[0]["lr"] == pytest.approx(ours.rate(number, 0.05, 3, 10), rel=1e-12)
        if number == 5:
            state, fresh = trainer.save(), ours.Model(17, 8).double()
            trainer.update([ids])
            model, trainer = fresh, ours.Trainer(fresh, 0.05, 3, 10, max_norm=0.4, weight_decay=0.2)
            trainer.load(state)
        optimizer.zero_grad()
        loss = F.cross_entropy(twin(ids[:, :-1]).mT, ids[:, 1:], ignore_index=0)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.4)
        optimizer.step()
        schedule.step()
        assert trainer.update([ids[:1], ids[1:4, :8], ids[4:]]) == pytest.approx(loss.item(), rel=1e-12)
        for got, expected in zip(model.parameters(), twin.parameters(), strict=True):
            assert (got - expected).abs().max() <= 1e-12
    assert ours.evaluate(model, [ids[:2], ids[2:]]) == pytest.approx(
        F.cross_entropy(twin(ids[:, :-1]).mT, ids[:, 1:], ignore_index=0).item(), rel=1e-12
    )
