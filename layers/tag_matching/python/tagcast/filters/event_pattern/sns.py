"""The restrictions of SNS: fewer operators, and limits of its own."""

from collections.abc import Iterator, Mapping
from math import prod

from tagcast.errors import Fault, FaultCode
from tagcast.filters.compiled import pointer_part
from tagcast.filters.event_pattern.pattern import OR, Pattern

SNS_OPERATORS = frozenset(
    ("prefix", "suffix", "equals-ignore-case", "numeric", "cidr", "exists", "anything-but", "anything-but prefix")
)
SNS_KEYS_MAX = 5
SNS_COMBINATIONS_MAX = 150
SNS_NUMBER_MAX = 1_000_000_000
SNS_DECIMALS_MAX = 5


def sns_faults(pattern: Pattern, written: Mapping[str, object], *, in_attributes: bool) -> list[Fault]:
    """Return the faults of a valid pattern under the rules of SNS; pointers are relative to the pattern.

    SNS limits the number of combinations. A combination has one value from each list of the pattern. If a list is
    inside *n* objects, each of its values counts *n* times.
    """
    faults = [Fault(detail, pointer, FaultCode.TOO_LARGE) for pointer, detail in _number_faults(written, "")]
    keys = dict.fromkeys(_keys(written, pattern.or_is_a_field))
    if len(keys) > SNS_KEYS_MAX:
        faults.append(Fault(f"SNS allows at most {SNS_KEYS_MAX} keys", "", FaultCode.TOO_LARGE))
    if in_attributes and any(condition.level > 1 for condition in pattern.conditions):
        faults.append(Fault("SNS does not allow nested keys for attributes", "", FaultCode.CONFLICT))
    sizes = [condition.count * condition.level for condition in pattern.conditions]
    if sum(prod(sizes[place] for place in alternative) for alternative in pattern.alternatives) > SNS_COMBINATIONS_MAX:
        faults.append(
            Fault(f"SNS allows at most {SNS_COMBINATIONS_MAX} combinations of values", "", FaultCode.TOO_LARGE)
        )
    return faults


def _keys(members: Mapping[str, object], or_is_a_field: bool) -> Iterator[str]:
    for name, value in members.items():
        if name == OR and isinstance(value, list) and not or_is_a_field:
            for each in value:
                if isinstance(each, Mapping):
                    yield from _keys(each, or_is_a_field)
        else:
            yield name


def _number_faults(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _number_faults(each, f"{pointer}/{pointer_part(name)}")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _number_faults(each, f"{pointer}/{place}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > SNS_NUMBER_MAX:
            yield pointer, f"SNS allows numbers from -{SNS_NUMBER_MAX} to {SNS_NUMBER_MAX}"
        elif round(value, SNS_DECIMALS_MAX) != value:
            yield pointer, f"SNS allows numbers with at most {SNS_DECIMALS_MAX} digits after the point"
