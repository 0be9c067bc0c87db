def test(program):
    raise AssertionError('wrong')
