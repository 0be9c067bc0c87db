# with debug/debug_lm


def draw(module, std=0.4):
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=std)
    return module


def test(program):
    check_attention(program)
    check_model(program)
    check_loss(program)
    check_training(program)


def check_attention(program):
    # equal scores: each position gives the mean of what it has seen
    v = torch.randn(2, 6, 12)
    zero = torch.zeros_like(v)
    running = v.cumsum(1) / torch.arange(1, 7)[:, None]
    assert torch.allclose(program.attend(zero, zero, v, 3), running, atol=1e-4)
    # two positions, scores known: the share of the second is sigmoid of the difference over the root of head_dim
    q, k = torch.randn(1, 2, 12), torch.randn(1, 2, 12)
    out = program.attend(q, k, torch.tensor([0.0, 1.0])[None, :, None].expand(1, 2, 12), 3)
    for head in range(3):
        part = slice(4 * head, 4 * head + 4)
        share = torch.sigmoid((q[0, 1, part] @ (k[0, 1, part] - k[0, 0, part])) / 2.0)
        assert torch.allclose(out[0, 1, part], share.expand(4), atol=1e-4)
        assert torch.allclose(out[0, 0, part], torch.zeros(4), atol=1e-4)


def check_model(program):
    block = program.Block(12, 3)
    assert sum(map(torch.numel, block.parameters())) == 12 * 144 + 48
    silent = draw(program.Block(12, 3), std=0.0)
    x = torch.randn(1, 5, 12)
    assert torch.allclose(silent(x), x, atol=1e-4)
    model = draw(program.MiniGPT(31, 12, 2, 3, 8))
    assert sum(map(torch.numel, model.parameters())) == 31 * 24 + 96 + 2 * (12 * 144 + 48) + 24
    ids = torch.randperm(30)[:8][None] + 1
    logits = model(ids)
    assert logits.shape == (1, 8, 31)
    for t in range(8):
        changed = ids.clone()
        changed[0, t] = ids[0, t] % 30 + 1
        moved = (model(changed) - logits).abs().amax(-1)[0]
        assert (moved[:t] < 1e-4).all(), f"token {t} reaches back"
        assert (moved[t:] > 1e-5).all(), f"token {t} is not seen"
    swapped = ids[:, [1, 0, 2, 3, 4, 5, 6, 7]]
    assert (model(swapped)[0, 7] - logits[0, 7]).abs().max() > 1e-4, "order does not matter"
    program.loss(model, ids).backward()
    assert all(p.grad is not None and p.grad.norm() > 0 for p in model.parameters()), "a part is idle"


def check_loss(program):
    # a model that knows the next token is sure to be right; one that says what it reads is wrong
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7], [3, 4, 5, 0, 0, 0, 0]])
    knows = program.loss(lambda x: 50.0 * F.one_hot((x + 1) % 9, 9), ids)
    echoes = program.loss(lambda x: 50.0 * F.one_hot(x, 9).float(), ids)
    assert knows.shape == () and knows < 1e-3 and abs(echoes.item() - 50) < 1e-2
    uniform = program.loss(lambda x: torch.zeros(*x.shape, 9), ids)
    assert abs(uniform.item() - torch.tensor(9.0).log().item()) < 1e-4
    # 8 targets, 2 of them the token 5, which is given e times the weight
    favour = program.loss(lambda x: F.one_hot(torch.full_like(x, 5), 9).float(), ids)
    total = torch.tensor(8 + torch.e).log().item()
    assert abs(favour.item() - (total - 2 / 8)) < 1e-4


def check_training(program):
    sentence = torch.tensor([[5, 3, 8, 8, 2, 9, 4, 0]])
    model = program.MiniGPT(11, 16, 2, 4, 8, dropout=0.5)
    held = [p.clone() for p in model.parameters()]
    losses = program.train(model, sentence, 6, 0.0)
    assert len(losses) == 6 and max(losses) - min(losses) < 1e-4, "losses with lr=0 differ"
    assert all(torch.equal(a, b) for a, b in zip(held, model.parameters()))
    assert model.training
    model = program.MiniGPT(11, 16, 2, 4, 8)
    grads = [
        [0.0 if p.grad is None else p.grad.norm().item() for p in model.parameters()]
        for steps in (1, 5)
        if program.train(model, sentence, steps, 0.0)
    ]
    assert all(abs(b - a) <= 0.01 * a + 1e-5 for a, b in zip(*grads)), "gradients add up"
    seen = []
    model.register_forward_hook(lambda m, args, out: seen.append(m.training and out.requires_grad))
    before = program.loss(model, sentence).item()
    losses = program.train(model, sentence, 40, 0.01)
    assert abs(losses[0] - before) < 1e-4
    assert losses[-1] < losses[0]
    assert sum(seen) >= 40, "steps are made in evaluation mode"
