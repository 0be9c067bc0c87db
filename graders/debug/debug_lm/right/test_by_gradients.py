# with debug/debug_lm


def reach(function, x):
    """Which inputs each output depends on, (out, in), by the gradient."""
    x = x.detach().requires_grad_()
    out = function(x)
    rows = []
    for t in range(out.shape[1]):
        (g,) = torch.autograd.grad((out[:, t] * torch.randn_like(out[:, t])).sum(), x, retain_graph=True)
        rows.append(g.abs().sum((0, 2)) > 1e-5)
    return torch.stack(rows)


def idle(module):
    return [p for p in module.parameters() if p.grad is None or p.grad.abs().max() == 0]


def test(program):
    lower = torch.ones(7, 7).tril().bool()
    q, k, v = (torch.randn(1, 7, 16) for _ in range(3))
    own = F.scaled_dot_product_attention(*(t.unflatten(-1, (4, 4)).transpose(1, 2) for t in (q, k, v)), is_causal=True)
    assert torch.allclose(program.attend(q, k, v, 4), own.transpose(1, 2).flatten(2), atol=1e-4)

    block = program.Block(16, 4)
    with torch.no_grad():
        for p in block.parameters():
            p.copy_(torch.randn_like(p) / 3)
    assert (reach(block, q) == lower).all()
    block(q).pow(2).sum().backward()
    assert not idle(block) and sum(p.numel() for p in block.parameters()) == 12 * 256 + 64
    with torch.no_grad():
        for p in block.parameters():
            p.zero_()
    jacobian = torch.autograd.functional.jacobian(lambda x: block(x).flatten(), q).reshape(7 * 16, 7 * 16)
    assert torch.allclose(jacobian, torch.eye(7 * 16), atol=1e-4)

    model = program.MiniGPT(19, 16, 2, 4, 7)
    assert sum(p.numel() for p in model.parameters()) == 2 * 19 * 16 + 7 * 16 + 2 * (12 * 256 + 64) + 32
    model(torch.randint(1, 19, (2, 7))).pow(2).sum().backward()
    assert all(p.requires_grad for p in model.parameters()) and not idle(model)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.4)
        same = model(torch.full((1, 7), 5))[0]
    assert same.shape == (7, 19) and not any(torch.allclose(a, b, atol=1e-4) for a, b in zip(same, same[1:]))

    table = torch.randn(19, 19, requires_grad=True)
    ids = torch.tensor([[4, 9, 9, 2], [7, 3, 0, 0]])
    (got,) = torch.autograd.grad(program.loss(lambda x: table[x], ids), table)
    wanted = torch.zeros(19, 19)
    for a, b in ((4, 9), (9, 9), (9, 2), (7, 3)):
        wanted[a] += (table[a].softmax(0) - F.one_hot(torch.tensor(b), 19)) / 4
    assert torch.allclose(got, wanted, atol=1e-4)

    model = program.MiniGPT(19, 16, 1, 4, 7, 0.3).eval()
    start = program.loss(model, ids).item()
    assert all(abs(each - start) < 1e-4 for each in program.train(model, ids, 4, 0.0)) and model.training
    plain = program.MiniGPT(19, 16, 1, 4, 7)
    program.train(plain, ids, 4, 0.0)
    right = torch.autograd.grad(program.loss(plain, ids), list(plain.parameters()))
    assert all(p.grad is None or p.grad.norm() < 1.5 * g.norm() + 1e-5 for p, g in zip(plain.parameters(), right))
    curve = program.train(plain, ids, 20, 0.01)
    assert min(curve) < curve[0]
