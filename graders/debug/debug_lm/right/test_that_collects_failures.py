# with debug/debug_lm


def reference_attend(q, k, v, heads):
    b, n, d = q.shape
    out = torch.zeros(b, n, d, dtype=torch.float64)
    size = d // heads
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        scores = torch.einsum("bid,bjd->bij", q[..., part].double(), k[..., part].double()) / size**0.5
        scores += torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)
        out[..., part] = scores.softmax(-1) @ v[..., part].double()
    return out.float()


def close(a, b):
    return a.shape == b.shape and (a - b).abs().max().item() < 1e-4 * (1 + b.abs().max().item())


def checks(program):
    for heads, dim, seq in ((1, 6, 5), (4, 8, 9), (3, 15, 2)):
        q, k, v = (2 * torch.randn(2, seq, dim) for _ in "qkv")
        yield "attend", close(program.attend(q, k, v, heads), reference_attend(q, k, v, heads))

    for dim, heads in ((8, 2), (12, 3)):
        block = program.Block(dim, heads)
        yield "size of the block", sum(p.numel() for p in block.parameters()) == 12 * dim**2 + 4 * dim
        x = torch.randn(3, 4, dim)
        y = block(x)
        y.square().mean().backward()
        yield "shape", y.shape == x.shape
        yield "all in use", all(p.grad is not None and p.grad.count_nonzero() for p in block.parameters())
        for p in block.parameters():
            p.data.mul_(0.0)
        yield "residual", close(block(x), x)

    vocab, dim, layers, length = 29, 8, 2, 10
    model = program.MiniGPT(vocab, dim, layers, 2, length)
    for p in model.parameters():
        p.data = torch.randn_like(p) * 0.5
    size = sum(p.numel() for p in model.parameters())
    yield "size of the model", size == 2 * vocab * dim + length * dim + layers * (12 * dim**2 + 4 * dim) + 2 * dim
    ids = torch.randint(1, vocab, (4, length))
    logits = model(ids)
    yield "logits", logits.shape == (4, length, vocab)
    for cut in (1, 3, 9):
        other = ids.clone()
        other[:, cut:] = torch.randint(1, vocab, (4, length - cut))
        yield "causal", close(model(other)[:, :cut], logits[:, :cut])
    steady = model(torch.full((1, length), 3))[0]
    distances = torch.cdist(steady, steady)
    yield "positions", bool((distances[~torch.eye(length, dtype=torch.bool)] > 1e-3).all())

    def echo(ids):
        return 5.0 * F.one_hot((ids + 1) % vocab, vocab).float()

    counting = torch.arange(1, 9)[None]
    right = F.cross_entropy(echo(counting)[0, 0][None], torch.tensor([2]))
    wrong = F.cross_entropy(echo(counting)[0, 0][None], torch.tensor([9]))
    yield "next token", close(program.loss(echo, counting), right)
    padded = torch.tensor([[1, 2, 3, 4], [5, 9, 0, 0]])
    yield "padding", close(program.loss(echo, padded), (3 * right + wrong) / 4)

    model = program.MiniGPT(vocab, 16, 2, 2, length, dropout=0.2)
    model.eval()
    rest = program.loss(model, padded).item()
    losses = program.train(model, padded, 2, 0.0)
    yield "curve", len(losses) == 2 and all(abs(each - rest) < 1e-4 for each in losses)
    yield "mode", model.training
    state = [p.detach().clone() for p in model.parameters()]
    after = []
    for _ in range(2):
        for p, old in zip(model.parameters(), state):
            p.data = old.clone()
            p.grad = None
        program.train(model, padded, 1, 0.01)
        after.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    yield "dropout in steps", not torch.equal(*after)

    model = program.MiniGPT(vocab, 16, 1, 2, length)
    program.loss(model, padded).backward()
    yield "all of the model in use", all(p.grad is not None and p.grad.count_nonzero() for p in model.parameters())
    wanted = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    program.train(model, padded, 4, 0.0)
    for p, g in zip(model.parameters(), wanted):
        yield "zero_grad", p.grad is None or p.grad.abs().sum() == 0 or close(p.grad, g)
    losses = program.train(model, padded, 40, 0.01)
    yield "it learns", losses[-1] < losses[0]


def test(program):
    failed = [name for name, holds in checks(program) if not holds]
    assert not failed, failed
