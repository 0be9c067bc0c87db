"""What the page is made of, without a browser: drafts, the guard at the door, prose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dojo.web import prose
from dojo.web.drafts import Draft
from dojo.web.guard import Guard


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "katas" / "rope.py"
    path.parent.mkdir()
    path.write_text("one\n")
    return path


def draft(file: Path) -> Draft:
    return Draft(file, file.parent.parent / ".dojo")


def test_a_draft_is_kept_as_it_is_typed_and_is_there_again_in_another_process(file: Path):
    draft(file).edit("two\n")
    again = draft(file)
    assert (again.text, again.unsaved, again.conflict, file.read_text()) == ("two\n", True, False, "one\n")


def test_a_saved_draft_is_the_file_and_leaves_nothing_behind(file: Path):
    mine = draft(file)
    mine.edit("two\n")
    assert mine.save()
    assert file.read_text() == "two\n"
    assert not mine.unsaved
    assert not list((file.parent.parent / ".dojo" / "drafts").iterdir())


def test_an_editor_without_edits_follows_the_file(file: Path):
    mine, seen = draft(file), list[str]()
    mine.listeners["tab"] = seen.append
    file.write_text("by vim\n")
    assert mine.look()
    assert mine.text == "by vim\n"
    assert not mine.unsaved
    assert seen == ["by vim\n"]


def test_where_both_changed_nothing_is_written_until_the_user_chooses(file: Path):
    mine = draft(file)
    mine.edit("mine\n")
    file.write_text("theirs, and longer\n")
    assert not mine.save()
    assert (mine.conflict, mine.text, file.read_text()) == (True, "mine\n", "theirs, and longer\n")
    assert draft(file).conflict  # after a restart too


def test_keeping_the_edit_keeps_a_copy_of_the_file(file: Path):
    mine = draft(file)
    mine.edit("mine\n")
    file.write_text("theirs, and longer\n")
    mine.look()
    assert mine.keep_mine().read_text() == "theirs, and longer\n"
    assert file.read_text() == "mine\n"
    assert not mine.conflict


def test_taking_the_file_keeps_a_copy_of_the_edit(file: Path):
    mine, seen = draft(file), list[str]()
    mine.listeners["tab"] = seen.append
    mine.edit("mine\n")
    file.write_text("theirs, and longer\n")
    mine.look()
    assert mine.take_file().read_text() == "mine\n"
    assert mine.text == file.read_text() == "theirs, and longer\n"
    assert seen[-1] == mine.text


def test_two_tabs_show_one_draft(file: Path):
    mine, first, second = draft(file), list[str](), list[str]()
    mine.listeners |= {"first": first.append, "second": second.append}
    mine.edit("typed\n", by="first")
    assert (first, second) == ([], ["typed\n"])


def test_an_edit_that_the_file_catches_up_with_is_no_edit_any_more(file: Path):
    mine = draft(file)
    mine.edit("two\n")
    file.write_text("two\n")
    assert mine.look()
    assert not mine.unsaved
    assert not mine.conflict
    assert not draft(file).unsaved


def test_files_of_one_name_have_drafts_of_their_own(file: Path):
    other = file.parent.parent / "mocks" / "rope.py"
    other.parent.mkdir()
    other.write_text("a mock's\n")
    draft(file).edit("two\n")
    assert not draft(other).unsaved


@pytest.mark.parametrize("edited", [True, False])
def test_a_file_that_was_removed_stays_in_the_editor_and_is_written_again_by_saving(file: Path, edited: bool):
    mine = draft(file)
    if edited:
        mine.edit("mine\n")
    text = mine.text
    file.unlink()
    assert mine.look()
    assert not mine.conflict
    assert mine.unsaved
    assert mine.text == text
    assert mine.save()
    assert file.read_text() == text


TOKEN = "of-this-test"
HOST = "127.0.0.1:8610"


def answered(kind: str = "http", query: str = "", **headers: str) -> int:
    """The status that a request gets; 200 if it is let through to the app, 101 for a socket."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        else:
            await send({"type": "websocket.accept"})

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in ({"host": HOST} | headers).items()]
    scope = {"type": kind, "path": "/", "query_string": query.encode(), "headers": given, "method": "GET"}
    asyncio.run(Guard(app, TOKEN, ["127.0.0.1", "localhost"], 8610)(scope, receive, send))
    if kind == "websocket":
        return 101 if sent[0]["type"] == "websocket.accept" else 403
    return sent[0]["status"]


COOKIE = f"other=1; dojo-8610={TOKEN}"


@pytest.mark.parametrize(
    ("status", "request_of"),
    [
        (200, {"cookie": COOKIE}),
        (200, {"cookie": COOKIE, "origin": f"http://{HOST}"}),
        (200, {"cookie": COOKIE, "host": "localhost:8610"}),
        (303, {"query": f"token={TOKEN}"}),
        (403, {}),
        (403, {"query": "token=guessed"}),
        (403, {"cookie": "dojo-8610=guessed"}),
        (403, {"cookie": f"dojo-9999={TOKEN}"}),
        (403, {"cookie": COOKIE, "origin": "http://evil.example"}),
        (403, {"cookie": COOKIE, "origin": "null"}),
        (403, {"cookie": COOKIE, "origin": f"https://{HOST}"}),
        (403, {"cookie": COOKIE, "host": "evil.example:8610"}),  # it points here: rebinding
        (403, {"cookie": COOKIE, "host": "127.0.0.1:80"}),
        (403, {"cookie": COOKIE, "host": ""}),
        (403, {"query": f"token={TOKEN}", "host": "evil.example:8610"}),
        (101, {"kind": "websocket", "cookie": COOKIE, "origin": f"http://{HOST}"}),
        (403, {"kind": "websocket", "cookie": COOKIE, "origin": "http://evil.example"}),
        (403, {"kind": "websocket", "query": f"token={TOKEN}", "origin": f"http://{HOST}"}),
        (403, {"kind": "websocket", "cookie": COOKIE, "host": "evil.example"}),
    ],
)
def test_only_pages_of_ours_with_the_token_come_in(status: int, request_of: dict[str, str]):
    assert answered(**request_of) == status


HOSTILE = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[x](javascript:alert(1))",
    "<svg/onload=alert(1)>",
    "![x](data:text/html,<script>alert(1)</script>)",
    "$\\text{<img src=x onerror=alert(1)>}$",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_prose_is_text(text: str):
    made = prose.of(text)
    assert "<script" not in made
    assert "<img src=x" not in made
    assert "<svg" not in made
    assert 'href="javascript' not in made
