"""Finds the route of a request as an HTTP API does: fixed words before parameters."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from local.template import RouteSpec


@dataclass(frozen=True)
class Found:
    """The route of a request and what its path says."""

    route: RouteSpec
    parameters: dict[str, str]

    @property
    def key(self) -> str:
        """The route key, such as `GET /topics/{topic}`."""
        return f"{self.route.method} {self.route.path}"


@dataclass(frozen=True)
class WrongMethod:
    """The path exists, under other methods."""

    allowed: tuple[str, ...]


class Routes:
    """The routes of one API.

    >>> table = Routes([RouteSpec("GET", "/topics/{topic}", "F"), RouteSpec("GET", "/topics/all", "G")])
    >>> table.find("GET", "/topics/a%20b").parameters
    {'topic': 'a b'}
    >>> table.find("GET", "/topics/all").route.function
    'G'
    >>> table.find("PUT", "/topics/all")
    WrongMethod(allowed=('GET',))
    """

    def __init__(self, routes: Iterable[RouteSpec]) -> None:
        ordered = sorted(routes, key=lambda route: [part.startswith("{") for part in route.path.split("/")])
        self._routes = [(self._pattern(route.path), route) for route in ordered]

    @staticmethod
    def _pattern(path: str) -> re.Pattern[str]:
        parts = re.split(r"(\{\w+\+?\})", path)
        return re.compile("".join(_expression(part) for part in parts))

    def find(self, method: str, path: str) -> Found | WrongMethod | None:
        """The route of a method and a raw path; None if no route has this path."""
        allowed: list[str] = []
        for pattern, route in self._routes:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if route.method in (method, "ANY", "X-AMAZON-APIGATEWAY-ANY-METHOD"):
                return Found(route, {name: unquote(value) for name, value in match.groupdict().items()})
            allowed.append(route.method)
        return WrongMethod(tuple(dict.fromkeys(allowed))) if allowed else None


def _expression(part: str) -> str:
    if part.startswith("{"):
        name = part.strip("{}+")
        return f"(?P<{name}>.+)" if part.endswith("+}") else f"(?P<{name}>[^/]+)"
    return re.escape(part)
