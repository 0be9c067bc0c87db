# with debug/debug_decoding


def close(a, b):
    return torch.allclose(a.double(), b.double(), atol=1e-4)


def check_attend(program):
    # queries and keys of zero: every token gets the mean of the values so far
    v = torch.randn(2, 5, 4)
    mean = v.cumsum(1) / torch.arange(1, 6)[:, None]
    for cut in ([5], [1] * 5, [2, 2, 1], [3, 1, 1]):
        cache = program.Cache(8)
        x = torch.cat([torch.zeros(2, 5, 8), v], -1)
        out = [program.attend(part, cache) for part in x.split(cut, 1)]
        assert close(torch.cat(out, 1), mean), cut
        assert cache.length == 5
    # the same query and key everywhere: a score depends on the distance alone, by cosines
    q, k = torch.randn(2, 4).double()
    values = torch.eye(6)[:, :4] + torch.eye(6)[:, 2:6]
    frequencies = torch.tensor([1.0, 0.01], dtype=torch.float64)
    a, b = torch.view_as_complex(q.view(2, 2)), torch.view_as_complex(k.view(2, 2))
    for cut in ([6], [4, 1, 1], [2, 3, 1]):
        cache = program.Cache(6)
        x = torch.cat([q.float().expand(6, 4), k.float().expand(6, 4), values], -1)[None]
        out = torch.cat([program.attend(part, cache) for part in x.split(cut, 1)], 1)[0]
        for t in range(6):
            away = t - torch.arange(t + 1)
            turn = torch.polar(torch.ones(t + 1, 2).double(), away[:, None] * frequencies)
            weights = ((a * b.conj() * turn).real.sum(-1) / 2).softmax(-1)
            assert close(out[t], weights @ values[: t + 1].double()), (cut, t)


def check_cache(program):
    cache = program.Cache(10)
    assert cache.length == 0
    k, v = torch.randn(3, 6, 2), torch.randn(3, 6, 2)
    cache.append(k[:, :4], v[:, :4])
    assert cache.length == 4
    cache.append(k[:, 4:5], v[:, 4:5])
    keys, values = cache.append(k[:, 5:], v[:, 5:])
    assert cache.length == 6 and close(keys, k) and close(values, v)


def shares(program, weights, count=400, **settings):
    logits = torch.tensor(weights).log()
    uniform = (torch.arange(count).unsqueeze(1) + 0.5) / count
    prompt = torch.full((count, 1), 3)
    ids = program.generate(lambda ids, cache: logits.expand(*ids.shape, -1).clone(), prompt, 1, uniform, **settings)
    assert ids.shape == (count, 1)
    assert ids.flatten().tolist() == sorted(ids.flatten().tolist())
    return [(ids == each).sum().item() for each in range(len(weights))]


def near(found, wanted):
    assert all(abs(a - b) <= 1 for a, b in zip(found, wanted)), (found, wanted)


def check_draws(program):
    near(shares(program, [9.0, 0.1, 0.2, 0.3, 0.4]), [0, 40, 80, 120, 160])
    near(shares(program, [0.0, 0.1, 0.2, 0.3, 0.4], top_p=0.5), [0, 0, 0, 171.4, 228.6])
    near(shares(program, [1e-9, 0.1, 0.2, 0.3, 0.4], top_p=0.35), [0, 0, 0, 0, 400])
    near(shares(program, [0.0, 0.01, 0.16, 0.64, 0.19], temperature=0.5), [0, 0.085, 21.75, 348, 30.67])
    # heated: 0.1, 0.2, 0.3 and 0.4; cold, the two largest would be enough for 0.75
    near(shares(program, [0.0, 0.01, 0.04, 0.09, 0.16], temperature=2.0, top_p=0.75), [0, 0, 88.9, 133.3, 177.8])


def check_texts(program):
    path = torch.full((8, 8), -torch.inf)
    for now, then in {0: 7, 1: 6, 2: 3, 3: 4, 4: 5, 5: 1, 6: 2, 7: 7}.items():
        path[now, then] = 0.0
    half = torch.full((4, 6), 0.5)
    texts = program.generate(
        lambda ids, _: path[ids], torch.tensor([[2, 3, 0], [6, 0, 0], [4, 5, 6], [5, 0, 0]]), 6, half
    )
    wanted = [[4, 5, 1, 0, 0, 0], [2, 3, 4, 5, 1, 0], [2, 3, 4, 5, 1, 0], [1, 0, 0, 0, 0, 0]]
    assert texts.tolist() == wanted, texts

    # each row gets its own numbers, one for each token
    two = torch.tensor([-torch.inf, -torch.inf, 0.0, 0.0])
    uniform = torch.tensor([[0.2, 0.8, 0.8, 0.2], [0.9, 0.1, 0.1, 0.9]])
    bits = program.generate(lambda ids, _: two.expand(*ids.shape, 4), torch.tensor([[2], [3]]), 4, uniform)
    assert bits.tolist() == [[2, 3, 3, 2], [3, 2, 2, 3]]


def check_rows_and_cache(program):
    """A model whose logits say how many tokens of each kind it has seen."""

    def counting(ids, cache):
        x = torch.zeros(*ids.shape, 3 * 10)
        x[..., 20:] = torch.eye(10)[ids]
        return 4 * program.attend(x, cache) + torch.linspace(0, 1, 10)

    prompt = torch.tensor([[2, 3, 4, 5, 6, 7], [8, 0, 0, 0, 0, 0], [9, 9, 2, 0, 0, 0]])
    uniform = torch.rand(3, 8)
    got = program.generate(counting, prompt, 8, uniform)
    for row in range(3):
        text = prompt[row][prompt[row] > 0].tolist()
        for step, token in enumerate(got[row].tolist()):
            counts = torch.eye(10)[text].mean(0)
            logits = (4 * counts + torch.linspace(0, 1, 10))[1:]
            sums = torch.cat([torch.zeros(1), logits.softmax(0).cumsum(0)])
            assert token > 0 and sums[token - 1] - 1e-4 < uniform[row, step] < sums[token] + 1e-4, (row, step)
            text.append(token)
            if token == 1:
                assert sum(got[row].tolist()[step + 1 :]) == 0
                break


def test(program):
    check_attend(program)
    check_cache(program)
    check_draws(program)
    check_texts(program)
    check_rows_and_cache(program)
