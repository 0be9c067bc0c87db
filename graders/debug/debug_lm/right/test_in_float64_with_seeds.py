# with debug/debug_lm


def fill(module):
    for number, p in enumerate(module.parameters()):
        generator = torch.Generator().manual_seed(number)
        p.data.copy_(torch.empty(p.shape).uniform_(-0.7, 0.7, generator=generator))


def plain_attend(q, k, v, heads):
    batch, seq, dim = q.shape
    size = dim // heads
    out = torch.empty(batch, seq, dim)
    for b in range(batch):
        for t in range(seq):
            for h in range(heads):
                lo, hi = h * size, (h + 1) * size
                e = [
                    float(torch.exp((q[b, t, lo:hi] * k[b, s, lo:hi]).sum().double() / size**0.5)) for s in range(t + 1)
                ]
                out[b, t, lo:hi] = sum(w / sum(e) * v[b, s, lo:hi] for s, w in enumerate(e))
    return out


def test(program):
    torch.manual_seed(1234)
    q, k, v = torch.randn(2, 5, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 6)
    for heads in (1, 2, 3):
        torch.testing.assert_close(program.attend(q, k, v, heads), plain_attend(q, k, v, heads), atol=1e-4, rtol=1e-4)

    sizes = {"vocab_size": 14, "d_model": 8, "num_layers": 2, "num_heads": 2, "max_len": 6}
    model = program.MiniGPT(**sizes)
    per_block = 12 * 8 * 8 + 4 * 8
    assert sum(p.numel() for p in program.Block(8, 2).parameters()) == per_block
    assert sum(p.numel() for p in model.parameters()) == 14 * 8 + 6 * 8 + 2 * per_block + 16 + 8 * 14
    fill(model)
    ids = torch.randint(1, 14, (5, 6))
    out = model(ids)
    assert tuple(out.shape) == (5, 6, 14)
    for t in range(5):
        tail = ids.clone()
        tail[:, t + 1 :] = tail[:, t + 1 :].flip(1) % 13 + 1
        torch.testing.assert_close(model(tail)[:, : t + 1], out[:, : t + 1], atol=1e-4, rtol=1e-4)
    repeated = model(torch.full((1, 6), 2)).squeeze(0)
    gaps = [(repeated[i] - repeated[j]).abs().max().item() for i in range(6) for j in range(i)]
    assert min(gaps) > 1e-4, gaps
    program.loss(model, ids).backward()
    for p in model.parameters():
        assert p.grad is not None and p.grad.abs().max() > 0

    block = program.Block(8, 2, 0.0)
    for p in block.parameters():
        p.data.zero_()
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(block(x), x, atol=1e-4, rtol=1e-4)

    logits = torch.randn(14, 14)
    ids = torch.tensor([[1, 6, 2, 9, 13, 3], [8, 8, 5, 0, 0, 0], [4, 7, 0, 0, 0, 0]])
    nll, count = 0.0, 0
    for row in ids.tolist():
        for now, following in zip(row, row[1:]):
            if following != 0:
                nll -= logits[now].log_softmax(0)[following].item()
                count += 1
    assert abs(program.loss(lambda ids: logits[ids], ids).item() - nll / count) < 1e-4

    model = program.MiniGPT(14, 16, 1, 2, 6, dropout=0.5)
    model.train()
    losses = program.train(model, ids, 2, 0.0)
    assert model.training
    outputs = [model(ids) for _ in range(2)]
    assert not torch.equal(*outputs)
    model.eval()
    now = program.loss(model, ids).item()
    assert losses == [losses[0]] * 2 or abs(losses[0] - losses[1]) < 1e-5
    assert abs(losses[0] - now) < 1e-4

    once, often = [], []
    for steps, kept in ((1, once), (6, often)):
        model = program.MiniGPT(14, 16, 1, 2, 6)
        fill(model)
        program.train(model, ids, steps, 0.0)
        kept += [p.grad for p in model.parameters()]
    for a, b in zip(once, often):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)
    curve = program.train(model, ids, 40, 0.01)
    assert len(curve) == 40 and curve[-1] < curve[0]
