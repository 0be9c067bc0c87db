"""Fails with an endless text, in a class with an endless name, and with what no page can hold."""

Shout = type("A" * 900_000, (Exception,), {})


def softmax(x, dim=-1):
    raise Shout("\ud800\x1b[2J\x00" + "no " * 1_000_000)
