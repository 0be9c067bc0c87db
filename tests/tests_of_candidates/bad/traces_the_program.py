import sys


def test(program):
    sys.settrace(lambda *_: None)
