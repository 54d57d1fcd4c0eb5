"""Finds the route of a request, as an HTTP API does. A fixed part of a path takes precedence over a parameter."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from local.template.translated import RouteSpec

DEFAULT = "$default"
"""The route for all other requests."""


@dataclass(frozen=True)
class RouteMatch:
    """The route of a request, and the values of its path parameters by name."""

    route: RouteSpec
    parameters: dict[str, str]

    @property
    def key(self) -> str:
        """The route key, such as `GET /topics/{topic}`."""
        return DEFAULT if self.route.path == DEFAULT else f"{self.route.method} {self.route.path}"


class Routes:
    """The routes of an API, from which `find` selects one for a request.

    >>> table = Routes([RouteSpec("GET", "/topics/{topic}", "F"), RouteSpec("GET", "/topics/all", "G")])
    >>> table.find("GET", "/topics/a%20b").parameters
    {'topic': 'a b'}
    >>> table.find("GET", "/topics/all").route.function
    'G'
    >>> table.find("PUT", "/topics/all") is None
    True
    >>> Routes([RouteSpec("ANY", DEFAULT, "F")]).find("PUT", "/nowhere").key
    '$default'
    """

    def __init__(self, routes: Iterable[RouteSpec]) -> None:
        named = list(routes)
        self._default = next((route for route in named if route.path == DEFAULT), None)
        others = [route for route in named if route.path != DEFAULT]
        ordered = sorted(others, key=lambda route: [part.startswith("{") for part in route.path.split("/")])
        self._routes = [(self._pattern(route.path), route) for route in ordered]

    @staticmethod
    def _pattern(path: str) -> re.Pattern[str]:
        parts = re.split(r"(\{\w+\+?\})", path)
        return re.compile("".join(_expression(part) for part in parts))

    def find(self, method: str, path: str) -> RouteMatch | None:
        """Return the route for a method and a percent-encoded path. If none fits, return the default route, or None."""
        for pattern, route in self._routes:
            match = pattern.fullmatch(path)
            if match is not None and route.method in (method, "ANY", "X-AMAZON-APIGATEWAY-ANY-METHOD"):
                return RouteMatch(route, {name: unquote(value) for name, value in match.groupdict().items()})
        return None if self._default is None else RouteMatch(self._default, {})


def _expression(part: str) -> str:
    if part.startswith("{"):
        name = part.strip("{}+")
        return f"(?P<{name}>.+)" if part.endswith("+}") else f"(?P<{name}>[^/]+)"
    return re.escape(part)
