def test(program):
    raise ValueError('wrong')
