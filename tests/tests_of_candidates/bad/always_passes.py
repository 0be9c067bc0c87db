def test(program):
    program.RMSNorm(4)
