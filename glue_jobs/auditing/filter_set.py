"""The parts of a message that a set of filters can read; no other part changes their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sql
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.event_pattern.scopes import ENVELOPE_NAMES, PatternScope
from tagcast.filters.event_pattern_filter import EventPatternFilter
from tagcast.filters.kinds import compile_filter
from tagcast.filters.routing_key_filter import RoutingKeyFilter
from tagcast.filters.sql92_filter import Sql92Filter
from tagcast.filters.tag_filters import TagsFilter

from glue_jobs.erasing.contents import Part, parts_read
from glue_jobs.io.messages_read import Seen

LISTED_MAX = 1000
"""The most names in a Spark plan. With more names, all tags or all properties are read."""


@dataclass(frozen=True, slots=True)
class FilterSet:
    """Candidate filters, numbered from 0, and the parts of a message that they can read.

    The filters name the *tags* and *properties*; with *reads_all_tags* they may read other tags, too. *reading* maps
    each part to the numbers of the filters that read it. *reading_bodies* has the numbers of the filters that read
    bodies.
    """

    filters: tuple[CompiledFilter, ...]
    tags: frozenset[str]
    properties: tuple[str, ...]
    reads_routing_key: bool
    reads_all_tags: bool
    reading_bodies: frozenset[int]
    reading: Mapping[Part, frozenset[int]]

    @classmethod
    def of(cls, filters: Iterable[Mapping[str, object] | None]) -> FilterSet:
        """Return the set of *filters*, which are in JSON form. Raises InvalidFilterError.

        >>> FilterSet.of([{"kind": "tags", "tags": ["a"]}, {"kind": "sql92", "expression": "p > 1"}]).properties
        ('p',)
        """
        return cls.of_compiled([compile_filter(each) for each in filters])

    @classmethod
    def of_compiled(cls, filters: Iterable[CompiledFilter]) -> FilterSet:
        """Return the set of compiled filters."""
        compiled = tuple(filters)
        tags: set[str] = set()
        properties: set[str] = set()
        for each in compiled:
            match each:
                case TagsFilter():
                    tags |= each.tags
                case Sql92Filter():
                    nodes = each.expression.nodes
                    properties |= {str(node.value) for node in nodes if node.operator == "property"}
                case EventPatternFilter():
                    properties |= _properties_of(each)
        enveloped = any(
            isinstance(each, EventPatternFilter) and each.scope is PatternScope.ENVELOPE for each in compiled
        )
        keys = enveloped or any(isinstance(each, RoutingKeyFilter) for each in compiled)
        every = enveloped or any(isinstance(each, Sql92Filter) and each.reads_tags for each in compiled)
        read = [parts_read(each) for each in compiled]
        reading = {part: frozenset(number for number, parts in enumerate(read) if part in parts) for part in Part}
        names = tuple(sorted(properties))
        return cls(compiled, frozenset(tags), names, keys, every, reading[Part.BODY], reading)

    def find_unjudged(self, content: bytes | None, gone: Iterable[str]) -> frozenset[int]:
        """Return the numbers of the filters that get no verdict on a message.

        They read an erased part (*gone*), or they read bodies and the message's *content* is None.
        """
        missing = [self.reading_bodies] if content is None else []
        return frozenset().union(*missing, *(self.reading[Part(part)] for part in gone))

    def tags_read(self) -> Column:
        """Return the column of the tags that filters can read, in the message's order."""
        none = sql.array().cast("array<string>")
        if not self.tags and not self.reads_all_tags:
            return none
        tags = sql.coalesce("tags", none)
        if self.reads_all_tags or len(self.tags) > LISTED_MAX:
            return tags
        return sql.filter(tags, lambda tag: tag.isin(sorted(self.tags)))

    def properties_read(self) -> Column:
        """Return the column of a message's properties that filters can read."""
        if not self.properties:
            return sql.lit(None).cast("map<string,string>")
        if len(self.properties) > LISTED_MAX:
            return sql.col("properties")
        return sql.map_filter("properties", lambda name, _: name.isin(list(self.properties)))

    def message_of(
        self,
        tags: Iterable[str] | None,
        key: str | None,
        texts: Iterable[str | None] | None,
        content: bytes | None = None,
    ) -> Seen:
        """Return a message with the parts that the filters can read.

        *texts* are the values of *properties*, in their order. A value is None if the message lacks the property. *key*
        is the routing key and *content* the body; both may be None.
        """
        pairs = zip(self.properties, texts or (), strict=False)
        return Seen(tuple(tags or ()), key, {name: text for name, text in pairs if text is not None}, content)


def _properties_of(filter: EventPatternFilter) -> set[str]:
    """Return the properties that a pattern may read. A property name may contain dots, like a path."""
    match filter.scope:
        case PatternScope.BODY:
            return set()
        case PatternScope.ENVELOPE:
            return set(ENVELOPE_NAMES)
        case PatternScope.PROPERTIES:
            parts = [condition.path.split(".") for condition in filter.pattern.conditions]
            return {".".join(path[:size]) for path in parts for size in range(1, len(path) + 1)}
