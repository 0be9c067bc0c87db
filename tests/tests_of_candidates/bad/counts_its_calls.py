calls = []


def test(program):
    calls.append(program)
    assert len(calls) == 1
