import time


def test(program):
    assert time.perf_counter_ns() // 1000 % 2
