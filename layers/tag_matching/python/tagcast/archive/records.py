"""What the archive keeps of a change of a row: flat records, each under an id that makes duplicates removable.

The schema, field by field, is in ``docs/archive.md``. A record is derived from the two images of one change alone,
so a change that is read twice gives the same records twice, byte for byte.
"""

from __future__ import annotations

from tagcast.archive.messages import of_due, of_lane, of_message, of_section
from tagcast.archive.record import Change, KeepsBody, Record
from tagcast.archive.registry import of_filter_version, of_subscription, of_topic
from tagcast.rows.keys import RowKind, kind_of, topic_in_key


def records_of(change: Change, keeps_body: KeepsBody) -> tuple[Record, ...]:
    """Return what the archive keeps of *change*; of most changes that is nothing.

    Raises KeyError or ValueError for a row that the codecs cannot read: such a change must not be dropped silently.
    """
    row = change.after or change.before
    assert row is not None
    match kind_of(row):
        case RowKind.MESSAGE:
            return tuple(of_message(change, keeps_body))
        case RowKind.SECTION:
            return tuple(of_section(change))
        case RowKind.DUE:
            return tuple(of_due(change))
        case RowKind.LANE:
            return tuple(of_lane(change))
        case RowKind.TOPIC:
            return tuple(of_topic(change))
        case RowKind.SUBSCRIPTION:
            return tuple(of_subscription(change))
        case RowKind.FILTER_VERSION:
            return tuple(of_filter_version(change, topic_in_key(row)))
        case RowKind.OTHER:
            return ()
