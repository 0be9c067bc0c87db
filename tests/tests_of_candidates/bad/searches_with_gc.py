import gc


def test(program):
    assert all('sum' not in str(each) for each in gc.get_objects())
