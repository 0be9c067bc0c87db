"""The one test of the pytest session that an interview is; `dojo.interview.hold` runs it."""


def test_interview(room):
    room.hold()
