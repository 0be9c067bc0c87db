import sys


def test(program):
    assert 'sum' not in sys.modules['inspect'].getsource(program.RMSNorm)
