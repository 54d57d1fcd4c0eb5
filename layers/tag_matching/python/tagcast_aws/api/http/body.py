"""Request bodies: strict models that refuse unknown fields and report all faults at once.

`cross_faults` checks rules between fields on the raw JSON, so its faults are reported with those of single fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.config import JsonDict
from pydantic_core import ErrorDetails, PydanticCustomError
from tagcast.errors import Fault, FaultCode
from tagcast.filters.compiled import pointer_part

from tagcast_aws.api.limits import BATCH_MAX, FAULTS_MAX

B = TypeVar("B", bound="Body")
NAME_COMPARED_MAX = 64
"""The characters of an unknown name that are compared with those of the fields: a name may be as long as a body."""

_MESSAGES: Mapping[str, tuple[str, FaultCode]] = {
    "missing": ("is required", FaultCode.REQUIRED),
    "extra_forbidden": ("is not a known field", FaultCode.UNKNOWN),
    "string_type": ("must be a text", FaultCode.WRONG_TYPE),
    "int_type": ("must be an integer", FaultCode.WRONG_TYPE),
    "float_type": ("must be a number", FaultCode.WRONG_TYPE),
    "bool_type": ("must be true or false", FaultCode.WRONG_TYPE),
    "list_type": ("must be an array", FaultCode.WRONG_TYPE),
    "dict_type": ("must be an object", FaultCode.WRONG_TYPE),
    "model_type": ("must be an object", FaultCode.WRONG_TYPE),
    "model_attributes_type": ("must be an object", FaultCode.WRONG_TYPE),
    "string_too_short": ("must not be empty", FaultCode.TOO_SMALL),
    "string_too_long": ("must have at most {max_length} characters", FaultCode.TOO_LARGE),
    "string_pattern_mismatch": ("must match {pattern}", FaultCode.WRONG_FORMAT),
    "too_short": ("must not be empty", FaultCode.TOO_SMALL),
    "too_long": ("must have at most {max_length} items", FaultCode.TOO_LARGE),
    "greater_than_equal": ("must be at least {ge}", FaultCode.TOO_SMALL),
    "less_than_equal": ("must be at most {le}", FaultCode.TOO_LARGE),
    "literal_error": ("must be one of {expected}", FaultCode.NOT_ALLOWED),
    "union_tag_invalid": ("must be one of {expected_tags}", FaultCode.NOT_ALLOWED),
    "union_tag_not_found": ("is required", FaultCode.REQUIRED),
}
_OUR_CODES = FaultCode._value2member_map_
"""A validator of ours uses its fault code as the error type. Any other unlisted pydantic error is a wrong format."""


class Body(BaseModel):
    """The base of all request bodies. It refuses unknown fields, and converts no value to another type.

    *unions* maps a field with several possible models to the property that selects the model. *item_models* are the
    models of items that are validated one by one.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    # Fields that hold one of several models, with the field that tells which one.
    unions: ClassVar[Mapping[str, str]] = {}

    # Models of items that are read one by one; the schema refers to them by their names.
    item_models: ClassVar[tuple[type[Body], ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _check_field_count(cls, value: object) -> object:
        """Refuse an object with far too many fields, before validation reports a fault for each."""
        if isinstance(value, Mapping) and len(value) > len(cls.model_fields) + FAULTS_MAX:
            raise PydanticCustomError(FaultCode.TOO_LARGE.value, "has too many fields")
        return value

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Return a fault for each broken rule between fields. Pointers are relative to this body."""
        return []

    def named_fields(self) -> dict[str, Any]:
        """Return the values of the fields that the request names, including null values."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    @classmethod
    def is_required(cls) -> bool:
        """Return whether a request without a body is refused."""
        return any(field.is_required() for field in cls.model_fields.values())


class EmptyBody(Body):
    """A request body without fields."""


def separately_validated(model: type[Body]) -> Any:
    """Return the declaration of a list whose items are validated separately, each as a *model*.

    An invalid item does not make the other items invalid.
    """
    schema: JsonDict = {"$ref": f"#/components/schemas/{model.__name__}"}
    return Field(max_length=BATCH_MAX, json_schema_extra={"items": schema})


def limit_field_count(most: int, what: str) -> BeforeValidator:
    """Return a validator that allows at most *most* fields in an object. *what* names the fields in the error.

    The validator runs before the fields themselves are validated.
    """

    def check_count(value: object) -> object:
        if isinstance(value, Mapping) and len(value) > most:
            raise PydanticCustomError(FaultCode.TOO_LARGE.value, f"must have at most {most} {what}")
        return value

    return BeforeValidator(check_count)


def read(model: type[B], value: object) -> tuple[B | None, list[Fault]]:
    """Return *value* as an object of type *model* and no faults, or None and the faults of *value*.

    >>> body, [fault] = read(EmptyBody, {"size": 1})
    >>> fault.detail, fault.pointer, fault.code.value
    ('is not a known field', '/size', 'unknown')
    """
    if not isinstance(value, Mapping):
        return None, [Fault("must be an object", "", FaultCode.WRONG_TYPE)]
    crossed = model.cross_faults(value)
    try:
        body = model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[:FAULTS_MAX]
        return None, ([_fault(model, detail) for detail in details] + crossed)[:FAULTS_MAX]
    return (None, crossed[:FAULTS_MAX]) if crossed else (body, [])


def _fault(model: type[Body], error: ErrorDetails) -> Fault:
    kind, place = error["type"], [part for part in error["loc"] if part != "[key]"]
    owner = ""
    if len(place) > 1 and place[0] in model.unions:
        owner = f" of {place.pop(1)}"
    elif place and place[0] in model.unions and kind.startswith("union_tag"):
        place.append(model.unions[str(place[0])])
    pointer = "".join(f"/{pointer_part(part)}" for part in place)
    if kind not in _MESSAGES:
        return Fault(error["msg"], pointer, FaultCode(kind) if kind in _OUR_CODES else FaultCode.WRONG_FORMAT)
    text, code = _MESSAGES[kind]
    # The owner may be a default, of which the caller does not know.
    owned = owner if kind == "extra_forbidden" and len(place) == 2 else ""
    if kind == "extra_forbidden" and len(place) == 1:
        owned = _proposal(str(place[0]), model)
    return Fault(text.format_map(error.get("ctx", {})) + owned, pointer, code)


def _proposal(name: str, model: type[Body]) -> str:
    """Return the field of *model* with the most similar name, as an end of the fault's sentence."""
    from difflib import get_close_matches  # Only refusals need it, and its import takes time at a cold start.

    similar = get_close_matches(name[:NAME_COMPARED_MAX], model.model_fields, n=1, cutoff=0.75)
    return f"; did you mean {similar[0]}?" if similar else ""
