import os


def test(program):
    assert os.getpid() % 2
