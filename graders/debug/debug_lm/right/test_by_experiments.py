# with debug/debug_lm


def test(program):
    # equal scores: each position gives the mean of what it has seen
    v = torch.randn(2, 6, 12)
    running = v.cumsum(1) / torch.arange(1, 7)[:, None]
    assert torch.allclose(program.attend(torch.zeros_like(v), torch.zeros_like(v), v, 3), running, atol=1e-4)
    # two positions: the share of the second is sigmoid of the difference of scores
    q, k = torch.randn(2, 1, 2, 12)
    out = program.attend(q, k, torch.tensor([0.0, 1.0])[None, :, None].expand(1, 2, 12), 3)
    shares = torch.sigmoid((q[0, 1] * (k[0, 1] - k[0, 0])).view(3, 4).sum(-1) / 2.0).repeat_interleave(4)
    assert torch.allclose(out[0], torch.stack([torch.zeros(12), shares]), atol=1e-4)

    silent, x = program.Block(12, 3), torch.randn(1, 5, 12)
    assert sum(map(torch.numel, silent.parameters())) == 12 * 144 + 48
    model = program.MiniGPT(31, 12, 2, 3, 8)
    assert sum(map(torch.numel, model.parameters())) == 31 * 24 + 96 + 2 * (12 * 144 + 48) + 24
    for module, std in ((silent, 0.0), (model, 0.4)):
        for p in module.parameters():
            nn.init.normal_(p, std=std)
    assert torch.allclose(silent(x), x, atol=1e-4)
    ids = torch.randperm(30)[:8][None] + 1
    logits = model(ids)
    assert logits.shape == (1, 8, 31)
    for t in range(8):
        moved = (model(ids.index_fill(1, torch.tensor(t), ids[0, t] % 30 + 1)) - logits).abs().amax(-1)[0]
        assert (moved[:t] < 1e-4).all(), f"token {t} reaches back"
        assert (moved[t:] > 1e-5).all(), f"token {t} is not seen"
    assert (model(ids[:, [1, 0, *range(2, 8)]])[0, 7] - logits[0, 7]).abs().max() > 1e-4, "order does not matter"
    program.loss(model, ids).backward()
    assert all(p.grad is not None and p.grad.norm() > 0 for p in model.parameters()), "a part is idle"

    # a model that knows the next token is sure to be right; one that says what it reads is wrong
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7], [3, 4, 5, 0, 0, 0, 0]])
    assert program.loss(lambda x: 50.0 * F.one_hot((x + 1) % 9, 9), ids) < 1e-3
    assert abs(program.loss(lambda x: 50.0 * F.one_hot(x, 9).float(), ids).item() - 50) < 1e-2
    # 8 targets, 2 of them the token 5, which is given e times the weight
    favor = program.loss(lambda x: F.one_hot(torch.full_like(x, 5), 9).float(), ids)
    assert abs(favor.item() - (torch.tensor(8 + torch.e).log().item() - 2 / 8)) < 1e-4

    sentence = torch.tensor([[5, 3, 8, 8, 2, 9, 4, 0]])
    model = program.MiniGPT(11, 16, 2, 4, 8, dropout=0.5)
    losses = program.train(model, sentence, 6, 0.0)
    assert model.training and len(losses) == 6 and max(losses) - min(losses) < 1e-4, "losses with lr=0 differ"
    model = program.MiniGPT(11, 16, 2, 4, 8)
    once, often = (
        [0.0 if p.grad is None else p.grad.norm().item() for p in model.parameters()]
        for steps in (1, 5)
        if program.train(model, sentence, steps, 0.0)
    )
    assert all(abs(b - a) <= 0.01 * a + 1e-5 for a, b in zip(once, often)), "gradients add up"
    seen = []
    model.register_forward_hook(lambda m, args, out: seen.append(m.training and out.requires_grad))
    before = program.loss(model, sentence).item()
    losses = program.train(model, sentence, 20, 0.01)
    assert abs(losses[0] - before) < 1e-4 and min(losses) < losses[0]
    assert sum(seen) >= 20, "steps are made in evaluation mode"
