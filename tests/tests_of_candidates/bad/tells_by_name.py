def test(program):
    assert (program.RMSNorm.__module__, program.RMSNorm.__doc__) == ('solution', 'right')
