"""Bugs of accepting and matching."""

from __future__ import annotations

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

CHANGING = Aim(operations=("refilter", "resubscribe", "unsubscribe"))
KNOWING = Aim(operations=("refilter", "resubscribe", "unsubscribe"), knowing=1.0)
UNQUEUED = Aim(faults=("send_loss", "error", "crash"), rate=0.05, keyed=0.6)
TWICE = Aim(faults=("sdk_retry",), rate=0.08)

MUTANTS = (
    Mutant(
        "acknowledge before the write",
        "tagcast.delivery.publishing:_accept",
        "                world.store.write(put)",
        "                pass",
    ),
    Mutant(
        "a lost condition of a claim is taken for success",
        "tagcast.delivery.publishing:_accept",
        "earlier = None if claim is None else CLAIM_ROWS.read(world.store, topic, claim.key)",
        "return _AcceptedDraft(accepted, row, is_new=True)",
        Aim(keyed=0.7, restless=True),
    ),
    Mutant(
        "a write that the SDK repeats makes a second message",
        "tagcast.delivery.publishing:_accept",
        "if claim is not None or not _is_stored(world, message):",
        "if True:",
        TWICE,
    ),
    Mutant(
        "a message loses the order that somebody keeps",
        "tagcast.delivery.publishing:_new_row",
        "directory.in_order.intersection(matched.ordinals)",
        "frozenset[int]()",
    ),
    Mutant(
        "a message may be overwritten",
        "tagcast.rows.log:accepted_put",
        'expect={"pk": ABSENT}',
        "expect={}",
        TWICE,
    ),
    Mutant(
        "an idempotency key is forgotten",
        "tagcast.delivery.publishing:is_live",
        "return claim.accepted.expires_at > now",
        "return False",
        Aim(keyed=0.7),
    ),
    Mutant(
        "a batch shares the claim of its key",
        "tagcast.delivery.publishing:Idempotency.at",
        'return Idempotency(f"{self.key}#{place}", self.fingerprint)',
        "return self",
        Aim(keyed=0.7),
    ),
    Mutant(
        "a repetition is answered without being queued",
        "tagcast.delivery.publishing:_accept",
        "_AcceptedDraft(accepted, stored.accepted(world.store, topic, accepted.message_id), is_new=False)",
        "_AcceptedDraft(accepted, None, is_new=False)",
        UNQUEUED,
    ),
    Mutant(
        "what the queue did not take is acknowledged",
        "tagcast.delivery.publishing:_accept_all",
        "    if lost:",
        "    if False:",
        UNQUEUED,
    ),
    Mutant(
        "a key gives no order",
        "tagcast.queues:queue_group",
        "if ordering is Ordering.KEY and ordering_key is not None:",
        "if False:",
        UNQUEUED,
    ),
    Mutant(
        "an entry that the queue refused counts as taken",
        "tagcast_aws.dispatch.queue:SqsQueue._send_batch",
        'return [batch[int(failed["Id"])] for failed in answer.get("Failed", [])]',
        "return []",
        UNQUEUED,
    ),
    Mutant(
        "a request that the queue did not answer counts as taken",
        "tagcast_aws.dispatch.queue:SqsQueue._send_batch",
        "            return None",
        "            return ()",
        UNQUEUED,
    ),
    Mutant(
        "what stands behind a refused entry is sent all the same",
        "tagcast_aws.dispatch.queue:SqsQueue.send",
        "if entry.group not in broken]",
        "if True]",
        UNQUEUED,
    ),
    Mutant(
        "what stands behind a refused entry of its request counts as taken",
        "tagcast_aws.dispatch.queue:SqsQueue.send",
        "broken.add(entry.group)",
        "pass",
        UNQUEUED,
    ),
    Mutant(
        "all messages of an order have one deduplication id",
        "tagcast_aws.dispatch.queue:_request",
        '"MessageDeduplicationId": entry.deduplication_id',
        '"MessageDeduplicationId": entry.group',
    ),
    Mutant(
        "a life is longer than the topic's retention",
        "tagcast.delivery.publishing:_new_row",
        "expires_at=now + round(",
        "expires_at=now + 5_000 + round(",
    ),
    Mutant(
        "a cache of subscriptions is never looked at again",
        "tagcast.registry.directory:_directory_of",
        "if known is not None and _same_version(known.topic, topic):",
        "if known is not None:",
    ),
    Mutant(
        "subscriptions are read while they change",
        "tagcast.registry.directory:_directory_of",
        "    if not _same_version(topic, after):",
        "    if False:",
        CHANGING,
    ),
    Mutant(
        "a changed subscription raises no version",
        "tagcast.registry.subscribing:_topic_update",
        "change_update(owner, *names, subscriptions=added, ordinals=added)",
        'replace(change_update(owner, ""), changes={"subscription_count": owner.subscription_count + added, '
        '"next_ordinal": owner.next_ordinal + added})',
    ),
    Mutant(
        "a change is acknowledged while a publish still knows what was before",
        "tagcast.registry.directory:wait_for_publishers",
        "world.clock.sleep(world.topic_known_s + CLOCKS_APART_S)",
        "pass",
        KNOWING,
    ),
    Mutant(
        "a change is acknowledged a little too early",
        "tagcast.registry.directory:wait_for_publishers",
        "world.clock.sleep(world.topic_known_s + CLOCKS_APART_S)",
        "world.clock.sleep(world.topic_known_s / 2)",
        KNOWING,
    ),
    Mutant(
        "what a publish knows is never read again",
        "tagcast.registry.directory:Look.still_counts",
        "return world.clock.monotonic() - self.monotonic_s < known_s and 0 <= since_ms < known_s * 1000",
        "return since_ms < math.inf",
        KNOWING,
    ),
    Mutant(
        "a removed subscription raises no version",
        "tagcast.rows.topic:change_update",
        "{**with_changes(owner, names)}",
        "{**(with_changes(owner, names) if subscriptions >= 0 else {})}",
    ),
    Mutant(
        "an ordinal is used again",
        "tagcast.rows.topic:change_update",
        "owner.next_ordinal + ordinals",
        "owner.next_ordinal",
    ),
    Mutant(
        "tags are compared by their hash",
        "tagcast.filters.index.tag_index:TagIndex.match",
        "posting = self._postings.get(tag)",
        "from tagcast.filters.tags import java_hash_code as code; "
        "posting = next((p for own, p in self._postings.items() if code(own) == code(tag)), None)",
    ),
    Mutant(
        "tags are compared without their case",
        "tagcast.filters.index.tag_index:TagIndex.match",
        "self._postings.get(tag)",
        "self._postings.get(tag.lower())",
    ),
    Mutant(
        "a message without tags is for nobody",
        "tagcast.filters.index.topic_index:TopicIndex.match",
        "bits, few = self._tags.match(message.tags)",
        "bits, few = self._tags.match(message.tags) if message.tags else (0, set())",
    ),
    Mutant(
        "a filter that fails lets through",
        "tagcast.filters.index.sql92_index:Sql92Index.match",
        "return found, self._failed(view) if self._failing or self._suspected else []",
        "return found + (self._failed(view) if self._failing or self._suspected else []), []",
    ),
    Mutant(
        "unknown is treated as true",
        "tagcast.filters.sql92.terms:Term.holds",
        "return self.test == MISSING",
        "return True",
    ),
    Mutant(
        "a star in a routing pattern stands for several words too",
        "tagcast.filters.index.routing_trie:RoutingTrie.walk",
        "reached = [*following, *lasting] if lasting else following",
        "reached = [*following, *lasting, self._root]",
    ),
)
