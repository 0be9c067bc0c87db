"""A timeout raised inside this loop would be swallowed."""


def softmax(x, dim=-1):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
