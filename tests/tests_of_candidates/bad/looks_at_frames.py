import sys


def test(program):
    assert 'source' not in sys._getframe().f_back.f_locals
