# with debug/debug_decoding


class Spy:
    """A model that says nothing and remembers, by cache, the text that it was fed."""

    def __init__(self, logits):
        self.logits, self.caches, self.texts = logits, [], []

    def __call__(self, ids, cache):
        for number, known in enumerate(self.caches):
            if known is cache:
                break
        else:
            self.caches.append(cache)
            self.texts.append([[] for _ in ids])
            number = len(self.caches) - 1
        for text, line in zip(self.texts[number], ids.tolist()):
            text += line
        return self.logits.expand(*ids.shape, -1).clone()


def reference(x):
    x = x.double()
    q, k, v = x.chunk(3, -1)
    n, d = q.shape[1:]
    out = torch.zeros_like(v)
    turn = [[p * 10000.0 ** (-2 * i / d) for i in range(d // 2)] for p in range(n)]
    turn = torch.tensor(turn, dtype=torch.float64)
    q, k = (torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * torch.exp(1j * turn) for t in (q, k))
    for t in range(n):
        w = torch.stack([(q[:, t] * k[:, s].conj()).real.sum(-1) for s in range(t + 1)], -1) / d**0.5
        out[:, t] = (w.softmax(-1)[..., None] * v[:, : t + 1]).sum(1)
    return out


def test(program):
    # what is fed: the text of a row, and nothing else, whatever else is right
    logits = torch.tensor([3.0, -50.0, 0.0, 0.5, -0.5, 1.0])
    prompt = torch.tensor([[2, 3, 4, 5], [5, 2, 0, 0], [4, 0, 0, 0]])
    uniform = torch.rand(3, 5) * 0.9 + 0.05
    spy = Spy(logits)
    out = program.generate(spy, prompt, 5, uniform)
    cdf = logits[1:].softmax(0).cumsum(0)
    for row in range(3):
        for step in range(5):
            token, u = out[row, step].item(), uniform[row, step]
            assert 1 < token < 6 and (cdf[token - 1] > u - 1e-4) and (cdf[token - 2] < u + 1e-4)
        whole = prompt[row][prompt[row] > 0].tolist() + out[row].tolist()
        fed = [text for texts in spy.texts for text in texts]
        assert any(len(text) >= len(whole) - 1 and text == whole[: len(text)] for text in fed), (whole, fed)

    # filters: the share of each id among evenly spaced numbers
    for temperature, top_p, kept in [(1.0, 0.55, 2), (1.0, 0.3, 1), (2.0, 0.8, 4), (0.5, 0.6, 1), (2.5, 0.65, 3)]:
        p = (torch.tensor([0.4, 0.24, 0.16, 0.12, 0.08]) ** (1 / temperature))[:kept]
        if temperature == 0.5:
            assert kept == 1
        wanted = 300 * p / p.sum()
        logits = torch.tensor([0.9, 0.08, 0.4, 0.12, 0.24, 0.16]).log()
        ids = program.generate(
            Spy(logits), torch.full((300, 1), 4), 1, ((torch.arange(300) + 0.5) / 300)[:, None], temperature, top_p
        )
        counts = [(ids == each).sum().item() for each in (2, 4, 5, 3, 1)]
        padded = wanted.tolist() + [0.0] * (5 - kept)
        assert all(abs(a - b) <= 1.01 for a, b in zip(counts, padded)), (temperature, top_p, counts, padded)

    # the end
    chain = torch.full((5, 5), -torch.inf)
    chain[[0, 1, 2, 3, 4], [2, 2, 1, 2, 3]] = 0.0
    out = program.generate(lambda ids, cache: chain[ids], torch.tensor([[4, 0], [3, 4], [2, 3]]), 4, torch.rand(3, 4))
    assert out.tolist() == [[3, 2, 1, 0], [3, 2, 1, 0], [2, 1, 0, 0]]
    out = program.generate(lambda ids, cache: chain[ids], torch.tensor([[4]]), 2, torch.rand(1, 2))
    assert out.tolist() == [[3, 2]]

    # attention and what it rests on
    x = torch.randn(2, 9, 12)
    for cut in ([9], [3, 1, 1, 4], [1, 5, 1, 2]):
        cache = program.Cache(9)
        out = torch.cat([program.attend(part, cache) for part in x.split(cut, 1)], 1)
        assert torch.allclose(out.double(), reference(x), atol=1e-4), cut
    k, v = torch.randn(2, 1, 5, 3)
    cache = program.Cache(5)
    cache.append(k[:, :3], v[:, :3])
    keys, values = cache.append(k[:, 3:], v[:, 3:])
    assert torch.allclose(keys, k) and torch.allclose(values, v) and cache.length == 5
    model = program.Model(7, 4)
    assert sum(p.numel() for p in model.parameters()) == 3 * 16 + 2 * 28
    ids = torch.randint(0, 7, (2, 6))
    cache = program.Cache(6)
    parts = torch.cat([model(each, cache) for each in ids.split([2, 1, 3], 1)], 1)
    assert torch.allclose(parts, model(ids), atol=1e-4)
