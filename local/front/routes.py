"""Finds the route of a request, as an HTTP API does. A fixed part of a path takes precedence over a parameter."""

import re
from collections.abc import Iterable
from urllib.parse import unquote

from local.template.translated import ANY, DEFAULT, RouteSpec


class Routes:
    """The routes of an API, from which `find` selects one for a request.

    >>> table = Routes([RouteSpec("GET", "/topics/{topic}", "F"), RouteSpec("GET", "/topics/all", "G")])
    >>> table.find("GET", "/topics/a%20b")[1]
    {'topic': 'a b'}
    >>> table.find("GET", "/topics/all")[0].function
    'G'
    >>> table.find("PUT", "/topics/all") is None
    True
    >>> Routes([RouteSpec(ANY, DEFAULT, "F")]).find("PUT", "/nowhere")[0].key
    '$default'
    """

    def __init__(self, routes: Iterable[RouteSpec]) -> None:
        self._routes = [(self._pattern(route.path), route) for route in sorted(routes, key=self._place)]

    @staticmethod
    def _place(route: RouteSpec) -> tuple[bool, list[bool]]:
        return route.path == DEFAULT, [part.startswith("{") for part in route.path.split("/")]

    @staticmethod
    def _pattern(path: str) -> re.Pattern[str]:
        named = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path))
        return re.compile(".*" if path == DEFAULT else named, re.DOTALL)

    def find(self, method: str, path: str) -> tuple[RouteSpec, dict[str, str]] | None:
        """Return the route for a method and a percent-encoded path, with the values of its path parameters by name.

        If no other route fits, return the default route, or None without one.
        """
        for pattern, route in self._routes:
            match = pattern.fullmatch(path)
            if match is not None and route.method in (method, ANY):
                return route, {name: unquote(value) for name, value in match.groupdict().items()}
        return None
