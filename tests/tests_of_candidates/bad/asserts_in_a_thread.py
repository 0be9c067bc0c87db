import threading


def check(program):
    raise AssertionError('wrong')


def test(program):
    thread = threading.Thread(target=check, args=(program,))
    thread.start()
    thread.join()
