def test(program):
    assert id(program.RMSNorm) // 16 % 2
