"""Who may come in: one browser that knows the token, by an address that is ours.

A page of somebody else's, open in the same browser, can send requests to this machine: by a form, by a socket, or by
a host name of its own that it lets point here (DNS rebinding). So every request, sockets too, must name a host of ours,
come from a page of ours if it says from which, and bring the token as a cookie that no other site's page can send.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.websockets import WebSocketClose

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
NO_TOKEN = "Open the address that `dojo web` printed in its terminal: it holds the token that this page asks for.\n"
HEADERS = {
    "content-security-policy": "frame-ancestors 'none'; form-action 'self'; base-uri 'self'; object-src 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """Lets a request through to `app` or answers it with 403; an ASGI middleware, for HTTP and sockets alike."""

    def __init__(self, app: ASGIApp, token: str, names: Iterable[str], port: int) -> None:
        """`names` are the host names that a browser may have typed."""
        self.app, self.token = app, token
        self.cookie = f"dojo-{port}"  # cookies know no port: two pages of one machine must not share theirs
        self.hosts = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one socket."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if why := self._refusal(headers):
            await self._refuse(why, scope, receive, send)
        elif self._is_token(self._cookie_of(headers)):
            await self.app(scope, receive, self._with_headers(send))
        elif scope["type"] == "http" and self._is_token(_asked(scope).get("token", "")):
            # the address bar and the history shall not keep the token
            answer = RedirectResponse(scope["path"], status_code=303, headers=HEADERS)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            await answer(scope, receive, send)
        else:
            await self._refuse(NO_TOKEN, scope, receive, send)

    def _refusal(self, headers: Headers) -> str:
        """Why a request does not come from a page of ours; nothing if it may."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return f"This page does not answer for the host {host!r}.\n"
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            return f"This page does not answer pages of {origin!r}.\n"
        return ""

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())

    def _cookie_of(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    async def _refuse(self, why: str, scope: Scope, receive: Receive, send: Send) -> None:
        answer = PlainTextResponse(why, status_code=403, headers=HEADERS) if scope["type"] == "http" else None
        await (answer or WebSocketClose(1008))(scope, receive, send)

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *given]}
            await send(message)

        return sending


def _asked(scope: Scope) -> dict[str, str]:
    """What stands after the question mark of an address; of several values of a name the first."""
    return {name: values[0] for name, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
