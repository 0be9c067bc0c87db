# with debug/debug_decoding


def nucleus(logits, temperature, top_p):
    """The cumulative distribution to draw from, by a loop."""
    p = torch.softmax(logits.index_fill(0, torch.tensor(0), -torch.inf) / temperature, dim=-1)
    kept = torch.zeros_like(p)
    for token in p.argsort(descending=True):
        if kept.sum() < top_p:
            kept[token] = p[token]
    return kept.cumsum(0) / kept.sum()


def may_draw(logits, token, u, temperature, top_p):
    """Right programs round otherwise: a little more or less top_p, a little more or less u."""
    for p in (top_p - 1e-4, top_p, min(top_p + 1e-4, 1.0)):
        sums = nucleus(logits, temperature, p)
        if token and sums[token - 1] - 1e-4 <= u <= sums[token] + 1e-4:
            return True
    return False


def test(program):
    for temperature, top_p in [(1.0, 1.0), (1.8, 1.0), (1.0, 0.63), (1.8, 0.72), (0.6, 0.88)]:
        model = program.Model(10, 8)
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.7)
        prompt = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 2, 0, 0, 0, 0], [8, 8, 3, 0, 0, 0]])
        uniform = torch.rand(3, 7)
        out = program.generate(model, prompt, 7, uniform, temperature, top_p)
        for row, tokens in enumerate(out.tolist()):
            text = prompt[row][prompt[row] != 0].tolist()
            for token, u in zip(tokens, uniform[row].tolist()):
                if text[-1] == 1:
                    assert token == 0
                    continue
                logits = model(torch.tensor([text]))[0, -1].detach()
                assert may_draw(logits, token, u, temperature, top_p), (row, token)
                text.append(token)

    # attention by hand, for every cut of six tokens in three
    x = torch.randn(3, 6, 24)
    q, k, v = x.split(8, -1)
    angle = torch.arange(6.0)[:, None] / 10000 ** (torch.arange(4) / 4)

    def spin(t):
        a, b = t[..., 0::2], t[..., 1::2]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    scores = spin(q) @ spin(k).transpose(1, 2) / 8**0.5
    expected = scores.masked_fill(~torch.ones(6, 6).tril().bool(), -torch.inf).softmax(-1) @ v
    for first in range(1, 5):
        for second in range(first + 1, 6):
            cache = program.Cache(6)
            parts = x.split([first, second - first, 6 - second], 1)
            assert torch.allclose(torch.cat([program.attend(part, cache) for part in parts], 1), expected, atol=1e-4)
    cache = program.Cache(4)
    for t in range(4):
        keys, values = cache.append(k[:, t : t + 1], v[:, t : t + 1])
        assert torch.allclose(keys, k[:, : t + 1]) and torch.allclose(values, v[:, : t + 1]) and cache.length == t + 1
