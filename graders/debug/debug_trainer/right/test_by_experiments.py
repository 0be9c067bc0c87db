# with debug/debug_trainer


def weights(m):
    return nn.utils.parameters_to_vector(m.parameters()).detach().clone()


def test(program):
    def make(p=0.0):
        m = program.Model(15, 7, p)
        nn.utils.vector_to_parameters(torch.randn(weights(m).numel()), m.parameters())
        return m

    def train(start, work, *args):
        m = copy.deepcopy(start)
        return list(map(program.Trainer(m, *args).update, work)), weights(m)

    start, rows = make(), [torch.randint(1, 15, (1, n)) for n in (9, 3, 2, 6)]
    together = [nn.utils.rnn.pad_sequence([r[0] for r in rows], batch_first=True)]

    cuts = [[rows, together, rows[::-1], rows], [together] * 4]
    (a, wa), (b, wb) = (train(start, work, 0.05, 2, 9, 0.2) for work in cuts)
    assert max(abs(x - y) for x, y in zip(a, b)) < 1e-3 and (wa - wb).abs().max() < 1e-3

    # the first update
    twin, before = copy.deepcopy(start), weights(start)
    loss = sum(F.cross_entropy(twin(r[:, :-1])[0], r[0, 1:], reduction="sum") for r in rows) / 16
    loss.backward()
    g = torch.cat([p.grad.flatten() for p in twin.parameters()])
    two = torch.cat([torch.full((p.numel(),), float(p.dim() > 1)) for p in twin.parameters()])
    seen = [a[0], *(program.evaluate(copy.deepcopy(start), batches) for batches in (rows, together))]
    assert all(abs(each - loss.item()) < 1e-3 for each in seen)
    for norm, lr, decay in ((1e-3, 0.1, 0.0), (1e-4, 0.2, 0.5), (1e9, 0.1, 0.3)):
        clipped = g * min(1.0, norm / g.norm().item())
        want = before * (1 - lr / 4 * decay * two) - lr / 4 * clipped / (clipped.abs() + 1e-5)
        assert (train(start, [rows], lr, 4, 9, norm, decay)[1] - want).abs().max() < 1e-3, (norm, lr, decay)

    # the rate: with a gradient of nothing beside eps, decay alone is left
    kept = 1.0
    for step, part in enumerate([1 / 3, 2 / 3, 1, 1, 0.8, 0.6, 0.4, 0.2]):
        assert abs(program.rate(step, 0.3, 3, 8) - 0.3 * part) < 1e-4
        kept *= 1 - 0.3 * part
        got = train(start, [rows] * (step + 1), 0.3, 3, 8, 1e-9, 1.0)[1]
        assert (got - before * torch.where(two > 0, kept, 1.0)).abs().max() < 2e-3, step

    # stop, and go on, three times
    m, ends = copy.deepcopy(start), []
    t = program.Trainer(m, 0.05, 4, 12, max_norm=0.5)
    t.update(rows), t.update([rows[1]])
    save = t.save()
    for _ in range(3):
        ends.append(torch.cat([torch.tensor([t.update([rows[2], rows[0]]), t.update([rows[3]])]), weights(m)]))
        m = make()
        t = program.Trainer(m, 0.05, 4, 12, max_norm=0.5)
        t.load(save)
    assert all((end - ends[0]).abs().max() < 1e-3 for end in ends)

    m = make(0.4)
    t = program.Trainer(m, 0.0, 1, 9)
    still, noisy = zip(*((program.evaluate(m, rows), t.update(rows)) for _ in range(3)))
    assert max(still) - min(still) < 1e-4 < max(noisy) - min(noisy)

    # equal logits: ln 15 for each of four targets
    total, count = program.loss_sum(lambda ids: torch.zeros(*ids.shape, 15), torch.tensor([[4, 7, 7, 1], [9, 2, 0, 0]]))
    assert count == 4 and abs(total.item() - 4 * 2.70805) < 1e-3
