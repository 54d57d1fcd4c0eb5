"""Pairs of a pattern and an event by a seed, steered towards matches, some of them malformed."""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

NAMES = ("a", "b", "c", "d", "x-y", "k.l", "detail", "$or")
WEIGHTS = (9, 9, 9, 5, 2, 2, 4, 0.3)
TEXTS = (
    *("", "a", "A", "b", "ab", "AB", "aB", "abc", "abcabc", "true", "null", "1", "12", "1.0", "*", "\\", "a*b", 'q"t'),
    *("Straße", "STRASSE", "é", "É", "ſ", "ı", "I", "İ", "ΣΑΣ", "σας", "日本語", "日", "😀", "K", "k", "ŉ"),
    *("10.0.0.1", "10.0.0.255", "010.0.0.1", "10.0.1.0", "255.255.255.255", "0.0.0.0", "1.2.3", "1.2.3.256"),
    *("::1", "::ffff:0a00:1", "0:0:0:0:0:0:0:1", "2001:db8::1", "2001:DB8:0:0::1", "a00:1::", "ffff::", ":", "1::2::3"),
    *("eu-west-1", "eu-central-1", "us-east-1", "file.png", "file.PNG", "dir/file.jpg"),
)
NUMBERS = (
    *("0", "-0", "1", "1.0", "2", "3", "10", "300", "3.0e2", "300.0", "-1", "0.1", "0.3", "1e-7", "1e22"),
    *("9007199254740992", "9007199254740993", "12345678901234567890", "123456789012", "1.7976931348623157e308"),
    *("0.30000000000000004", "1E5", "100000", "10000001"),
)
EVENT_NUMBERS = (*NUMBERS, "1e400", "0.1000000000000000055511151231257827", "12345678901234567890.0")
CIDRS = ("10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/31", "0.0.0.0/0", "::/0", "2001:db8::/32", "::1/127", "128.0.0.0/1")
BAD_CIDRS = ("10.0.0.0/32", "::/128", "10.0.0/8", "10.0.0.0", "10.0.0.0/x", "/8", "10.0.0.0/8/")
OPERATORS, ADDRESSES = 17, 15
EMPTY_BUT = re.compile(r'"anything-but":\{"[a-z-]+":\[\]')


Places = list[tuple[tuple[str, ...], Any]]


class Digits(str):
    """A number as it is written."""


def pairs(count: int, seed: int) -> Iterator[dict[str, str]]:
    """Yield *count* pairs of JSON texts, the same for the same seed."""
    dice = random.Random(seed)
    for _ in range(count):
        # The engine takes the digits of a number for those of an address: decided otherwise, so they do not meet here.
        numbers = EVENT_NUMBERS if dice.random() < 0.8 else ()
        event = an_object(dice, 0, numbers)
        pattern = a_pattern(dice, event, has_addresses=not numbers)
        whole = text_of(pattern)
        for _ in range(dice.choices((0, 1, 2), (85, 12, 3))[0]):
            pattern = broken(dice, pattern)
        made = text_of(pattern)
        # The engine takes an empty list here, or not, by what stands beside it: refused by decision.
        yield {"pattern": whole if EMPTY_BUT.search(made) else made, "event": text_of(event)}


def text_of(value: Any) -> str:
    """Return the JSON text of a value with its numbers as they are written."""
    if isinstance(value, Digits):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{text_of(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def a_name(dice: random.Random) -> str:
    """Return the name of a field."""
    return dice.choices(NAMES, WEIGHTS)[0]


def a_scalar(dice: random.Random, numbers: tuple[str, ...] = NUMBERS) -> Any:
    """Return a text, a number, true, false or null."""
    match dice.randrange(10):
        case 0 | 1 | 2 | 3 | 4 | 5:
            return dice.choice(TEXTS)
        case 6 | 7 | 8 if numbers:
            return Digits(dice.choice(numbers))
        case _:
            return dice.choice((True, False, None))


def an_object(dice: random.Random, depth: int, numbers: tuple[str, ...]) -> dict[str, Any]:
    """Return an object of a few members."""
    least = 0 if depth else 1
    return {a_name(dice): a_value(dice, depth + 1, numbers) for _ in range(dice.randint(least, 4))}


def a_value(dice: random.Random, depth: int, numbers: tuple[str, ...]) -> Any:
    """Return a value of an event."""
    kind = dice.random()
    if depth > 3 or kind < 0.5:
        return a_scalar(dice, numbers)
    if kind < 0.65:
        return an_object(dice, depth, numbers)
    if kind < 0.85:
        return [an_object(dice, depth, numbers) for _ in range(dice.randint(0, 3))]
    return [a_value(dice, depth + 1, numbers) for _ in range(dice.randint(0, 3))]


def places(value: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each scalar of an event with the names on the way to it."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from places(each, (*prefix, name))
    elif isinstance(value, list):
        for each in value:
            yield from places(each, prefix)
    else:
        yield prefix, value


def a_pattern(dice: random.Random, event: dict[str, Any], *, has_addresses: bool) -> dict[str, Any]:
    """Return a pattern that asks for some of what an event has."""
    there = [place for place in places(event) if place[0]]
    operators = [operator for operator in range(OPERATORS) if has_addresses or operator != ADDRESSES]
    pattern: dict[str, Any] = {}
    for _ in range(dice.choices((1, 2, 3, 4), (5, 5, 3, 1))[0]):
        _add(dice, pattern, there, operators)
    if dice.random() < 0.2:
        branches = []
        for _ in range(dice.randint(2, 3)):
            branch: dict[str, Any] = {}
            for _ in range(dice.randint(1, 2)):
                _add(dice, branch, there, operators)
            branches.append(branch)
        holder = pattern
        if dice.random() < 0.3:
            inner = [each for each in pattern.values() if isinstance(each, dict)]
            holder = dice.choice(inner) if inner else pattern
        holder["$or"] = branches
        if dice.random() < 0.2:
            branches[0]["$or"] = [{a_name(dice): leaves(dice, dice.choice(TEXTS), operators)} for _ in range(2)]
    return pattern


def _add(
    dice: random.Random, pattern: dict[str, Any], there: list[tuple[tuple[str, ...], Any]], operators: list[int]
) -> None:
    if there and dice.random() < 0.85:
        names, value = dice.choice(there)
    else:
        names, value = tuple(a_name(dice) for _ in range(dice.randint(1, 3))), a_scalar(dice)
    if len(names) > 1 and dice.random() < 0.15:
        names = (*names[:-2], ".".join(names[-2:]))
    inside = pattern
    for name in names[:-1]:
        following = inside.setdefault(name, {})
        if not isinstance(following, dict):
            return
        inside = following
    if not isinstance(inside.get(names[-1]), dict):
        inside[names[-1]] = leaves(dice, value, operators)


def leaves(dice: random.Random, value: Any, operators: list[int]) -> list[Any]:
    """Return what is asked of a field, of which *value* is one."""
    return [
        a_leaf(dice, value if dice.random() < 0.7 else a_scalar(dice), operators)
        for _ in range(dice.choices((1, 2, 3), (7, 2, 1))[0])
    ]


def a_leaf(dice: random.Random, value: Any, operators: list[int]) -> Any:
    """Return a comparison, most often one that *value* meets."""
    text = value if isinstance(value, str) and not isinstance(value, Digits) else dice.choice(TEXTS)
    digits = value if isinstance(value, Digits) and value in NUMBERS else Digits(dice.choice(NUMBERS))
    cut = dice.randint(0, len(text))
    folded = dice.choice((str.lower, str.upper, str.swapcase, str))(text)
    if "😀" in folded:
        folded = "x"  # The engine reads each half of it as a question mark in these operators: decided otherwise.
    match dice.choice(operators):
        case 0 | 1 | 2 | 3:
            return digits if isinstance(value, Digits) else value
        case 4:
            return {"prefix": text[:cut]}
        case 5:
            return {"suffix": text[cut:]}
        case 6:
            return {"equals-ignore-case": folded}
        case 7:
            return {"prefix": {"equals-ignore-case": folded[:cut]}}
        case 8:
            return {"suffix": {"equals-ignore-case": folded[cut:]}}
        case 9 | 10:
            return {"wildcard": a_wildcard(dice, text)}
        case 11 | 12:
            return {"anything-but": anything_but(dice, text, digits, folded)}
        case 13 | 14:
            return {"numeric": a_range(dice, digits)}
        case 15:
            return {"cidr": dice.choice(CIDRS) if dice.random() < 0.95 else dice.choice(BAD_CIDRS)}
        case _:
            return {"exists": dice.random() < 0.5}


def a_wildcard(dice: random.Random, text: str) -> str:
    """Return a wildcard that a text fits, as a rule."""
    made = ""
    for character in text:
        if dice.random() < 0.35:
            made += "*" if not made.endswith("*") or dice.random() < 0.05 else ""
        else:
            made += "\\" + character if character in "*\\" and dice.random() < 0.9 else character
    return made + "*" if dice.random() < 0.3 and not made.endswith("*") else made


def anything_but(dice: random.Random, text: str, digits: Digits, folded: str) -> Any:
    """Return what a value may not be."""
    match dice.randrange(10):
        case 0:
            return text
        case 1:
            return digits
        case 2:
            return [text, *dice.choices(TEXTS, k=2)]
        case 3:
            return [digits, Digits(dice.choice(NUMBERS))]
        case 4:
            return {"prefix": text[:2]}
        case 5:
            return {"suffix": [text[-2:], dice.choice(TEXTS)]}
        case 6:
            return {"equals-ignore-case": [folded, dice.choice(("a", "é"))]}
        case 7:
            return {"wildcard": a_wildcard(dice, text)}
        case 8:
            return {"prefix": [text[:1], dice.choice(TEXTS)[:2]]}
        case _:
            return {"wildcard": [a_wildcard(dice, text), a_wildcard(dice, dice.choice(TEXTS))]}


def a_range(dice: random.Random, digits: Digits) -> list[Any]:
    """Return a comparison of numbers."""
    other = Digits(dice.choice(NUMBERS))
    match dice.randrange(4):
        case 0:
            return ["=", digits]
        case 1:
            return [dice.choice((">", ">=", "<", "<=")), digits]
        case _:
            low, high = sorted((digits, other), key=float)
            return [dice.choice((">", ">=")), low, dice.choice(("<", "<=")), high]


def broken(dice: random.Random, pattern: Any) -> Any:
    """Return a pattern with one part exchanged for something else, left out or wrapped."""
    inside = [each for each in _parts(pattern) if each]
    if not inside:
        return pattern
    part = dice.choice(inside)
    place = dice.choice(list(part) if isinstance(part, dict) else range(len(part)))
    junk: tuple[Any, ...] = (
        {},
        [],
        [[]],
        "x",
        Digits("7"),
        None,
        True,
        [None],
        {"x": []},
        {"prefix": Digits("1")},
        {"a": ["b"]},
        [{"c": 1}],
    )
    match dice.randrange(5):
        case 0 | 1:
            part[place] = json.loads(json.dumps(dice.choice(junk)), parse_int=Digits)
        case 2:
            del part[place]
        case 3:
            part[place] = [part[place]]
        case _:
            if isinstance(part, dict):
                part[dice.choice(("prefix", "$or", "numeric", "exists", "cidr", "a"))] = part.pop(place)
            else:
                part.append(part[place])
    return pattern


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _parts(each)
