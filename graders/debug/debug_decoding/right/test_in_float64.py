# with debug/debug_decoding

import unittest

tc = unittest.TestCase()


def expect(a, b, message=""):
    tc.assertEqual(tuple(a.shape), tuple(b.shape), message)
    tc.assertLess((a.double() - b.double()).abs().max().item(), 1e-4, message)


def slow_attention(x):
    x = x.double()
    dim = x.shape[-1] // 3
    rows = []
    for t in range(x.shape[1]):
        weights = []
        for s in range(t + 1):
            score = 0.0
            for i in range(0, dim, 2):
                angle = torch.tensor((t - s) * 10000.0 ** (-i / dim)).double()
                q1, q2, k1, k2 = x[:, t, i], x[:, t, i + 1], x[:, s, dim + i], x[:, s, dim + i + 1]
                score = score + angle.cos() * (q1 * k1 + q2 * k2) + angle.sin() * (q1 * k2 - q2 * k1)
            weights.append(score / dim**0.5)
        rows.append(torch.einsum("sb,bsd->bd", torch.stack(weights).softmax(0), x[:, : t + 1, 2 * dim :]))
    return torch.stack(rows, 1)


def test(program):
    state = torch.get_rng_state()
    try:
        torch.manual_seed(17)
        run(program)
    finally:
        torch.set_rng_state(state)


def run(program):
    x = torch.randn(2, 6, 18)
    for cut in ((6,), (2, 4), (3, 1, 1, 1), (1, 2, 3)):
        cache = program.Cache(6)
        expect(torch.cat([program.attend(p, cache) for p in x.split(cut, 1)], 1), slow_attention(x), f"cut {cut}")
        tc.assertEqual(cache.length, 6)

    k = torch.randn(2, 5, 4)
    cache = program.Cache(5)
    for t in range(5):
        keys, values = cache.append(k[:, t : t + 1], -k[:, t : t + 1])
        expect(keys, k[:, : t + 1])
        expect(values, -k[:, : t + 1])

    # a model that is attention alone: what it says next shows all that it was fed
    emb, out = torch.randn(9, 12) * 1.5, torch.randn(4, 9) * 2

    def model(ids, cache):
        return program.attend(emb[ids], cache) @ out

    cases = [(1.0, 1.0), (0.7, 1.0), (1.0, 0.8), (2.2, 0.65), (0.6, 0.9)]
    for temperature, top_p in cases:
        prompt = torch.tensor([[2, 3, 8, 8, 5], [6, 7, 2, 0, 0], [3, 0, 0, 0, 0]])
        uniform = torch.rand(3, 6)
        found = program.generate(model, prompt, 6, uniform, temperature, top_p).tolist()
        for row, tokens in enumerate(found):
            text = [i for i in prompt[row].tolist() if i]
            while tokens:
                token, u = tokens.pop(0), uniform[row, 6 - len(tokens) - 1].item()
                logits = (slow_attention(emb[text][None])[0, -1] @ out.double())[1:] / temperature
                p = dict(enumerate(logits.softmax(0).tolist(), 1))
                order = sorted(p, key=p.get, reverse=True)
                kept = [i for n, i in enumerate(order) if sum(p[j] for j in order[:n]) < top_p]
                tc.assertIn(token, kept)
                total = sum(p[i] for i in kept)
                below = sum(p[i] for i in kept if i < token) / total
                tc.assertLess(below - 1e-4, u)
                tc.assertGreater(below + p[token] / total + 1e-4, u)
                text.append(token)
                if token == 1:
                    tc.assertEqual(sum(tokens), 0)
                    break
    line = torch.full((6, 6), -1e4)
    for i in range(6):
        line[i, max(i - 1, 1)] = 1e4
        line[i, 0] = 2e4
    ids = program.generate(lambda ids, cache: line[ids], torch.tensor([[5, 0], [2, 3]]), 6, torch.full((2, 6), 0.4))
    tc.assertEqual(ids.tolist(), [[4, 3, 2, 1, 0, 0], [2, 1, 0, 0, 0, 0]])
