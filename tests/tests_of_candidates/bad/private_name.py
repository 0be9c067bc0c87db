def test(program):
    assert program.RMSNorm(4, eps=0.5).eps == 0.5
