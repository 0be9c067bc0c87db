def test(program):
    return False
