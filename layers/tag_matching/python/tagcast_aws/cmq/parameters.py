"""Reads the parameters of a request; a fault raises CmqError with its code pair and the parameter's name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tagcast.filters.compiled import is_plain_text
from tagcast.filters.routing_key_filter import KEY_BYTES_MAX, KEY_DOTS_MAX, key_faults

from tagcast_aws.api.limits import NAME
from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.form import format_name
from tagcast_aws.cmq.limits import INTEGER_DIGITS_MAX, TAG_LENGTH_MAX

_NAME = re.compile(NAME)
_NAME_LENGTH_MAX = 64
_INDEX = re.compile(r"0|[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by name. A name may begin with a capital, as in CMQ's English documents."""

    given: Mapping[str, str]

    def value(self, name: str) -> str | None:
        """Return the given text, blank or not; None if it is missing."""
        found = self.given.get(name)
        return self.given.get(f"{name[0].upper()}{name[1:]}") if found is None else found

    def optional(self, name: str) -> str | None:
        """Return a text; None if it is missing or blank."""
        return self.value(name) or None

    def text(self, name: str) -> str:
        """Return a text. Raises CmqError if it is missing or blank."""
        found = self.optional(name)
        if found is None:
            raise CmqError(CmqFault.LACKS, name)
        return found

    def digits(self, name: str, length_max: int) -> str:
        """Return a required number of at most *length_max* digits, as the text that was sent."""
        found = self.text(name)
        if not re.fullmatch(rf"[0-9]{{1,{length_max}}}", found):
            raise CmqError(CmqFault.TYPE, name)
        return found

    def integer(self, name: str, low: int, high: int) -> int | None:
        """Return a number from *low* to *high*, or None if it is missing."""
        found = self.optional(name)
        if found is None:
            return None
        if not re.fullmatch(rf"-?[0-9]{{1,{INTEGER_DIGITS_MAX}}}", found):
            raise CmqError(CmqFault.TYPE, name)
        if not low <= int(found) <= high:
            raise CmqError(CmqFault.OUT_OF_RANGE, name)
        return int(found)

    def items(self, name: str) -> tuple[str, ...]:
        """Return the values of an array; none if it is missing. Its indices count from 0 or 1 without a gap.

        >>> Parameters({"msgTag.2": "b", "msgTag.1": "a"}).items("msgTag")
        ('a', 'b')
        """
        found: dict[int, str] = {}
        for key, value in self.given.items():
            array, dot, place = key.partition(".")
            if not dot or f"{array[:1].lower()}{array[1:]}" != name:
                continue
            if not _INDEX.fullmatch(place):
                raise CmqError(CmqFault.KEY_FORMAT, format_name(key))
            if int(place) in found:
                raise CmqError(CmqFault.REPEATED, format_name(key))
            found[int(place)] = value
        places = sorted(found)
        if places and (places[0] > 1 or places[-1] - places[0] != len(places) - 1):
            raise CmqError(CmqFault.NOT_CONSECUTIVE, name)
        return tuple(found[place] for place in places)

    def check_known(self, known: Collection[str]) -> None:
        """Raise CmqError for a parameter that is not in *known*, or is given in two spellings.

        >>> Parameters({"TopicName": "t", "msgTag.1": "a"}).check_known(("topicName", "msgTag.n"))
        """
        found: set[str] = set()
        for key in self.given:
            array, dot, place = key.partition(".")
            name = f"{array}.n" if dot else array
            name = name if name in known else f"{name[:1].lower()}{name[1:]}"
            if name not in known:
                raise CmqError(CmqFault.UNKNOWN_PARAMETER, format_name(key))
            if (spelled := f"{name}{place}") in found:
                raise CmqError(CmqFault.REPEATED, format_name(key))
            found.add(spelled)

    def topic(self) -> str:
        """Return the name of the request's topic."""
        name = self.text("topicName")
        if not _NAME.fullmatch(name):
            raise CmqError(CmqFault.TOPIC_NAME)
        return name

    def subscription(self) -> str:
        """Return the name of the request's subscription."""
        name = self.text("subscriptionName")
        if len(name) > _NAME_LENGTH_MAX:
            raise CmqError(CmqFault.SUBSCRIPTION_NAME_LENGTH)
        if not _NAME.fullmatch(name):
            raise CmqError(CmqFault.SUBSCRIPTION_NAME)
        return name

    def tags(self, name: str, most: int, too_many: CmqError) -> tuple[str, ...]:
        """Return the distinct tags in the array *name*. Raises *too_many* if there are more than *most*."""
        found = self.items(name)
        if len(found) > most:
            raise too_many
        if not all(1 <= len(tag) <= TAG_LENGTH_MAX and is_plain_text(tag) for tag in found):
            raise CmqError(CmqFault.OUT_OF_RANGE, name)
        return tuple(dict.fromkeys(found))

    def keys(self, name: str, most: int, too_many: CmqError) -> tuple[str, ...]:
        """Return the distinct binding keys in the array *name*. Raises *too_many* if there are more than *most*."""
        found = self.items(name)
        if len(found) > most:
            raise too_many
        for key in found:
            check_key(name, key)
        return tuple(dict.fromkeys(found))


def check_key(name: str, key: str) -> None:
    """Raise CmqError if a routing or binding key is too long, or has too many dots or an empty word."""
    if len(key.encode()) <= KEY_BYTES_MAX and key.count(".") > KEY_DOTS_MAX:
        raise CmqError(CmqFault.DOTS, name)
    if any(key_faults(key)):
        raise CmqError(CmqFault.OUT_OF_RANGE, name)
