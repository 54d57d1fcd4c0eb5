"""Writes the generated modules of the client from the API's document: `settings`, `models`, `_async/operations`.

A schema of requests becomes a TypedDict. A schema of answers becomes a frozen dataclass, and an operation becomes a
method. The tables below add facts that the document lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
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
"""Class names that differ from their schema's name. All other class names lose the suffix ``Answer``."""
UNIONS = {"BackoffRetry": "Retry", "HttpEndpoint": "Endpoint", "TagsFilter": "AnyFilter"}
"""The name of each union, by one of its members."""
BY_HAND = {
    "MessageBody": "NewMessage",
    "PulledAnswer": "Pulled",
    "ReplayedMessage": "ArchivedMessage",
    "TestedMessage": "NewMessage",
}
"""Handwritten classes, by their schema."""
METHODS_BY_HAND = {"create_subscriptions", "publish", "publish_batch", "replay", "update_subscription"}
"""Handwritten methods: they split batches, use idempotency keys, or replace objects as a whole."""
USED_BY_HAND = ("AcceptedAnswer", "NamedSubscription", "RefusedAnswer", "SubscriptionPatch")
"""Schemas that only handwritten methods use."""
REPEATABLE_IF = {
    "promote_shadow": "False",  # The shadow is gone once it is promoted.
    "rotate_secret": "secret is not None",  # Only one answer shows a generated secret.
    "skip": "False",  # The next head would be skipped, too.
    "skip_lanes": "bool(dry_run)",
}
"""The conditions under which a request may be repeated after a lost answer.

A request that is not listed may be repeated, unless it is conditional.
"""
DEFAULTS = {"filter_error_count": 0}
"""Defaults of optional answer fields that have no default in the document."""
INSTANTS = ("date-time", "start-from")
ARRAYS = {"answer": "tuple[{}, ...]", "argument": "Sequence[{}]", "form": "list[{}]"}
SCALARS = {"boolean": "bool", "integer": "int", "null": "None", "number": "float", "string": "str"}
IMPORTS = {
    "settings": "from tagcast_client.setting import Setting\n",
    "models": "from tagcast_client.body import WithBody\nfrom tagcast_client.settings import *\n",
    "_async/operations": """from tagcast_client._async.connection import AsyncConnection, AsyncPages
from tagcast_client.changing import settings_of
from tagcast_client.instants import instant
from tagcast_client.models import *
from tagcast_client.operation import Operation, drop_none, if_match, nothing, path_of, query_of
from tagcast_client.operation import reads, reads_list, reads_object, reads_page
from tagcast_client.outgoing import NewMessage
from tagcast_client.received import Pulled
from tagcast_client.settings import *
""",
}
HEAD = '''"""Generated from the API's document by `openapi_source.py`; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict, Unpack

'''


def write(document: Schema, package: Path) -> None:
    """Write the modules into the folder *package*. *document* is the API's document."""
    modules = Modules(document)
    operations = modules.operations()
    for name in USED_BY_HAND:
        modules.class_of(name)
    tables = modules.table("TOPIC_SETTINGS", "TopicBody") + modules.table("SUBSCRIPTION_SETTINGS", "SubscriptionBody")
    tables += modules.table("MESSAGE_ATTRIBUTES", "MessageBody")
    settings = "".join(modules.forms.values()) + modules.filter_defaults() + tables
    names = ["FILTER_DEFAULTS", "MESSAGE_ATTRIBUTES", "SUBSCRIPTION_SETTINGS", "TOPIC_SETTINGS", *modules.forms]
    texts = {
        "settings": f"\n__all__ = {names!r}\n{settings}",
        "models": f"\n__all__ = {[*modules.models]!r}\n" + "".join(modules.models.values()),
        "_async/operations": operations,
    }
    for module, text in texts.items():
        # In `settings` each class precedes its use, so annotations are evaluated, which is faster than texts.
        head = HEAD.replace("from __future__ import annotations\n\n", "") if module == "settings" else HEAD
        (package / f"{module}.py").write_text(head + IMPORTS[module] + text, "utf-8")


def docstring(text: str, margin: str = "    ") -> str:
    """Return the source of a docstring. *text* is its content, in wrapped paragraphs. Lines begin with *margin*."""
    quoted = "\n\n".join(fill(each, 119 - len(margin)) for each in text.strip().split("\n\n"))
    quoted = quoted.replace("\\", "\\\\").replace('"""', "'''")
    end = f"\n{margin}" if "\n" in quoted or quoted.endswith('"') else ""
    return indent(f'"""{quoted}', margin) + f'{end}"""\n'


def without_null(kind: str) -> str:
    """Return the annotation *kind* without its ``| None``."""
    return kind.removesuffix(" | None")


def sent_value(name: str, schema: Schema) -> str:
    """Return the Python expression for the value that a method sends for its argument *name*.

    The expression converts an instant to the API's form. Any other argument is sent unchanged.
    """
    return f"instant({name}) if {name} else None" if schema.get("format") in INSTANTS else name


class Modules:
    """Builds the source of the client's modules from the API's document. Classes that no method needs are left out."""

    def __init__(self, document: Schema) -> None:
        self.document = document
        self.schemas: dict[str, Schema] = document["components"]["schemas"]
        self.forms: dict[str, str] = {}
        self.models: dict[str, str] = {}
        self.unions: dict[str, list[str]] = {}
        self._schema_of: dict[str, str] = {}

    def class_of(self, schema_name: str) -> str:
        """Return the name of a schema's class. Write the class first, unless it is written already or by hand.

        Raises ValueError if another schema has a class of this name.
        """
        if schema_name in BY_HAND:
            return BY_HAND[schema_name]
        name = NAMES.get(schema_name, schema_name.removesuffix("Answer"))
        if name not in self._schema_of:
            self._schema_of[name] = schema_name
            is_sent = self.schemas[schema_name].get("additionalProperties") is False
            (self.forms if is_sent else self.models)[name] = (self._form if is_sent else self._model)(name, schema_name)
        if self._schema_of[name] != schema_name:
            raise ValueError(f"{schema_name} and {self._schema_of[name]} are both named {name}: add one to NAMES")
        return name

    def annotation(self, schema: Schema, place: str) -> str:
        """Return the annotation of a value with this *schema*.

        *place* says where the value is: in an `answer`, as an `argument` of a method, or in a `form` (a TypedDict).
        """
        if "$ref" in schema:
            named = schema["$ref"].rpartition("/")[2]
            if "oneOf" not in self.schemas[named]:
                return self.class_of(named)
            schema = self.schemas[named]
        if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
            kinds = list(dict.fromkeys(self.annotation(each, place) for each in choices))
            if name := next((UNIONS[each] for each in kinds if each in UNIONS), None):
                self.unions[name] = [kind for kind in kinds if kind != "None"]
                self.forms.setdefault(name, f"\n\n{name} = {' | '.join(self.unions[name])}\n")
                text = " | ".join([name, *(["None"] if "None" in kinds else [])])
                return f"str | {text}" if name == "Endpoint" and place != "answer" else text  # A URL is allowed, too.
            return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))
        if words := schema.get("enum", [schema[key] for key in ("const",) if key in schema]):
            return f"Literal[{', '.join(map(repr, words))}]"
        if schema.get("type") == "array":
            return ARRAYS[place].format(self.annotation(schema["items"], place))
        if schema.get("type") == "object":
            inner = schema.get("additionalProperties")
            return f"Mapping[str, {self.annotation(inner, place) if isinstance(inner, Mapping) else 'Any'}]"
        if schema.get("format") in INSTANTS:
            return "datetime" if place == "answer" else "str | datetime"
        return SCALARS.get(schema.get("type", ""), "Any")

    def _form(self, name: str, schema_name: str) -> str:
        """Return a TypedDict. In a patch, an object without described properties gets its type from the PUT's body."""
        schema, lines = self.schemas[schema_name], []
        whole = self.schemas.get(schema_name.replace("Patch", "Body"), schema)["properties"]
        for field, described in schema["properties"].items():
            is_required = field in schema.get("required", ())
            kind = self.annotation(described, "form")
            if schema_name.endswith("Patch"):
                if without_null(kind) == "Mapping[str, Any]":
                    kind = self.annotation(whole[field], "form")
                kind = f"{without_null(kind)} | None"
            if not (is_required and name.endswith("Settings")):  # Methods take these as arguments.
                lines.append(self._field(field, kind if is_required else f"NotRequired[{kind}]", described))
        return f"\n\nclass {name}(TypedDict):\n{docstring(schema.get('description', name))}\n" + "".join(lines)

    def _model(self, name: str, schema_name: str) -> str:
        schema, lines = self.schemas[schema_name], []
        properties, required = dict(schema["properties"]), schema.get("required", ())
        has_body = properties.pop("body_base64", None) is not None  # `body` has both forms.
        for field, described in sorted(properties.items(), key=lambda item: item[0] not in required):
            kind = self.annotation(described, "answer")
            if has_body and field == "body":
                kind = "bytes | None = None"
            elif field not in required:
                kind = self._with_default(field, kind, described, self.schemas.get(f"{name}Body", {}))
            lines.append(self._field(field, kind, described))
        head = f"\n\n@dataclass(frozen=True, slots=True)\nclass {name}{'(WithBody)' if has_body else ''}:\n"
        return head + docstring(schema.get("description", name)) + "\n" + "".join(lines)

    def _field(self, name: str, kind: str, described: Schema) -> str:
        return f"    {name}: {kind}\n" + (docstring(described["description"]) if described.get("description") else "")

    def _with_default(self, field: str, kind: str, described: Schema, body: Schema) -> str:
        """Return annotation and default of an optional answer field. A setting gets its default in the document."""
        setting = self.flatten(body.get("properties", {}).get(field, {}))
        default = described.get("default", setting.get("default", DEFAULTS.get(field)))
        if default is not None:
            return f"{kind} = {default!r}"
        if kind.startswith("Mapping[") and kind != "Mapping[str, Any]":
            return f"{kind} = field(default_factory=dict)"
        if kind == "bool" or kind.startswith("tuple["):
            return f"{kind} = {'False' if kind == 'bool' else '()'}"
        is_secret = setting.get("writeOnly")
        return f"{without_null(kind)} | None = {'field(default=None, repr=False)' if is_secret else 'None'}"

    def flatten(self, schema: Schema) -> dict[str, Any]:
        """Return a property's schema merged with the schemas that it refers to, and with its only choice besides null.

        A schema refers to others by `$ref` and by `allOf`.
        """
        choices = [each for each in schema.get("anyOf", schema.get("oneOf", ())) if each.get("type") != "null"]
        parts = [*schema.get("allOf", ()), *(choices if len(choices) == 1 else ())]
        parts += [self.schemas[schema["$ref"].rpartition("/")[2]]] if "$ref" in schema else []
        found: dict[str, Any] = {}
        for part in parts:
            found |= {key: value for key, value in self.flatten(part).items() if key != "description"}
        kinds = {self.flatten(each).get("type", "any") for each in choices}
        return found | ({"type": kinds.pop()} if len(kinds) == 1 else {}) | dict(schema)

    def table(self, name: str, schema_name: str) -> str:
        """Return the source of the table *name*, which has a `Setting` for each property of *schema_name*."""
        properties = self.schemas[schema_name]["properties"].items()
        rows = "".join(f"    Setting({field!r}, {self._setting(each)}),\n" for field, each in properties)
        return f"\n{name}: tuple[Setting, ...] = (\n{rows})\n"

    def _setting(self, described: Schema) -> str:
        flat = self.flatten(described)
        held = flat.get("properties", {}).values()
        values = {
            "help": described.get("description"),
            "choices": tuple(flat.get("enum", ())),
            "minimum": flat.get("minimum"),
            "maximum": flat.get("maximum"),
            "default": flat.get("default"),
            "is_write_only": flat.get("writeOnly", bool(held) and all(each.get("writeOnly") for each in held)),
            "extra": {key.removeprefix("x-"): value for key, value in flat.items() if key.startswith("x-")},
        }
        arguments = [f"{name}={value!r}" for name, value in values.items() if value not in (None, "", (), {}, False)]
        return ", ".join([repr(flat.get("type", "any")), *arguments])

    def filter_defaults(self) -> str:
        """Return the source of the table with the default values of each filter kind."""
        kinds = [self.schemas[self._schema_of[each]]["properties"] for each in self.unions["AnyFilter"]]
        rows = {
            each["kind"]["const"]: {field: known["default"] for field, known in each.items() if "default" in known}
            for each in kinds
        }
        return f"\nFILTER_DEFAULTS: Mapping[str, Mapping[str, Any]] = {rows!r}\n"

    def operations(self) -> str:
        """Return the source of the class with a method for each operation."""
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
        if unknown := headers - {"If-Match", "If-None-Match"}:
            raise ValueError(f"{name} has headers that no method sends: {unknown}")
        result, reader, is_page = self._answer(operation)
        words = [word.strip("{}") if "{" in word else repr(word) for word in path.split("/") if word]
        arguments = Arguments(self, [word for word in words if word.isidentifier()])
        query = {each["name"]: each for each in parameters if each["in"] == "query"}
        for field, each in query.items():
            if not (is_page and field == "cursor"):
                arguments.add(field, {**each["schema"], **each}, is_required=each["required"])
        body = arguments.body(operation.get("requestBody", {}).get("content", {}).get("application/json", {}))
        sent = [repr(verb), f"path_of({', '.join(words)})", reader, *([body] if body else [])]
        pairs = ", ".join(f"{field!r}: {sent_value(field, each['schema'])}" for field, each in query.items())
        sent += [f"query=query_of({{{pairs}}})"] if query else []
        conditions = [REPEATABLE_IF[name]] if name in REPEATABLE_IF else []
        if "If-None-Match" in headers:
            sent.append('headers={"If-None-Match": "*"}')
            arguments.help.append("Raises AlreadyExistsError.")
            conditions = ["False"]
        elif "If-Match" in headers:
            arguments.keywords.insert(0, "if_version: int | None = None")
            sent.append("headers=if_match(if_version)")
            arguments.help.append("*if_version*: raises PreconditionFailedError if the resource has another version.")
            conditions += ["if_version is None"] if verb != "DELETE" else []
        sent += [f"repeatable={' and '.join(conditions)}"] if conditions else []
        sent += ["gone_is_done=True"] if verb == "DELETE" else []
        call = f"Operation({', '.join(sent)})"
        send = f"self._list(lambda cursor: {call})" if is_page else f"await self._send({call})"
        start = f"\n    {'' if is_page else 'async '}def {name}({arguments.text()}) -> {result}:\n"
        return f"{start}{docstring(arguments.document_method(operation), ' ' * 8)}        return {send}\n"

    def _answer(self, operation: Schema) -> tuple[str, str, bool]:
        """Return the annotation and the reader of an answer, and whether it is a page of a list."""
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
            return f"AsyncPages[{item}]", f"reads_page({item}, {lists[0]!r})", True
        return f"tuple[{item}, ...]", f"reads_list({item}, {lists[0]!r})", False


class Arguments:
    """The arguments of a method. Path parameters and required values are positional, all other arguments keywords."""

    def __init__(self, modules: Modules, path_parameters: list[str]) -> None:
        self._modules = modules
        self._positional = ["self", *(f"{name}: str" for name in path_parameters)]
        self.keywords: list[str] = []
        self._rest: list[str] = []
        self.help: list[str] = []

    def add(self, name: str, schema: Schema, *, is_required: bool) -> None:
        """Add an argument. It is positional if *is_required*, otherwise a keyword with the default None."""
        kind = self._modules.annotation(schema, "argument")
        if is_required:
            self._positional.append(f"{name}: {kind}")
        else:
            self.keywords.append(f"{name}: {without_null(kind)} | None = None")
        self.help += [f"*{name}*: {schema['description']}"] if schema.get("description") else []

    def body(self, content: Schema) -> str:
        """Add arguments for a request body of the schema in *content*. Return the expression that builds the body.

        If *content* is empty, the request has no body, and the result is an empty text.
        """
        schema_name = content["schema"]["$ref"].rpartition("/")[2] if content else ""
        schema = self._modules.schemas.get(schema_name, {"properties": {}})
        name = NAMES.get(schema_name, "")
        sent: list[str] = []
        optional: list[str] = []
        for field, described in schema["properties"].items():
            is_required = field in schema.get("required", ())
            if is_required or not name.endswith(("Settings", "Changes")):
                self.add(field, described, is_required=is_required)
                value = sent_value(field, self._modules.flatten(described))
                (sent if is_required else optional).append(f"{field}={value}")
        if name.endswith(("Settings", "Changes")):
            self._rest = [f"**settings: Unpack[{self._modules.class_of(schema_name)}]"]
            return f"settings_of({', '.join([name, 'settings', *sent])})"
        given = [f"**drop_none({', '.join(optional)})"] if optional else []
        return f"dict({', '.join([*sent, *given])})" if sent or given else ""

    def text(self) -> str:
        """Return the arguments of the signature."""
        return ", ".join([*self._positional, *(["*", *self.keywords] if self.keywords else []), *self._rest])

    def document_method(self, operation: Schema) -> str:
        """Return the docstring of the method."""
        summary = operation["summary"].replace("Create or replace", "Create").rstrip(".")
        parts = [f"{summary}.", operation.get("description", ""), *self.help]
        return "\n\n".join(filter(None, parts))
