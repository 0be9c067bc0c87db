"""`web`: serves the page to one browser on this machine."""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nicegui import app, ui

from dojo.content import catalog, files
from dojo.content.catalog import Trouble, typed
from dojo.grading.resident_process import ResidentProcess
from dojo.judge import sandbox
from dojo.web.guard import LOOPBACK, Guard

FIRST_PORT, PORTS = 8610, 20  # the first that is looked at, and how many
TOKEN, DAY = 24, 24 * 3600.0  # bytes of chance, and seconds
RECONNECT = DAY  # seconds that a page may be away, in a laptop that sleeps, and go on as it was


def main(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C. Raises Trouble where no port is free, or a sandbox is needed and cannot be had."""
    around = _sandbox() if args.host else []
    host = args.host or LOOPBACK[0]
    port = _free_port(host, args.port)
    token = _token(catalog.ROOT / ".dojo" / "web.json")
    judge = ResidentProcess(around)  # it imports torch meanwhile
    from dojo.web import pages

    _parse_one_at_a_time()
    pages.add(judge)
    names = [*LOOPBACK, host, *([socket.gethostname()] if args.host else [])]
    app.add_middleware(Guard, token=token, names=names, port=port)
    address = f"http://{host if host != '0.0.0.0' else socket.gethostname()}:{port}"
    app.on_startup(lambda: _greet(f"{address}/?token={token}", not args.no_open))
    try:
        ui.run(
            host=host,
            port=port,
            title="dojo",
            favicon=pages.ICON,
            dark=None,
            language="en-US",
            reload=False,
            show=False,
            show_welcome_message=False,
            tailwind=False,
            reconnect_timeout=RECONNECT,
            binding_refresh_interval=None,  # nothing here is bound
            access_log=False,
        )
    finally:
        judge.close()
    return 0


def _token(path: Path) -> str:
    """A token that nobody can guess, the same for a day: pages that are open come back to a server that was killed."""
    kept = files.read_state(path)
    token, made = kept.get("token"), kept.get("made")
    if isinstance(token, str) and len(token) >= TOKEN and isinstance(made, float) and 0 <= time.time() - made < DAY:
        return token
    token = secrets.token_urlsafe(TOKEN)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)  # which stays
    files.write_atomic(path, json.dumps({"token": token, "made": time.time()}))
    return token


def _sandbox() -> list[str]:
    try:
        return sandbox.prefix()
    except Trouble as trouble:
        raise Trouble(f"--host lets other machines in, and then attempts run in the sandbox: {trouble}") from None


def _parse_one_at_a_time() -> None:
    """Let no two threads of this process parse Python at once.

    CPython counts the depth of all its trees in one place, so that threads make each other fail now and then with
    "AST constructor recursion depth mismatch" (gh-106905); and what pages do off the loop reads masters and attempts.
    """
    parse, lock = ast.parse, threading.RLock()

    @functools.wraps(parse)
    def alone(*args: Any, **how: Any) -> ast.AST:
        with lock:
            return parse(*args, **how)

    ast.parse = alone  # type: ignore[assignment]


def _greet(address: str, opened: bool) -> None:
    print(f"The dojo is at {address}\nOnly who has this address may come in. Ctrl-C ends it.", flush=True)
    if opened and (sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        webbrowser.open(address)


def _free_port(host: str, wanted: int | None) -> int:
    """The port that is wanted, or the first that is free. Raises Trouble."""
    candidates: Sequence[int] = [wanted] if wanted else range(FIRST_PORT, FIRST_PORT + PORTS)
    for port in candidates:
        for family, _, _, _, where in _addresses(host, port):
            with socket.socket(family, socket.SOCK_STREAM) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    tried.bind(where)
                    return port
                except OSError as error:
                    why = error.strerror
    which = f"port {wanted} of {host}" if wanted else f"no port from {FIRST_PORT} to {candidates[-1]} of {host}"
    raise Trouble(f"{which} cannot be had: {why}. Name another one, as in `{typed('web --port 9000')}`")


def _addresses(host: str, port: int) -> Iterator[tuple]:
    try:
        yield from socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise Trouble(f"--host {host}: there is no such host here ({error.strerror})") from None
