"""An HTTP receiver that fails where it is told to, and remembers what it took."""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.http_server import Handler, serving


@dataclass
class Receiver:
    """Paths in *failing* answer 500 that many times more."""

    url: str = ""
    failing: dict[str, int] = field(default_factory=dict)
    tried: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The bodies of all attempts, by path."""
    took: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The bodies of those that were answered 200."""
    headers: list[Mapping[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, headers: Mapping[str, str], body: str) -> int:
        with self._lock:
            self.headers.append(headers)
            self.tried[path].append(body)
            if self.failing.get(path, 0):
                self.failing[path] -= 1
                return 500
            self.took[path].append(body)
            return 200


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Serve one on this machine."""
    made = Receiver()

    class Serving(Handler):
        def serve(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.answer(made.answer(self.path, headers, self.body().decode()))

    with serving(Serving) as made.url:
        yield made
