"""Never comes back, in Python."""


def softmax(x, dim=-1):
    while True:
        pass
