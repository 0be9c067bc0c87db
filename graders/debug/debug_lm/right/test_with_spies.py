# with debug/debug_lm


class Spy(nn.Module):
    """A model of one table, which notes how it is called."""

    def __init__(self, vocab):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocab, vocab))
        self.calls = []

    def forward(self, ids):
        self.calls.append((self.training, torch.is_grad_enabled()))
        return self.table[ids]


def numbers(module):
    return sum(p.numel() for p in module.parameters())


def test(program):
    # train, with a model whose every gradient is known
    ids = torch.tensor([[1, 2, 3, 4, 5], [5, 3, 0, 0, 0]])
    spy = Spy(8)
    logp = spy.table.detach().log_softmax(-1)
    losses = program.train(spy, ids, 5, 0.0)
    right = -sum(logp[a, b] for a, b in [(1, 2), (2, 3), (3, 4), (4, 5), (5, 3)]) / 5
    assert len(losses) == 5 and max(abs(x - right.item()) for x in losses) < 1e-4, (losses, right)
    assert spy.training and spy.calls.count((True, True)) >= 5, spy.calls
    exact = torch.autograd.grad(program.loss(spy, ids), spy.table)[0]
    if spy.table.grad is not None and spy.table.grad.any():
        assert torch.allclose(spy.table.grad, exact, atol=1e-4), "gradients pile up"
    spy = Spy(8)
    falling = program.train(spy, ids, 20, 0.01)
    assert falling[-1] < falling[0] and falling[0] > program.loss(spy, ids).item()

    # attend, position by position
    q, k, v = torch.randn(3, 2, 8, 10).unbind()
    got = program.attend(q, k, v, 5)
    for s in (slice(i, i + 2) for i in range(0, 10, 2)):
        for t in range(8):
            w = ((q[:, t, s].unsqueeze(1) * k[:, : t + 1, s]).sum(-1) / 2**0.5).softmax(-1)
            assert torch.allclose(got[:, t, s], (w.unsqueeze(-1) * v[:, : t + 1, s]).sum(1), atol=1e-4)

    # a block with nothing in it
    block, x = program.Block(10, 5), torch.randn(2, 4, 10)
    assert numbers(block) == 12 * 100 + 40
    for p in block.parameters():
        nn.init.zeros_(p)
    assert torch.allclose(block(x), x, atol=1e-4)

    # the model reads what came before, in its order, and nothing else
    gpt, tokens = program.MiniGPT(13, 10, 3, 5, 8), torch.randint(1, 13, (3, 8))
    assert numbers(gpt) == 13 * 10 * 2 + 8 * 10 + 3 * 1240 + 20
    for p in gpt.parameters():
        nn.init.normal_(p, std=0.5)
    out = gpt(tokens)
    assert out.shape == (3, 8, 13)
    assert all(torch.allclose(gpt(tokens[:, :t]), out[:, :t], atol=1e-4) for t in range(1, 8))
    ones = gpt(torch.ones(1, 8, dtype=torch.long))[0]
    assert all((ones[t] - ones[t + 1]).abs().max() > 1e-3 for t in range(7))
    program.loss(gpt, tokens).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in gpt.parameters())
