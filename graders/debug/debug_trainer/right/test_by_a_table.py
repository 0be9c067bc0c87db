# with debug/debug_trainer

ONE, TWO, THREE = map(torch.tensor, ([[1, 2, 3, 4, 6, 6]], [[5, 1], [2, 2]], [[3, 4, 0], [6, 5, 2]]))


class Table(nn.Module):
    """Logits that are looked up, and a scale for each: one matrix, one vector."""

    def __init__(self, table, scale):
        super().__init__()
        self.table, self.scale = nn.Parameter(table.clone()), nn.Parameter(scale.clone())
        self.drop = nn.Dropout(0.0)

    def forward(self, ids):
        return self.drop(self.table[ids] * self.scale)


def pairs(batches):
    return [(a, b) for ids in batches for row in ids.tolist() for a, b in zip(row, row[1:]) if b]


def run(table, scale, work, lr, warmup, total, clip, decay):
    """AdamW by hand, from gradients by hand: yields loss, table and scale."""
    values, m, v = [table.double(), scale.double()], [0, 0], [0, 0]
    for t, found in enumerate(map(pairs, work)):
        loss, grads = 0.0, [torch.zeros_like(value) for value in values]
        for a, b in found:
            p = (values[0][a] * values[1]).softmax(0)
            loss -= p[b].log().item() / len(found)
            p[b] -= 1
            grads[0][a] += p * values[1] / len(found)
            grads[1] += p * values[0][a] / len(found)
        norm = sum(g.pow(2).sum() for g in grads).item() ** 0.5
        step = lr * min((t + 1) / warmup, (total - t) / (total - warmup))
        values[0] = values[0] * (1 - step * decay)
        for i, g in enumerate(grads):
            g *= min(1.0, clip / norm)
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.95 * v[i] + 0.05 * g * g
            values[i] = values[i] - step * m[i] / (1 - 0.9 ** (t + 1)) / ((v[i] / (1 - 0.95 ** (t + 1))) ** 0.5 + 1e-5)
        yield loss, *values


def test(program):
    table, scale = torch.randn(7, 7), torch.randn(7)
    work = [[ONE, TWO], [THREE], [TWO, THREE, ONE], [ONE], [TWO, TWO, THREE]]
    for clip, decay in ((0.15, 0.4), (9.0, 0.0)):
        args = (0.04, 2, 6, clip, decay)
        model = Table(table, scale)
        trainer = program.Trainer(model, *args)
        for t, (loss, right, right_scale) in enumerate(run(table, scale, work, *args)):
            assert abs(trainer.update(work[t]) - loss) < 1e-3, f"loss of update {t}"
            assert torch.allclose(model.table.double(), right, atol=5e-4), f"table after update {t}"
            assert torch.allclose(model.scale.double(), right_scale, atol=5e-4), f"scale after update {t}"
            snapshot = trainer.save() if t == 1 else snapshot if t else None
        for _ in range(2):
            model = Table(torch.zeros(7, 7), torch.zeros(7))
            trainer = program.Trainer(model, *args)
            trainer.load(snapshot)
            for t in (2, 3, 4):
                trainer.update(work[t])
            assert torch.allclose(model.table.double(), right, atol=5e-4), "another end after a stop"
        found = [-(model.table[a] * model.scale).log_softmax(0)[b].item() for a, b in pairs([ONE, THREE])]
        model.drop.p = 0.5
        assert abs(program.evaluate(model, [ONE, THREE]) - sum(found) / 8) < 1e-3
    assert abs(trainer.update([ONE, THREE]) - sum(found) / 8) > 1e-4, "updated without dropout"
    total, count = program.loss_sum(lambda ids: table[ids], THREE)
    assert float(count) == 3
    assert abs(total.item() + sum(table[a].log_softmax(0)[b].item() for a, b in pairs([THREE]))) < 1e-3
    assert [round(float(program.rate(s, 12.0, 3, 6)), 3) for s in range(6)] == [4, 8, 12, 12, 8, 4]
