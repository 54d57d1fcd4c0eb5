"""The body of a message: a shop's order as JSON, in which ids, names, amounts and times are drawn.

How far that deflates is part of what a message costs: ``python -m tests.benchmarks.twinning.orders`` says how far.
"""

import json
import statistics
import zlib
from random import Random
from uuid import UUID

BODY_BYTES = 1024
ITEMS = 5
WORDS = (
    "oak steel linen cotton wool cork glass brass amber slate ivory olive navy coral plum moss sand ash rust teal "
    "table chair lamp shelf stool bench mirror basket vase bowl plate cup kettle pan knife board towel blanket cushion "
    "rug curtain candle clock frame box tray jug ladle grater sieve whisk apron napkin mug carafe decanter hook rail"
)
NAMES = (
    "Aylin Bruno Chiara Daria Emil Fatima Georg Hanna Ibrahim Jule Kerem Lotte Mateo Nadia Oskar Paula Quentin Rosa "
    "Stefan Thea Ulrich Vera Willem Xenia Yusuf Zoe Albrecht Berger Conti Demir Engel Fischer Gruber Hoffmann Ilic "
    "Jansen Kaya Lindner Moreau Novak Otten Petrov Quast Richter Silva Toth Urban Vogel Wagner Xavier Yilmaz Zeller"
)


def order(serial: int) -> str:
    """Return the order of that number, always the same one, of 1,024 bytes; a note of the customer's fills it up.

    >>> len(order(1)), order(1) == order(1), json.loads(order(42))["number"]
    (1024, True, '#000000042#')
    """
    dice = Random(serial)
    first, last = _some(dice, NAMES), _some(dice, NAMES)
    content = {
        "number": f"#{serial:09d}#",
        "order_id": _uuid(dice),
        "placed_at": _instant(dice),
        "customer": {
            "customer_id": _uuid(dice),
            "name": f"{first} {last}",
            "email": f"{first}.{last}{dice.randrange(1_000)}@example.com".lower(),
        },
        "ship_to": {
            "street": f"{_some(dice, NAMES)}str. {dice.randrange(1, 200)}",
            "postal_code": f"{dice.randrange(100_000):05}",
            "city": f"{_some(dice, NAMES)}burg",
        },
        "items": [_item(dice) for _ in range(ITEMS)],
        "payment": {"method": dice.choice(("card", "invoice", "wallet")), "token": f"{dice.getrandbits(128):032x}"},
        "total": dice.randrange(500, 90_000) / 100,
        "note": "",
    }
    empty = len(json.dumps(content, separators=(",", ":")))
    content["note"] = _some(dice, WORDS, BODY_BYTES // 3)[: BODY_BYTES - empty]
    return json.dumps(content, separators=(",", ":"))


def _item(dice: Random) -> dict[str, object]:
    return {
        "sku": f"{dice.getrandbits(40):010X}",
        "title": _some(dice, WORDS, 3),
        "quantity": dice.randrange(1, 6),
        "unit_price": dice.randrange(199, 49_999) / 100,
    }


def _some(dice: Random, words: str, count: int = 1) -> str:
    return " ".join(dice.choices(words.split(), k=count))


def _uuid(dice: Random) -> str:
    return str(UUID(int=dice.getrandbits(128), version=4))


def _instant(dice: Random) -> str:
    return f"2026-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}T{_clock(dice)}.{dice.randrange(1_000):03}Z"


def _clock(dice: Random) -> str:
    return f"{dice.randrange(24):02}:{dice.randrange(60):02}:{dice.randrange(60):02}"


def deflated_bytes(count: int = 1_000) -> list[int]:
    """Return to how many bytes each of the first orders deflates."""
    return [len(zlib.compress(order(serial).encode())) for serial in range(count)]


if __name__ == "__main__":
    found = deflated_bytes()
    print(f"{BODY_BYTES} bytes deflate to {min(found)} to {max(found)}, {statistics.fmean(found):.0f} on average")
