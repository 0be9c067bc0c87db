# with debug/debug_decoding


def nucleus(logits, temperature, top_p):
    """The cumulative distribution to draw from, by a loop."""
    logits = logits.clone()
    logits[0] = -torch.inf
    p = torch.softmax(logits / temperature, dim=-1)
    kept = torch.zeros_like(p)
    for token in p.argsort(descending=True):
        if kept.sum() < top_p:
            kept[token] = p[token]
    return kept.cumsum(0) / kept.sum()


def test(program):
    torch.manual_seed(torch.randint(0, 1000, ()).item())
    for temperature, top_p in [(1.0, 1.0), (1.8, 1.0), (1.0, 0.63), (1.8, 0.72), (0.6, 0.88)]:
        model = program.Model(10, 8)
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.7)
        prompt = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 2, 0, 0, 0, 0], [8, 8, 3, 0, 0, 0]])
        uniform = torch.rand(3, 7)
        out = program.generate(model, prompt, 7, uniform, temperature, top_p)
        assert out.shape == (3, 7)
        for row in range(3):
            text = prompt[row][prompt[row] != 0].tolist()
            over = False
            for step in range(7):
                token = out[row, step].item()
                if over:
                    assert token == 0
                    continue
                with torch.no_grad():
                    logits = model(torch.tensor([text]))[0, -1]
                u = uniform[row, step].item()
                # right programs round otherwise: a little more or less top_p, a little more or less u
                fits = False
                for p in (top_p - 1e-4, top_p, top_p + 1e-4):
                    sums = nucleus(logits, temperature, min(p, 1.0))
                    low = sums[token - 1] if token else 1.0
                    fits = fits or low - 1e-4 <= u <= sums[token] + 1e-4
                assert fits, (row, step, token)
                text.append(token)
                over = token == 1

    # the model's own attention, by hand, for every cut of six tokens in two or three
    x = torch.randn(3, 6, 24)
    q, k, v = x.split(8, -1)
    angle = torch.arange(6.0)[:, None] / 10000 ** (torch.arange(4) / 4)

    def spin(t):
        a, b = t[..., 0::2], t[..., 1::2]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    scores = spin(q) @ spin(k).transpose(1, 2) / 8**0.5
    expected = scores.masked_fill(~torch.ones(6, 6).tril().bool(), -torch.inf).softmax(-1) @ v
    for first in range(1, 6):
        for second in range(first, 6):
            cache = program.Cache(6)
            cuts = [c for c in (first, second - first, 6 - second) if c]
            got = torch.cat([program.attend(part, cache) for part in x.split(cuts, 1)], 1)
            assert torch.allclose(got, expected, atol=1e-4), cuts
            assert cache.length == 6
    cache = program.Cache(4)
    for t in range(4):
        keys, values = cache.append(k[:, t : t + 1], v[:, t : t + 1])
        assert torch.allclose(keys, k[:, : t + 1]) and torch.allclose(values, v[:, : t + 1])

    # a text that ends
    ends = torch.full((10, 10), -torch.inf)
    ends[torch.arange(10), (torch.arange(10) - 1).clamp(min=1)] = 0.0
    out = program.generate(lambda ids, cache: ends[ids], torch.tensor([[9, 4], [3, 0]]), 5, torch.rand(2, 5))
    assert out.tolist() == [[3, 2, 1, 0, 0], [2, 1, 0, 0, 0]], out
