# with debug/debug_decoding


class Spy:
    """A model that says nothing and remembers, by cache, the text that it was fed."""

    def __init__(self, logits):
        self.logits, self.fed = logits, []

    def __call__(self, ids, cache):
        texts = next((texts for known, texts in self.fed if known is cache), None)
        if texts is None:
            texts = [[] for _ in ids]
            self.fed.append((cache, texts))
        for text, line in zip(texts, ids.tolist()):
            text += line
        return self.logits.expand(*ids.shape, -1).clone()


def test(program):
    # what is fed: the text of a row, and nothing else, whatever else is right
    prompt = torch.tensor([[2, 3, 4, 5], [5, 2, 0, 0], [4, 0, 0, 0]])
    uniform = torch.rand(3, 5) * 0.9 + 0.05
    spy = Spy(torch.tensor([3.0, -50.0, 0.0, 0.5, -0.5, 1.0]))
    out = program.generate(spy, prompt, 5, uniform)
    cdf = spy.logits[1:].softmax(0).cumsum(0)
    assert ((cdf[out - 1] > uniform - 1e-4) & (cdf[out - 2] < uniform + 1e-4)).all()
    for row in range(3):
        whole = prompt[row][prompt[row] > 0].tolist() + out[row].tolist()
        fed = [text for _, texts in spy.fed for text in texts]
        assert any(len(text) >= len(whole) - 1 and text == whole[: len(text)] for text in fed), (whole, fed)

    # filters: the share of each id among evenly spaced numbers
    for temperature, top_p, kept in [(1.0, 0.55, 2), (1.0, 0.3, 1), (2.0, 0.8, 4), (0.5, 0.6, 1), (2.5, 0.65, 3)]:
        p = (torch.tensor([0.4, 0.24, 0.16, 0.12, 0.08]) ** (1 / temperature))[:kept]
        spy = Spy(torch.tensor([0.9, 0.08, 0.4, 0.12, 0.24, 0.16]).log())
        evenly = ((torch.arange(300) + 0.5) / 300)[:, None]
        ids = program.generate(spy, torch.full((300, 1), 4), 1, evenly, temperature, top_p)
        counts = [(ids == each).sum().item() for each in (2, 4, 5, 3, 1)]
        wanted = (300 * p / p.sum()).tolist() + [0.0] * (5 - kept)
        assert all(abs(a - b) <= 1.01 for a, b in zip(counts, wanted)), (temperature, top_p, counts, wanted)

    # the end
    chain = torch.full((5, 5), -torch.inf)
    chain[[0, 1, 2, 3, 4], [2, 2, 1, 2, 3]] = 0.0
    out = program.generate(lambda ids, cache: chain[ids], torch.tensor([[4, 0], [3, 4], [2, 3]]), 4, torch.rand(3, 4))
    assert out.tolist() == [[3, 2, 1, 0], [3, 2, 1, 0], [2, 1, 0, 0]]

    # attention, whose angles depend on distances alone
    x = torch.randn(2, 9, 12)
    q, k, v = (torch.view_as_complex(t.double().reshape(2, 9, 2, 2)) for t in x.chunk(3, -1))
    away = (torch.arange(9)[:, None] - torch.arange(9))[..., None] * torch.tensor([1.0, 0.01]).double()
    scores = torch.einsum("bqi,bki,qki->bqk", q, k.conj(), torch.polar(torch.ones_like(away), away)).real / 2
    weights = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf).softmax(-1)
    for cut in ([9], [3, 1, 1, 4], [1, 5, 1, 2]):
        cache = program.Cache(9)
        out = torch.cat([program.attend(part, cache) for part in x.split(cut, dim=1)], 1)
        assert cache.length == 9 and torch.allclose(out.double(), weights @ x[..., 8:].double(), atol=1e-4), cut
