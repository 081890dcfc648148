# SPDX-License-Identifier: Apache-2.0
"""Who may see the page: whoever has the token. And the headers under which it is shown."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keepstep.watch.page.template import POLICY

HEADERS = [
    (
        b"content-security-policy",
        (POLICY.format(script="'self'", style="'self'", connect="'self'") + "; frame-ancestors 'none'").encode(),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Gate:
    """Lets requests with the token through. One in the address becomes a cookie, and leaves the address."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._cookie = f"keepstep-{port}"  # cookies know no ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        await self._answer(scope)(scope, receive, guarded)

    def _answer(self, scope: Scope) -> ASGIApp:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get(b"host", "").rpartition(":")[0] not in HOSTS:  # a name of somebody else's that leads here
            return PlainTextResponse("keepstep watch answers on this machine's own address only\n", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("keepstep watch only shows\n", 405)
        asked = parse_qsl(scope["query_string"].decode("latin-1"))
        given = [value for name, value in asked if name == "token"]
        if given and self._is_right(given[0]):
            rest = urlencode([(name, value) for name, value in asked if name != "token"])
            answer = RedirectResponse(scope["path"].replace("//", "/") + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return answer
        if not self._is_right(_cookie(headers.get(b"cookie", ""), self._cookie)):
            return PlainTextResponse("open the address that `keepstep watch` printed: it has the token\n", 403)
        return self._app

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
