def test(program):
    while True:
        pass
