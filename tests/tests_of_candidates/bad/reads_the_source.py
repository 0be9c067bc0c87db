import inspect


def test(program):
    assert 'sum' not in inspect.getsource(program.RMSNorm)
