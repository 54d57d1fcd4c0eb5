"""Writes the modules that the API's document determines: `settings`, `models` and `_async/operations`.

A schema of requests becomes a TypedDict, a schema of answers a frozen dataclass, an operation a method. The tables
below hold what the document does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import fill, indent
from typing import Any

Schema = Mapping[str, Any]

NAMES = {
    "BatchedPushes": "Batch",
    "ClientCertificateBody": "Certificate",
    "LaneBody": "NamedLane",
    "LaneHeadBody": "NamedHead",
    "Sql92Filter": "SqlFilter",
    "SubscriptionBody": "SubscriptionSettings",
    "SubscriptionPatch": "SubscriptionChanges",
    "TopicBody": "TopicSettings",
    "TopicPatch": "TopicChanges",
}
"""Classes with another name than their schema; an answer loses its ``Answer``."""
HAND_WRITTEN = {
    "MessageBody": "NewMessage",
    "PulledAnswer": "Pulled",
    "ReplayedMessage": "ArchivedMessage",
    "TestedMessage": "NewMessage",
}
METHODS_BY_HAND = {"create_subscriptions", "publish", "publish_batch", "replay", "update_subscription"}
"""They split batches, have idempotency keys, or replace objects as a whole."""
REPEATABLE_IF = {
    "promote_shadow": "False",  # The shadow is gone once it is promoted.
    "rotate_secret": "secret is not None",  # Only one answer shows a generated secret.
    "skip": "False",  # The next head would be skipped, too.
    "skip_lanes": "bool(dry_run)",
}
"""When a request may be repeated after a lost answer; the others always, except conditional ones."""
DEFAULTS = {"filter_error_count": 0}
"""Values of fields that an answer leaves out, where the document names no default."""
UNIONS = {"Filter": "AnyFilter"}
"""Names of unions; the others are named by the common end of their members."""
SENT_AS = {"Endpoint": "str | Endpoint"}
"""Arguments may be a URL in place of an endpoint."""
INSTANTS = ("date-time", "start-from")
CONDITIONS = {"If-Match", "If-None-Match"}
ARRAYS = {"answer": "tuple[{}, ...]", "argument": "Sequence[{}]", "form": "list[{}]"}
SCALARS = {"boolean": "bool", "integer": "int", "null": "None", "number": "float", "string": "str"}

_HEAD = '"""{}\n\n`openapi_source.py` writes this module from the API\'s document; change that.\n"""\n\n'
SETTINGS_HEAD = (
    _HEAD.format("Settings and filters as the API takes them.")
    + """from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from tagcast_client.setting import Setting
"""
)
MODELS_HEAD = (
    _HEAD.format("Answers of the API as values. Unknown fields are left out. Instants are aware datetimes.")
    + """from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tagcast_client.body import WithBody
"""
)
OPERATIONS_HEAD = (
    _HEAD.format("One method for each operation of the API.")
    + """from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

from tagcast_client._async.connection import AsyncConnection, AsyncPages
from tagcast_client.changing import settings_of
from tagcast_client.instants import instant
from tagcast_client.operation import (
    Operation, given, if_match, nothing, path_of, query_of, reads, reads_list, reads_object, reads_page,
)
from tagcast_client.outgoing import NewMessage
from tagcast_client.received import Pulled
"""
)


def write(document: Schema, package: Path) -> None:
    """Write the modules into the folder *package*."""
    modules = Modules(document)
    operations = modules.operations()
    modules.class_of("NamedSubscription")
    modules.class_of("SubscriptionPatch")
    modules.class_of("AcceptedAnswer")
    modules.class_of("RefusedAnswer")
    forms = "".join(text for _, text in sorted(modules.forms.items()))
    models = "".join(text for _, text in sorted(modules.models.items()))
    unions = "".join(f"\n{name} = {' | '.join(members)}\n" for name, members in sorted(modules.unions.items()))
    tables = modules.table("TOPIC_SETTINGS", "TopicBody") + modules.table("SUBSCRIPTION_SETTINGS", "SubscriptionBody")
    names = [*modules.forms, *modules.unions]
    settings = SETTINGS_HEAD + exports([*names, "TOPIC_SETTINGS", "SUBSCRIPTION_SETTINGS"])
    (package / "settings.py").write_text(settings + forms + unions + modules.filter_defaults() + tables)
    (package / "models.py").write_text(
        MODELS_HEAD + imports("settings", names, models) + exports(modules.models) + models
    )
    imported = imports("models", modules.models, operations) + imports("settings", names, operations)
    (package / "_async" / "operations.py").write_text(OPERATIONS_HEAD + imported + operations)


def imports(module: str, names: Iterable[str], text: str) -> str:
    """Return the import of those *names* that *text* has."""
    used = sorted(name for name in names if re.search(rf"\b{name}\b", text))
    return f"from tagcast_client.{module} import {', '.join(used)}\n" if used else ""


def exports(names: Iterable[str]) -> str:
    """Return the list of the public names of a module."""
    return f"\n__all__ = {sorted(names)!r}\n"


def docstring(text: str, margin: str = "    ") -> str:
    """Return a docstring, each of its paragraphs wrapped."""
    paragraphs = [fill(each, 119 - len(margin)) for each in text.strip().split("\n\n")]
    quoted = "\n\n".join(paragraphs).replace("\\", "\\\\").replace('"""', "'''")
    end = f"\n{margin}" if "\n" in quoted or quoted.endswith('"') else ""
    return indent(f'"""{quoted}', margin, lambda line: bool(line.strip())) + f'{end}"""\n'


def without_null(kind: str) -> str:
    """Return an annotation without its None."""
    return kind.removesuffix(" | None")


class Modules:
    """The text of the modules of one document; a class is written when something refers to it."""

    def __init__(self, document: Schema) -> None:
        self.document = document
        self.schemas: Mapping[str, Schema] = document["components"]["schemas"]
        self.forms: dict[str, str] = {}
        self.models: dict[str, str] = {}
        self.unions: dict[str, list[str]] = {}
        self._schema_of: dict[str, str] = {}

    def class_of(self, schema_name: str) -> str:
        """Return the name of the class of a schema. Raises ValueError when two schemas have the same."""
        if schema_name in HAND_WRITTEN:
            return HAND_WRITTEN[schema_name]
        name = NAMES.get(schema_name, schema_name.removesuffix("Answer"))
        if self._schema_of.setdefault(name, schema_name) != schema_name:
            raise ValueError(f"{schema_name} and {self._schema_of[name]} are both named {name}: add one to NAMES")
        if name not in self.forms and name not in self.models:
            is_sent = self.schemas[schema_name].get("additionalProperties") is False
            texts, write_class = (self.forms, self._form) if is_sent else (self.models, self._model)
            texts[name] = ""
            texts[name] = write_class(name, schema_name)
        return name

    def annotation(self, schema: Schema, place: str) -> str:
        """Return the annotation of a value in an `answer`, an `argument`, or a `form` (a TypedDict)."""
        if "$ref" in schema:
            return self.class_of(schema["$ref"].rpartition("/")[2])
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if choices:
            kinds = [self.annotation(each, place) for each in choices]
            if len(kinds) > 1 and all("$ref" in each for each in choices):
                return self._union(kinds, place)
            return " | ".join(sorted(dict.fromkeys(kinds), key=lambda kind: kind == "None"))
        if words := schema.get("enum") or ([schema["const"]] if "const" in schema else None):
            return f"Literal[{', '.join(map(repr, words))}]"
        if schema.get("type") == "array":
            return ARRAYS[place].format(self.annotation(schema.get("items", {}), place))
        if schema.get("type") == "object":
            inner = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties"))
            return f"Mapping[str, {self.annotation(inner, place) if isinstance(inner, Mapping) else 'Any'}]"
        if schema.get("format") in INSTANTS:
            return "datetime" if place == "answer" else "str | datetime"
        return SCALARS.get(schema.get("type", ""), "Any")

    def _union(self, members: list[str], place: str) -> str:
        ends = [re.findall("[A-Z][a-z0-9]*", each)[-1] for each in members]
        if len(set(ends)) > 1:
            return " | ".join(members)
        name = UNIONS.get(ends[0], ends[0])
        self.unions[name] = members
        return name if place == "answer" else SENT_AS.get(name, name)

    def _form(self, name: str, schema_name: str) -> str:
        schema = self.schemas[schema_name]
        is_patch, required = schema_name.endswith("Patch"), schema.get("required", ())
        whole = self.schemas.get(schema_name.replace("Patch", "Body"), schema)["properties"]
        lines = []
        for field, described in schema["properties"].items():
            if name.endswith("Settings") and field in required:
                continue  # An argument of its own.
            kind = self.annotation(described, "form")
            if is_patch:
                free = without_null(kind) == "Mapping[str, Any]"
                kind = f"{without_null(self.annotation(whole[field], 'form') if free else kind)} | None"
            lines.append(f"    {field}: {kind if field in required else f'NotRequired[{kind}]'}\n")
            lines.append(docstring(described["description"]) if described.get("description") else "")
        head = f"\n\nclass {name}(TypedDict):\n"
        return head + docstring(schema.get("description", name)) + "\n" + "".join(lines)

    def _model(self, name: str, schema_name: str) -> str:
        schema = self.schemas[schema_name]
        properties, required = dict(schema["properties"]), schema.get("required", ())
        settings = self.schemas.get(f"{name}Body", {}).get("properties", {})
        has_body = "body_base64" in properties  # Two forms of one field.
        if has_body:
            del properties["body_base64"]
            properties["body"] = {**properties["body"], "type": "string"}
        lines: list[str] = []
        for field, described in sorted(properties.items(), key=lambda item: item[0] not in required):
            kind, setting = self.annotation(described, "answer"), settings.get(field, {})
            if has_body and field == "body":
                kind, default = "bytes | None", " = None"
            elif field in required:
                default = ""
            else:
                kind, default = self._with_default(field, kind, described, setting)
            if self.flattened(setting).get("writeOnly") and default == " = None":
                default = " = field(default=None, repr=False)"
            lines.append(f"    {field}: {kind}{default}\n")
            lines.append(docstring(described["description"]) if described.get("description") else "")
        head = f"\n\n@dataclass(frozen=True, slots=True)\nclass {name}{'(WithBody)' if has_body else ''}:\n"
        return head + docstring(schema.get("description", name)) + "\n" + "".join(lines)

    def _with_default(self, field: str, kind: str, described: Schema, setting: Schema) -> tuple[str, str]:
        """Return annotation and default of a field that an answer may leave out."""
        default = described.get("default", setting.get("default", DEFAULTS.get(field)))
        if default is not None:
            return kind, f" = {default!r}"
        if kind == "bool":
            return kind, " = False"
        if kind.startswith("tuple["):
            return kind, " = ()"
        if kind.startswith("Mapping[") and kind != "Mapping[str, Any]":
            return kind, " = field(default_factory=dict)"
        return f"{without_null(kind)} | None", " = None"

    def flattened(self, schema: Schema) -> dict[str, Any]:
        """Return a property with what it refers to: a schema, parts of it, or its only choice besides null."""
        parts = [self.schemas[schema["$ref"].rpartition("/")[2]]] if "$ref" in schema else schema.get("allOf", [])
        choices = [each for each in schema.get("anyOf", schema.get("oneOf", ())) if each.get("type") != "null"]
        found: dict[str, Any] = {}
        for part in [*parts, *choices[:1]] if len(choices) == 1 else parts:
            found |= {key: value for key, value in self.flattened(part).items() if key != "description"}
        kinds = {self.flattened(each).get("type", "any") for each in choices}
        return found | ({"type": kinds.pop()} if len(kinds) == 1 else {}) | dict(schema)

    def table(self, name: str, schema_name: str) -> str:
        """Return the table of the settings of a resource."""
        rows = "".join(
            f"    Setting({field!r}, {self._setting(each)}),\n"
            for field, each in self.schemas[schema_name]["properties"].items()
        )
        return f"\n{name}: tuple[Setting, ...] = (\n{rows})\n"

    def _setting(self, described: Schema) -> str:
        flat = self.flattened(described)
        held = flat.get("properties", {}).values()
        values = {
            "help": described.get("description", ""),
            "choices": tuple(flat.get("enum", ())),
            "minimum": flat.get("minimum"),
            "maximum": flat.get("maximum"),
            "default": flat.get("default"),
            "is_write_only": flat.get("writeOnly", bool(held) and all(each.get("writeOnly") for each in held)),
            "extra": {key.removeprefix("x-"): value for key, value in flat.items() if key.startswith("x-")},
        }
        given = [f"{name}={value!r}" for name, value in values.items() if value not in (None, "", (), {}, False)]
        return ", ".join([repr(flat.get("type", "any")), *given])

    def filter_defaults(self) -> str:
        """Return the table of the defaults of each kind of filter."""
        kinds = (self.schemas[self._schema_of[each]]["properties"] for each in self.unions["AnyFilter"])
        rows = {
            each["kind"]["const"]: {field: known["default"] for field, known in each.items() if "default" in known}
            for each in kinds
        }
        return f"\nFILTER_DEFAULTS: Mapping[str, Mapping[str, Any]] = {rows!r}\n"

    def operations(self) -> str:
        """Return the class with a method for each operation."""
        methods = [
            self._method(path, verb.upper(), operation)
            for path, item in self.document["paths"].items()
            for verb, operation in item.items()
            if operation["operationId"] not in METHODS_BY_HAND
        ]
        return f'\n\nclass AsyncOperations(AsyncConnection):\n    """The operations of the API."""\n{"".join(methods)}'

    def _method(self, path: str, verb: str, operation: Schema) -> str:
        name, parameters = operation["operationId"], operation.get("parameters", ())
        headers = {each["name"] for each in parameters if each["in"] == "header"} - {"tagcast-version"}
        if headers - CONDITIONS:
            raise ValueError(f"{name} has headers that no method sends: {headers - CONDITIONS}")
        creates, is_conditional = "If-None-Match" in headers, "If-Match" in headers
        result, reader, is_page = self._answer(operation)
        arguments = Arguments(self, [word[1:-1] for word in path.split("/") if word.startswith("{")])
        query = [each for each in parameters if each["in"] == "query"]
        for each in query:
            if not (is_page and each["name"] == "cursor"):
                arguments.add(each["name"], {**each["schema"], **each}, is_required=each["required"])
        body = arguments.body(operation.get("requestBody", {}).get("content", {}).get("application/json", {}))
        if is_conditional and not creates:
            arguments.keywords.insert(0, "if_version: int | None = None")
        sent = [repr(verb), path_expression(path), reader]
        sent += [f"given(**{body})" if creates else body] if body else []
        if query:
            pairs = ", ".join(f"{each['name']!r}: {each['name']}" for each in query)
            sent.append(f"query=query_of({{{pairs}}})")
        repeatable = [REPEATABLE_IF[name]] if name in REPEATABLE_IF else []
        if creates:
            sent.append('headers={"If-None-Match": "*"}')
            repeatable = ["False"]
        elif is_conditional:
            sent.append("headers=if_match(if_version)")
            repeatable += ["if_version is None"] if verb != "DELETE" else []
        sent += [f"repeatable={' and '.join(repeatable)}"] if repeatable else []
        sent += ["gone_is_done=True"] if verb == "DELETE" else []
        call = f"Operation({', '.join(sent)})"
        doc = docstring(arguments.documented(operation), " " * 8)
        send = f"self._list(lambda cursor: {call})" if is_page else f"await self._send({call})"
        start = "def" if is_page else "async def"
        return f"\n    {start} {name}({arguments.text()}) -> {result}:\n{doc}        return {send}\n"

    def _answer(self, operation: Schema) -> tuple[str, str, bool]:
        """Return annotation and reader of an answer, and whether it is one page of a list."""
        done = next(each for status, each in operation["responses"].items() if status.startswith("2"))
        if "content" not in done:
            return "None", "nothing", False
        schema = done["content"]["application/json"]["schema"]
        if "$ref" not in schema:
            return "Mapping[str, Any]", "reads_object", False
        properties = self.schemas[schema["$ref"].rpartition("/")[2]]["properties"]
        lists = [name for name, each in properties.items() if each.get("type") == "array"]
        if len(lists) != 1 or properties.keys() - {"next_cursor", *lists}:
            kind = self.annotation(schema, "answer")
            return kind, f"reads({kind})", False
        item = self.annotation(properties[lists[0]]["items"], "answer")
        if "next_cursor" in properties:
            return f"AsyncPages[{item}]", f'reads_page({item}, "{lists[0]}")', True
        return f"tuple[{item}, ...]", f'reads_list({item}, "{lists[0]}")', False


def path_expression(path: str) -> str:
    """Return the call that makes a path.

    >>> path_expression("/topics/{topic}/tail")
    'path_of("topics", topic, "tail")'
    """
    words = [word[1:-1] if word.startswith("{") else f'"{word}"' for word in path.strip("/").split("/") if word]
    return f"path_of({', '.join(words)})" if words else '"/"'


class Arguments:
    """The arguments of a method: path parameters and required values by position, all others by keyword."""

    def __init__(self, modules: Modules, path_parameters: list[str]) -> None:
        self._modules = modules
        self.positional = [f"{name}: str" for name in path_parameters]
        self.keywords: list[str] = []
        self._rest: list[str] = []
        self._help: list[str] = []

    def add(self, name: str, schema: Schema, *, is_required: bool) -> None:
        """Add an argument."""
        kind = self._modules.annotation(schema, "argument")
        if is_required:
            self.positional.append(f"{name}: {kind}")
        else:
            self.keywords.append(f"{name}: {without_null(kind)} | None = None")
        if schema.get("description"):
            self._help.append(f"*{name}*: {schema['description']}")

    def body(self, content: Schema) -> str:
        """Add the arguments of a body, and return the expression that makes it; empty if there is none."""
        if not content:
            return ""
        schema_name = content["schema"]["$ref"].rpartition("/")[2]
        schema, required = self._modules.schemas[schema_name], self._modules.schemas[schema_name].get("required", ())
        name = NAMES.get(schema_name, "")
        if name.endswith(("Settings", "Changes")):
            for field in required:
                self.add(field, schema["properties"][field], is_required=True)
            self._rest = [f"**settings: Unpack[{self._modules.class_of(schema_name)}]"]
            return f"settings_of({', '.join([name, 'settings', *(f'{field}={field}' for field in required)])})"
        sent, optional = [], []
        for field, described in schema["properties"].items():
            self.add(field, described, is_required=field in required)
            flat = self._modules.flattened(described)
            value = f"None if {field} is None else instant({field})" if flat.get("format") in INSTANTS else field
            sent += [f'"{field}": {value}'] if field in required else []
            optional += [f"{field}={value}"] if field not in required else []
        rest = f"given({', '.join(optional)})" if optional else ""
        return f"{{{', '.join([*sent, *([f'**{rest}'] if rest else [])])}}}" if sent else rest

    def text(self) -> str:
        """Return the arguments as they stand in a signature."""
        keywords = ["*", *self.keywords] if self.keywords else []
        return ", ".join(["self", *self.positional, *keywords, *self._rest])

    def documented(self, operation: Schema) -> str:
        """Return the docstring of the method."""
        parts = [f"{operation['summary'].rstrip('.')}.", operation.get("description", ""), *self._help]
        return "\n\n".join(filter(None, parts))
