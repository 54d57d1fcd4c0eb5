"""Protects every page: refuses foreign requests, and limits what a page may do in the browser."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from tagcast_client import ProblemError, TagcastError

from local.console.desk import desk_of
from local.console.forms import UnreadableFieldError
from local.rules.browsers import is_foreign, is_own_host

COOKIE = "tagcast_console"
"""Browsers send cookies to all ports of a host, so each console's cookie name has its port."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def guard_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request from another site or without the key. Else answer it."""
    return await _refusal(request) or await _answer(request, handler)


async def restrict_response(request: web.Request, response: web.StreamResponse) -> None:
    """Give every response a strict content security policy, unless it has one of its own."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


async def _refusal(request: web.Request) -> web.Response | None:
    port = _port(request)
    if not is_own_host(request.headers.get("Host"), port):
        return web.Response(
            status=403, text="Forbidden host name. Use 127.0.0.1 or localhost with the port of the console.\n"
        )
    origin = request.headers.get("Origin")
    if is_foreign(origin, port) or (origin is None and request.method not in ("GET", "HEAD")):
        return web.Response(status=403, text="Forbidden origin. Only pages of this console may send requests to it.\n")
    if (entry := _entry(request)) is not None:
        return entry
    if request.method not in ("GET", "HEAD"):
        token = str((await request.post()).get("token", ""))
        if _same(token, desk_of(request).token):
            return None
        detail = "It is from another console, or from before a restart. Go back, reload the page, and send it again."
        return desk_of(request).page("fault.html", 403, title="The form is outdated", detail=detail, faults=())
    return None


def _entry(request: web.Request) -> web.Response | None:
    """Return None for a valid cookie or a console without a key; else a redirect that sets the cookie, or a refusal."""
    key, cookie = desk_of(request).key, f"{COOKIE}_{_port(request)}"
    if key is None or _same(request.cookies.get(cookie, ""), key):
        return None
    if not _same(request.query.get("key", ""), key):
        return web.Response(
            status=403, text="The key is missing. Open the address that the console printed when it started.\n"
        )
    answer = web.Response(status=303, headers={"Location": "/"})
    answer.set_cookie(cookie, key, httponly=True, samesite="Strict", path="/")
    return answer


def _port(request: web.Request) -> int:
    return int(request.get_extra_info("sockname")[1])


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve a page; an error of the API becomes a page, too."""
    desk = desk_of(request)
    try:
        return await handler(request)
    except ProblemError as problem:
        status = problem.status if 400 <= problem.status < 500 else 502
        return desk.page("fault.html", status, title=problem.title, detail=problem.detail, faults=problem.faults)
    except UnreadableFieldError as fault:
        return desk.page("fault.html", 422, title="Invalid field", detail="", faults=(fault,))
    except TagcastError as fault:
        return desk.page("fault.html", 502, title="No response from the API", detail=str(fault), faults=())
    except web.HTTPNotFound:
        return desk.page("fault.html", 404, title="Not found", detail="This page does not exist.", faults=())
