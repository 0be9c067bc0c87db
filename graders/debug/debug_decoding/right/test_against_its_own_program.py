# with debug/debug_decoding

MINE = {"Cache": Cache, "attend": attend, "generate": generate}


def test(program):
    g = torch.Generator().manual_seed(5)  # a fixed seed keeps draws off the borders

    def rand(*shape):
        return torch.randn(*shape, generator=g)

    for cut in [(8,), (5, 1, 1, 1), (3, 3, 2), (1, 4, 1, 2)]:
        mine, theirs = MINE["Cache"](8), program.Cache(8)
        for part in rand(2, 8, 30).split(cut, dim=1):
            torch.testing.assert_close(program.attend(part, theirs), MINE["attend"](part, mine), rtol=1e-4, atol=1e-4)
            assert theirs.length == mine.length
    cache = program.Cache(6)
    kv = rand(2, 1, 6, 4)
    for a, b in [(0, 2), (2, 3), (3, 6)]:
        for got, all_of_it in zip(cache.append(kv[0, :, a:b], kv[1, :, a:b]), kv):
            torch.testing.assert_close(got, all_of_it[:, :b], rtol=0, atol=1e-4)

    # generate, with a model of ours on each one's own attention
    table, head = rand(12, 24), rand(8, 12)

    def model_on(attend):
        return lambda ids, cache: (table[ids][..., 16:] + attend(table[ids], cache)) @ head

    prompt = torch.tensor([[5, 3, 2, 11, 7], [4, 4, 0, 0, 0], [9, 0, 0, 0, 0], [6, 10, 3, 0, 0]])
    for settings in [{}, {"temperature": 2.0}, {"top_p": 0.7}, {"temperature": 3.0, "top_p": 0.6}]:
        uniform = torch.rand(4, 10, generator=g)
        right = MINE["generate"](model_on(MINE["attend"]), prompt, 10, uniform, **settings)
        assert program.generate(model_on(program.attend), prompt, 10, uniform, **settings).tolist() == right.tolist()
    confident = rand(12, 12) * 20
    confident[:, 0] += 50.0
    confident[7, 1] += 500.0
    confident[3, 7] += 500.0
    confident[0] = -confident[0]
    prompt, uniform = torch.tensor([[3, 0], [5, 3], [7, 0]]), torch.full((3, 4), 0.5)
    texts = program.generate(lambda ids, cache: confident[ids], prompt, 4, uniform)
    assert texts.tolist() == [[7, 1, 0, 0], [7, 1, 0, 0], [1, 0, 0, 0]]
