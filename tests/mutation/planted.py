"""Bugs that were planted by hand, each with the test that turns red; tests/simulation/planted has those for histories.

Each exchanges one piece of text in one shipped function. A bug whose text is gone is an error: it is planted anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.planted.mutant import Mutant


@dataclass(frozen=True)
class Planted:
    """A bug and the tests (a node id, or the beginning of several) of which at least one has to fail for it."""

    bug: Mutant
    tests: str


def _planted(
    name: str, where: str, old: str, new: str, tests: str, *, also: tuple[str, str, str] | None = None
) -> Planted:
    return Planted(Mutant(name, where, old, new, also=also), f"tests/{tests}")


MIXED, PACKS = "unit/test_mixed_orders.py", "unit/test_packs.py"
ENDS, PLANS, OVERTAKEN = "unit/test_ends.py", "unit/test_plans.py", "unit/test_overtaken.py"
EVENTS, FUNCTIONS, MAPS = "unit/test_function_events.py", "unit/test_function_filters.py", "unit/test_state_map.py"
REQUESTS, FAULTS = "integration/test_dynamodb_requests.py", "integration/test_store_faults.py"
QUEUE, QUEUED = "integration/test_queue_requests.py", "integration/test_queue_adapter.py"
HTTP, WORKFLOW = "integration/test_endpoints_http.py", "integration/test_workflow_start.py"
COPIES, QUEUEING = "unit/test_copies.py", "unit/test_queueing.py"
MEMBERS = "unit/test_members.py"
GROUP, PULLING = "unit/test_groups.py", "unit/test_pulling.py"
SECRETS, ROTATION = "unit/test_secrets.py", "unit/test_rotation.py"
OWN_HEADERS = "unit/test_own_headers.py"
CIRCUIT = "unit/test_circuit.py"
SUBSCRIBING, KNOWLEDGE = "unit/test_subscribing.py", "unit/test_knowledge.py"
VERIFIED, ASKED = "unit/test_verification.py", "integration/test_endpoint_verifier.py"
TRACES, METERED = "unit/test_trace_context.py", "cloudwatch/test_subscription_metrics.py"
TAIL = "unit/test_tail.py"
STREAM, DIRECTORY, ARCHIVE = "unit/test_stream.py", "unit/test_directory.py", "unit/test_archive_function.py"

FIRST_ROUND = (
    _planted(
        "what is owed after a closed round is pushed too",
        "tagcast.delivery.serving:Part.pushable",
        "first = next((place for place, row in enumerate(owed) if not self.waits(row)), len(owed))",
        "first = len(owed)",
        f"{ENDS}::test_what_another_worker_delivers",
    ),
    _planted(
        "an expiry in the first round forgets the attempt",
        "tagcast.delivery.serving:_expiry",
        "return Entry(EntryState.EXPIRED, failure.attempts, failure.ended_at, detail, history=history)",
        "return Entry(EntryState.EXPIRED)",
        f"{OVERTAKEN}::test_a_failure_whose_message_expires",
    ),
    _planted(
        "an end without a push does not look at the lane that another copy made",
        "tagcast.delivery.serving:Part.is_doubtful",
        "self.read_s < oldest_s or not all(each.attempts for each in self.ended.values())",
        "self.read_s < oldest_s",
        f"{COPIES}::test_an_end_without_a_push",
    ),
    _planted(
        "a late answer does not look at the lane that another copy made",
        "tagcast.delivery.serving:Part.is_doubtful",
        "self.read_s < oldest_s or not",
        "not",
        f"{COPIES}::test_a_late_good_answer",
    ),
    _planted(
        "a copy ends over what a push brought that only the due row tells",
        "tagcast.rows.due:OwedDelivery.ended_by",
        "return self.ending(entry.state, entry.last_outcome)",
        "return entry",
        f"{COPIES}::test_a_copy_that_stood_still",
    ),
    _planted(
        "what could not be compared with the lanes is written all the same",
        "tagcast.delivery.copies:end_in_backlogs",
        "parts.update({ordinal: part.forgotten() for ordinal, part in doubtful.items()})",
        "pass",
        f"{COPIES}::test_what_could_not_be_compared",
    ),
    _planted(
        "a copy cancels what its removed lane delivered",
        "tagcast.delivery.serving:Part.cancelled",
        "for row in self.open()",
        "for row in self.owed()",
        f"{COPIES}::test_what_its_lane_delivered_is_not_cancelled",
        also=("tagcast.delivery.serving:Part.is_doubtful", "return bool(self.ended) and", "return False and"),
    ),
    _planted(
        "a suspended lane is looked at when its last delivery expires",
        "tagcast.delivery.appending:appending",
        "wake_at=earliest if asleep",
        "wake_at=max(due.expires_at for due in dues) if asleep",
        f"{ENDS}::test_a_suspended_backlog_is_looked_at",
    ),
    _planted(
        "the second batch of a backlog begins where the first did",
        "tagcast.delivery.appending:appending",
        "appended=ceil(len(dues) / PLACES),",
        "appended=0,",
        f"{EVENTS}::test_the_stream_records_are_the_rows",
    ),
    _planted(
        "what joins a sleeping lane never brings its waking forward",
        "tagcast.rows.lane:join_update",
        "if lane.wake_at is None or expires_at < lane.wake_at:",
        "if lane.wake_at is None:",
        f"{ENDS}::test_a_suspended_backlog_is_looked_at",
    ),
    _planted(
        "only the first record of a failed topic is reported",
        "functions.fan_out.app:handle",
        "failed.extend(records)",
        "failed.extend(list(records)[:1])",
        f"{EVENTS}::test_fan_out_reports_the_records",
    ),
    _planted(
        "a blocked verdict is not counted",
        "tagcast.pushing.verdicts:_judge",
        "Push(subscription, message, made + 1), FILTER_ERROR)",
        "Push(subscription, message, max(1, made)), FILTER_ERROR)",
        f"{FUNCTIONS}::test_each_error_under_block_is_an_attempt",
    ),
    _planted(
        "an error under drop drops only the first of its batch",
        "tagcast.pushing.verdicts:_judge",
        "        for message, made in asked:\n            dropped",
        "        for message, made in asked[:1]:\n            dropped",
        f"{FUNCTIONS}::test_an_error_under_drop_drops_the_whole_batch",
    ),
)
REDELIVERY = (
    _planted(
        "a claim is never renewed",
        "tagcast.delivery.retrying:_keep_claim",
        "await hold.claim(subscription.settings.timeout_s)",
        "pass",
        f"{PLANS}::test_a_long_drain_holds_its_claim",
    ),
    _planted(
        "attempts behind the head are written by whoever made them",
        "tagcast.delivery.retrying:_write",
        "progress.failures[due.message_id], hold.check())",
        "progress.failures[due.message_id], replace(hold.check(), expect={}))",
        f"{OVERTAKEN}::test_a_worker_that_loses_its_lane_while_a_window_fails",
    ),
    _planted(
        "a yes is not kept when its delivery fails",
        "tagcast.delivery.retrying:retry",
        "replace(known[each], unjudged=False)",
        "known[each]",
        f"{FUNCTIONS}::",
    ),
    _planted(
        "after a 410 the generation stays",
        "tagcast.delivery.retrying:_rescheduled",
        "generation=generation, wake_at",
        "wake_at",
        f"{PLANS}::test_a_suspension_has_a_generation",
    ),
    _planted(
        "the wait begins with the attempt",
        "tagcast.pushing.attempts:attempt",
        "    outcome = await world.pusher.push(push)\n"
        "    took_ms = round((world.clock.monotonic() - started) * 1000)\n"
        "    passage.hear(outcome)\n"
        "    return _result(world, push, outcome, world.clock.now(), took_ms)\n",
        "    ended_at = world.clock.now()\n"
        "    outcome = await world.pusher.push(push)\n"
        "    took_ms = round((world.clock.monotonic() - started) * 1000)\n"
        "    passage.hear(outcome)\n"
        "    return _result(world, push, outcome, ended_at, took_ms)\n",
        f"{PLANS}::test_the_wait_begins_at_the_end",
    ),
    _planted(
        "Retry-After shortens a wait",
        "tagcast.pushing.retry:after_failure",
        "wait_s = max(wait_s, retry_after_s)",
        "wait_s = retry_after_s",
        f"{PLANS}::test_retry_after_makes_a_wait_longer",
    ),
    _planted(
        "a function that works to its last second",
        "functions.retry.app:budget_s_of",
        "left_ms / 1000 - RESERVE_S",
        "left_ms / 1000 - 1.0",
        f"{EVENTS}::test_retry_keeps_time",
    ),
)
OPERATORS = (
    _planted(
        "resuming forgets the planned wait",
        "tagcast.operating.lanes:_awake",
        "due_at = max(now, lane.next_attempt_at or 0)",
        "due_at = now",
        f"{PLANS}::test_a_pause_that_ends_early_keeps",
    ),
    _planted(
        "nobody looks at a paused lane",
        "tagcast.operating.lanes:pause",
        "wake_at=world.clock.now())",
        "wake_at=None)",
        f"{ENDS}::test_what_the_sweep_expires_in_a_sleeping_backlog",
    ),
    _planted(
        "a head is skipped whatever its attempts",
        "tagcast.operating.lanes:_skip",
        "due_delete_as_read(head)",
        "replace(due_delete_as_read(head), expect={})",
        f"{OVERTAKEN}::test_a_head_that_failed_once_more",
    ),
    _planted(
        "a tombstone is put over a lane that moved",
        "tagcast.registry.subscriptions:delete_subscription",
        "lane_put(tombstone) if lane is None else lane_update(tombstone, lane.same_generation()),",
        "replace(lane_put(tombstone), expect={}),",
        f"{OVERTAKEN}::",
    ),
    _planted(
        "the sweep's expiry forgets the attempts",
        "tagcast.repairing.expiry:_expired",
        "known.ending(EntryState.EXPIRED)",
        "Entry(EntryState.EXPIRED)",
        f"{ENDS}::test_what_the_sweep_expires_in_a_sleeping_backlog",
    ),
    _planted(
        "the sweep never expires what is retained",
        "tagcast.repairing.expiry:_expire_list",
        "await expire_messages(world, topic, over) if over else 0",
        "0",
        f"{ENDS}::test_a_message_that_nobody_drives",
    ),
)
KEEPING = (
    _planted(
        "nobody carries what the others of a request leave to him",
        "tagcast.delivery.publishing:_packs",
        "    if len(taken) + 1 < size:",
        "    if True:",
        f"{PACKS}::test_the_relay_sends_a_request",
    ),
    _planted(
        "who carries a request forgets those before",
        "tagcast.delivery.publishing:_packs",
        "for each in (*rows, row) if",
        "for each in (row,) if",
        f"{PACKS}::test_the_relay_sends_a_request",
    ),
    _planted(
        "every message of a request is sent again by itself",
        "tagcast.delivery.queueing:entries_of",
        "if row.packs is None else row.packs",
        "if not row.packs else row.packs",
        f"{PACKS}::test_the_relay_sends_a_request",
    ),
    _planted(
        "what carries a request and matches nobody is not looked at",
        "tagcast.repairing.relay:relay",
        "if row.map.waiting or row.packs:",
        "if row.map.waiting:",
        f"{PACKS}::test_the_last_message_carries_the_others",
    ),
    _planted(
        "packs that begin with one message are one to the queue",
        "tagcast.queues:QueueEntry.deduplication_id",
        "if self.others else",
        "if False else",
        f"{PACKS}::test_a_repetition_that_brings_more",
    ),
    _planted(
        "what a request stored that failed is left to the search",
        "tagcast.delivery.publishing:_accept_all",
        "lost = _queue(world, directory.topic, [each.row for each in taken if each.row is not None])",
        "lost = _queue(world, directory.topic, [each.row for each in taken if each.row and len(taken) == len(offers)])",
        f"{PACKS}::test_what_a_request_stored_that_failed",
    ),
    _planted(
        "an invocation goes on with the next part whatever it took",
        "tagcast.delivery.fan_out:fan_out",
        "            return left",
        "            pass",
        f"{PACKS}::test_what_does_not_fit_behind_a_slow_part",
    ),
    _planted(
        "what is left stays invisible",
        "functions.fan_out.app:handle",
        "        if left:",
        "        if False:",
        f"{PACKS}::test_what_does_not_fit_behind_a_slow_part",
    ),
    _planted(
        "a second close moves the instant of the first round",
        "tagcast.state_map:StateMap.settle",
        "round_at if in_round and self.round_at is None else self.round_at",
        "self.round_at if round_at is None else round_at",
        f"{MAPS}::test_a_round_is_closed_once",
    ),
    _planted(
        "an offset has more than sixteen bits",
        "tagcast.state_map:StateMap.settle",
        "0 <= offset <= FINISH_OFFSET_MS_MAX",
        "0 <= offset",
        f"{MAPS}::test_first_attempts_are_compact",
    ),
    _planted(
        "a byte of a packed set has eight bits of its number",
        "tagcast.rows.ordinals:pack",
        "while gap > 0x7F:",
        "while gap > 0xFF:",
        "unit/test_ordinals.py::",
    ),
    _planted(
        "subscriptions that are put together raise the topic's version by one",
        "tagcast.rows.recent_changes:with_changes",
        "version = topic.subscriptions_version + len(names)",
        "version = topic.subscriptions_version + 1",
        f"{SUBSCRIBING}::test_whoever_read_the_topic_before",
    ),
    _planted(
        "subscriptions that are put together share an ordinal",
        "tagcast.registry.subscribing:put_together",
        "after = _counting(after, made)",
        "after = replace(_counting(after, made), next_ordinal=owner.next_ordinal)",
        f"{SUBSCRIBING}::test_what_is_put_together",
    ),
    _planted(
        "one that is refused stops those that are put with it",
        "tagcast.registry.subscribing:put_together",
        "                results.append(refusal)\n                continue",
        "                return [refusal] * len(wanted)",
        f"{SUBSCRIBING}::test_what_has_no_room",
    ),
    _planted(
        "what is known counts from the end of its read",
        "tagcast.registry.directory:_directory_of",
        "    look = Look.of(world)\n    topic = read_topic(world, name)",
        "    topic = read_topic(world, name)\n    look = Look.of(world)",
        f"{KNOWLEDGE}::test_what_is_known_counts_from",
    ),
    _planted(
        "a process whose monotonic clock stood still goes by what it knew",
        "tagcast.registry.knowledge:Look.still_counts",
        " and 0 <= since_ms < KNOWN_S * 1000",
        "",
        f"{KNOWLEDGE}::test_a_process_that_was_frozen",
    ),
    _planted(
        "a process whose clock stood still goes by what it knew",
        "tagcast.registry.knowledge:Look.still_counts",
        "world.clock.monotonic() - self.monotonic_s < KNOWN_S and ",
        "",
        f"{KNOWLEDGE}::test_a_process_that_was_frozen",
    ),
    _planted(
        "settings of a topic are acknowledged while others publish by those of before",
        "tagcast.registry.topics:put_topic",
        "    if not is_new:\n        wait_for_publishers(world)",
        "    pass",
        f"{KNOWLEDGE}::test_whatever_was_acknowledged",
    ),
    _planted(
        "an endpoint is asked for which the request has no time left",
        "tagcast.operating.verification:_agreed",
        "    check_time(world, until_s)\n",
        "",
        f"{SUBSCRIBING}::test_endpoints_that_answer_slowly",
    ),
    _planted(
        "a process keeps the settings of a topic",
        "tagcast.registry.directory:_directory_of",
        "return replace(known, topic=topic)",
        "return known",
        f"{DIRECTORY}::test_a_process_that_knows_the_subscriptions",
    ),
    _planted(
        "an archived index has no version",
        "tagcast.registry.directory:_index",
        "{topic.topic_id}/{topic.subscriptions_version:012d}.json",
        "{topic.topic_id}/{0:012d}.json",
        f"{DIRECTORY}::test_the_archive_names_an_index",
    ),
    _planted(
        "a topic made again is taken for the one before",
        "tagcast.registry.directory:_same_version",
        "return (one.topic_id, one.subscriptions_version) == (other.topic_id, other.subscriptions_version)",
        "return one.subscriptions_version == other.subscriptions_version",
        f"{DIRECTORY}::test_a_topic_made_again",
    ),
    _planted(
        "an expired claim is honoured",
        "tagcast.delivery.idempotency:is_live",
        "claim.expires_at > now",
        "True",
        "unit/test_idempotency.py::test_after_five_minutes",
    ),
    _planted(
        "an expired claim is replaced whoever replaced it meanwhile",
        "tagcast.rows.claim:claim_put",
        '{"message_id": earlier.message_id}',
        "{}",
        "unit/test_idempotency.py::test_two_requests_at_once",
    ),
    _planted(
        "what a shadow does not know is a match",
        "tagcast.registry.shadowing:ReadyShadow.compare",
        "self.filter.evaluate(message) is True",
        "self.filter.evaluate(message) is not False",
        "unit/test_shadow.py::test_a_shadow_that_does_not_know",
    ),
    _planted(
        "of two tags that many want only the last counts",
        "tagcast.filters.index.tag_index:TagIndex.match",
        "bits |= posting",
        "bits = posting",
        "unit/test_topic_index.py::test_two_tags_that_many_want",
    ),
)
ARCHIVED = (
    _planted(
        "a new generation is not archived",
        "tagcast.archive.messages:of_lane",
        "(before.state, before.generation) != (after.state, after.generation)",
        "before.state != after.state",
        f"{ARCHIVE}::test_a_lane_is_told_whenever",
    ),
    _planted(
        "a vanished entry is told without its remover",
        "tagcast.archive.messages:_vanished",
        "        removed_by=change.remover,\n",
        "",
        f"{ARCHIVE}::test_an_owed_entry_whose_row_went",
    ),
    _planted(
        "the archive's partial answer names the last failure",
        "functions.archive.app:handle",
        "failed = min((place",
        "failed = max((place",
        f"{ARCHIVE}::test_of_what_was_lost_and_what_could_not_be_read",
    ),
    _planted(
        "a watch that ran out is told on",
        "tagcast.archive.tail:Tail._watched",
        "for each in self._known if each.until > now for name",
        "for each in self._known for name",
        f"{TAIL}::test_a_minute_after_the_last_question",
    ),
    _planted(
        "a tail that cannot be written stops the archive",
        "tagcast.archive.tail:Tail.tell",
        "self.telemetry.failed(",
        "raise fault\n            self.telemetry.failed(",
        f"{TAIL}::test_a_tail_that_cannot_be_written",
    ),
    _planted(
        "a late row of a tail is missed",
        "tagcast.operating.tailing:_Reading.take",
        "first_id_at(now - LATE_S * 1000)",
        "first_id_at(now)",
        f"{TAIL}::test_whatever_the_order_of_rows",
    ),
    _planted(
        "a process tells a watcher everything",
        "tagcast.archive.tail:Share.take",
        "taken = min(wanted, int(self.left))",
        "taken = wanted",
        f"{TAIL}::test_ten_thousand_events",
    ),
    _planted(
        "the relay looks at the first ten records",
        "functions.relay.app:handle",
        'for record in event["Records"] if',
        'for record in event["Records"][:10] if',
        f"{EVENTS}::test_relay_serves_every_record",
    ),
    _planted(
        "the relay sees only the first generation of a lane",
        "tagcast.rows.lane:is_new_generation",
        'before.get("generation") != after["generation"]',
        "not before",
        f"{STREAM}::test_a_lane_asks_for_a_repair",
    ),
    _planted(
        "bytes of events stay text",
        "tagcast_aws.store.stream:_attribute",
        'return {"B": base64.b64decode(attribute["B"])}',
        'return {"B": attribute["B"].encode()}',
        f"{STREAM}::test_a_message_asks_for_a_repair",
    ),
    _planted(
        "the relay sends what has no order into that of its topic",
        "tagcast.delivery.queueing:_alone",
        "return (QueueEntry(topic, message_id, message_id),)",
        "return (QueueEntry(topic, message_id, group),)",
        f"{QUEUEING}::test_relay_and_search_send_again_into_the_same_order",
    ),
    _planted(
        "the relay sends without an order",
        "tagcast.repairing.unsent:Orderings.of",
        "read_topic(self._world, topic).ordering",
        "read_topic(self._world, topic).ordering and Ordering.NONE",
        f"{EVENTS}::test_relay_repeats_the_send",
    ),
)
TABLE = (
    _planted(
        "the last conflict counts as written",
        "tagcast_aws.store.conflicts:carried_out",
        "if conflict == CONFLICTS_MAX or codes.isdisjoint(CONFLICTS):",
        "if codes.isdisjoint(CONFLICTS):",
        f"{FAULTS}::test_a_conflict_is_tried_again",
    ),
    _planted(
        "a cancellation for another reason counts as a lost condition",
        "tagcast_aws.store.conflicts:carried_out",
        "if not codes.isdisjoint(LOST):",
        "if codes.isdisjoint(CONFLICTS):",
        f"{FAULTS}::",
    ),
    _planted(
        "keys that were not processed are forgotten",
        "tagcast_aws.store.dynamodb:DynamoStore.get_many",
        'left = cast("dict[str, Any]", answer.get("UnprocessedKeys") or {})',
        "left: dict[str, Any] = {}",
        f"{REQUESTS}::test_many_rows_are_read",
    ),
    _planted(
        "many rows are read eventually consistent",
        "tagcast_aws.store.dynamodb:DynamoStore.get_many",
        '"ConsistentRead": True',
        '"ConsistentRead": False',
        f"{REQUESTS}::test_many_rows_are_read",
    ),
    _planted(
        "queries are eventually consistent",
        "tagcast_aws.store.dynamodb:DynamoStore.query",
        '"ConsistentRead": True',
        '"ConsistentRead": False',
        f"{REQUESTS}::test_a_query_is_strongly_consistent",
    ),
    _planted(
        "a row is read eventually consistent",
        "tagcast_aws.store.dynamodb:DynamoStore.get",
        "ConsistentRead=True",
        "ConsistentRead=False",
        f"{REQUESTS}::test_a_row_is_read_strongly",
    ),
    _planted(
        "every page asks for the whole limit",
        "tagcast_aws.store.dynamodb:DynamoStore._pages",
        'request["Limit"] = limit - len(rows)',
        'request["Limit"] = limit',
        f"{REQUESTS}::test_a_query_never_asks_for_more",
    ),
)
AROUND = (
    _planted(
        "entries that the queue refused count as sent",
        "tagcast_aws.dispatch.queue:SqsQueue._send_batch",
        'return [batch[int(failed["Id"])] for failed in answer.get("Failed", [])]',
        "return []",
        f"{QUEUE}::test_what_a_request_refuses",
    ),
    _planted(
        "a request that failed counts as sent",
        "tagcast_aws.dispatch.queue:SqsQueue._send_batch",
        "            return None",
        "            return ()",
        f"{QUEUED}::",
    ),
    _planted(
        "messages are deduplicated within their group",
        "tagcast_aws.dispatch.queue:_request",
        '"MessageDeduplicationId": entry.deduplication_id',
        '"MessageDeduplicationId": f"{entry.group}{entry.message_id}"',
        f"{QUEUE}::test_ten_messages_go_into_one_request",
    ),
    _planted(
        "an execution that is there is a failed start",
        "tagcast_aws.dispatch.workflow:StepFunctionsWorkflow.start",
        '== "ExecutionAlreadyExists":\n                return True',
        '== "ExecutionAlreadyExists":\n                return False',
        f"{WORKFLOW}::test_an_execution_that_is_there",
    ),
    _planted(
        "the Retry-After of a 503 is not heard",
        "tagcast_aws.endpoints.http:HttpEndpoint._post",
        "in (429, 503)",
        "in (429,)",
        f"{HTTP}::test_an_answer_means",
    ),
    _planted(
        "the body of an answer is not waited for",
        "tagcast_aws.endpoints.http:HttpEndpoint._post",
        "answer = await read_answer(response, kept_max)",
        "answer = b''",
        f"{HTTP}::test_broken_answers_are_failures",
    ),
    _planted(
        "a push is sent again after any reset",
        "tagcast_aws.endpoints.http:HttpEndpoint._post",
        "if not (trail.reused and _died_silently(error)):",
        "if not _died_silently(error):",
        f"{HTTP}::test_a_connection_that_dies_at_its_first_request",
    ),
    _planted(
        "a cancelled wait leaves its call behind",
        "tagcast_aws.runtime.executor:ThreadExecutor.run",
        "if not submitted.cancel():",
        "if not under_way.cancel():",
        "unit/test_executor.py::test_a_cancelled_wait_ends_after",
    ),
)
MEMBERSHIP = (
    _planted(
        "the newest heartbeat changes the filter of all",
        "tagcast.registry.registering:_register",
        "heartbeat.mode is Mode.BROADCASTING and difference",
        "difference",
        f"{MEMBERS}::test_the_newest_clock",
    ),
    _planted(
        "a member that disagrees pulls all the same",
        "tagcast.registry.members:check_agreement",
        "member.digest != digest(filter)",
        "member.is_gone",
        f"{MEMBERS}::test_a_member_that_disagrees",
    ),
    _planted(
        "tags in another order are another filter",
        "tagcast.filters.difference:_comparable",
        "sorted(tag.strip() for tag in",
        "list(tag.strip() for tag in",
        f"{MEMBERS}::test_the_order_in_which",
    ),
    _planted(
        "of two first heartbeats the later one replaces the group",
        "tagcast.registry.registering:_put",
        "settings, version - 1, also",
        "settings, None, also",
        f"{MEMBERS}::test_two_first_heartbeats",
    ),
    _planted(
        "a group that somebody changed goes like one that heartbeats made",
        "tagcast.repairing.silent_groups:_removed",
        "registration.subscription, registration.version, (forget,)",
        "registration.subscription, None, (forget,)",
        f"{MEMBERS}::test_a_group_that_somebody_put",
    ),
    _planted(
        "a silent group is removed although somebody joins",
        "tagcast.rows.member:registration_delete",
        'Delete(_key(registration), {"renewed_at": registration.renewed_at})',
        "Delete(_key(registration))",
        f"{MEMBERS}::test_who_joins_while",
    ),
    _planted(
        "one that broadcasts lives as long as any of the others",
        "tagcast.membership:Registration.is_of",
        "self.mode is Mode.CLUSTERING or",
        "True or",
        f"{MEMBERS}::test_a_broadcasting_member_that_is_silent",
    ),
    _planted(
        "who is lost is told of at every heartbeat",
        "tagcast.registry.members:tell_lost",
        "if not member.is_gone and not",
        "if not",
        f"{MEMBERS}::test_who_is_silent",
    ),
)
GROUPS = (
    _planted(
        "a batch that comes again hands over again",
        "tagcast.delivery.serving:Part.owed",
        "and self.ordinal not in row.map.handed",
        "",
        f"{PULLING}::test_while_the_round_is_open",
    ),
    _planted(
        "what was handed over is listed as retained",
        "tagcast.state_map:StateMap.is_retained",
        "bool(self.owed - self.handed)",
        "bool(self.owed)",
        f"{PULLING}::test_what_was_handed_over",
    ),
    _planted(
        "what the queue did not take counts as handed over",
        "tagcast.pushing.handing:hand_over",
        "if message.message_id not in lost:",
        "if True:",
        f"{PULLING}::test_what_the_queue_does_not_take",
    ),
    _planted(
        "trouble of a group's queue counts as an attempt",
        "tagcast.pushing.unattempted:put_off",
        "Failure(made, now,",
        "Failure(made + 1, now,",
        f"{PULLING}::test_what_the_queue_does_not_take",
    ),
    _planted(
        "a pull gives out what has ended",
        "tagcast.pulling.pull:_Visit.hand_out",
        "self.group.ordinal not in row.map.owed",
        "False",
        f"{PULLING}::test_a_copy_behind_an_acknowledgement",
    ),
    _planted(
        "a pull gives out what is past its life",
        "tagcast.pulling.pull:_Visit.hand_out",
        "if message.is_expired(now):",
        "if False:",
        f"{PULLING}::test_what_nobody_pulled_in_its_life",
    ),
    _planted(
        "retries never end",
        "tagcast.pulling.pull:_Visit.hand_out",
        "if failed > self.group.settings.retry.max_retries:",
        "if False:",
        f"{PULLING}::test_after_its_retries",
    ),
    _planted(
        "what has ended stays in the queue",
        "tagcast.pulling.pull:_Visit.take",
        "if gone:",
        "if False:",
        f"{PULLING}::test_a_copy_behind_an_acknowledgement",
    ),
    _planted(
        "a pull asks for more than its answer can hold",
        "tagcast.pulling.pull:_Visit.limit",
        "return min(RECEIVED_MAX, self.wish.messages_max - len(self.handed), room)",
        "return min(RECEIVED_MAX, self.wish.messages_max - len(self.handed))",
        f"{PULLING}::test_no_pull_asks_for_more",
    ),
    _planted(
        "a paused group is pulled from",
        "tagcast.pulling.pull:pull",
        "if lane is not None and lane.state in (LaneState.PAUSED, LaneState.REMOVED):",
        "if False:",
        f"{PULLING}::test_a_paused_group",
    ),
    _planted(
        "a handle is good when its time is over",
        "tagcast.pulling.answering:_standing",
        "if now >= handle.until:",
        "if False:",
        f"{PULLING}::test_a_handle_says_nothing",
    ),
    _planted(
        "a handle is not compared with its group",
        "tagcast.pulling.handles:_mac",
        "hmac.digest(secret, group.subscription_id.encode() + said, sha256)",
        "hmac.digest(b'x', said, sha256)",
        f"{PULLING}::test_a_forged_a_foreign",
    ),
    _planted(
        "what is discarded is published nowhere",
        "tagcast.pulling.ending:end_without_pull",
        "publish_dead_letter(world, group, row.message)",
        "pass",
        f"{PULLING}::test_what_is_discarded_is_published",
    ),
    _planted(
        "a MAC is not looked at",
        "tagcast.pulling.handles:handle_of",
        "if not hmac.compare_digest(mac, _mac(group, said)):",
        "if False:",
        f"{PULLING}::test_a_forged_a_foreign",
    ),
    _planted(
        "a member keeps a message for ever",
        "tagcast.pulling.answering:extend",
        "if until > each.handle.pulled_at + HIDDEN_S_MAX * 1000",
        "if False",
        f"{PULLING}::test_nobody_keeps",
    ),
    _planted(
        "what is given back is not seen to have failed",
        "tagcast.pulling.answering:give_back",
        "keep_failure(world, group, each.row.message, each.handle.number, Status.RETURNED.value)",
        "pass",
        f"{PULLING}::test_what_is_given_back",
    ),
    _planted(
        "a group is stored although it has no queue",
        "tagcast.registry.groups:make_queue",
        "world.group_queues.make(GroupQueue.of(group))",
        "pass",
        f"{GROUP}::test_without_its_queue",
    ),
    _planted(
        "a removed group's queue goes with what it holds",
        "tagcast.delivery.emptying:empty_queue",
        "if received:",
        "if False:",
        f"{GROUP}::test_what_a_removed_group",
    ),
    _planted(
        "the queue of a group that is being made is taken for an orphan",
        "tagcast.repairing.orphans:_orphans",
        "ordinal_of(queue.subscription_id) < known.topic.next_ordinal",
        "True",
        f"{GROUP}::test_queues_without_a_group",
    ),
    _planted(
        "a queue that is being emptied is taken for an orphan",
        "tagcast.repairing.orphans:_orphans",
        "lane.state is LaneState.REMOVED and lane.wake_at",
        "False",
        f"{GROUP}::test_queues_without_a_group",
    ),
    _planted(
        "the search forgets the pulls of what nobody acknowledged",
        "tagcast.repairing.expiry:_expire_message",
        "_expired(due or pulls.get(o))",
        "_expired(due)",
        f"{PULLING}::test_what_nobody_ever_pulls",
    ),
)
CMQ = (
    _planted(
        "a signed request is served again",
        "tagcast.operating.signed_requests:take_once",
        "return stored.nonce_taken_by(world.store, key) == me",
        "return True",
        "cmq/test_wire.py::test_a_request_is_served_once",
    ),
    _planted(
        "a request of long ago is served",
        "tagcast_aws.cmq.authentication:authenticate",
        "if not is_timely(timestamp_s, world.clock.now()):",
        "if timestamp_s * 1000 > world.clock.now() + 300_000:",
        "cmq/test_wire.py::test_a_timestamp_is_at_most",
    ),
    _planted(
        "values that begin with an at sign may go unsigned for everybody",
        "tagcast_aws.cmq.authentication:_check_signature",
        "if not key.signs_all:",
        "if True:",
        "cmq/test_signatures.py::test_a_value_that_was_left_out",
    ),
    _planted(
        "a revoked key is signed with nothing",
        "tagcast_aws.cmq.authentication:_check_signature",
        "if key.secret_key is None:\n        raise CmqError(Fault.REVOKED)",
        "if key.secret_key is None:\n        return",
        "cmq/test_wire.py::test_a_revoked_key",
    ),
    _planted(
        "a message that nobody receives is accepted",
        "tagcast.delivery.publishing:publish_matched",
        "raise UnmatchedError(len(directory.by_ordinal))",
        "break",
        "cmq/test_actions.py::test_what_nobody_would_receive",
    ),
    _planted(
        "a form of CMQ is forgotten in its row",
        "tagcast.rows.registry:_content_format_of",
        'if row.get("push_form") != _CMQ:',
        "if True:",
        "cmq/test_actions.py::test_a_subscription_has_cmqs_defaults",
    ),
    _planted(
        "a blank value is dropped from a form",
        "tagcast_aws.cmq.form:parameters_in",
        "keep_blank_values=True",
        "keep_blank_values=False",
        "cmq/test_signatures.py::test_the_form_of_each_client",
    ),
    _planted(
        "a topic's type of filters is not stored",
        "tagcast.rows.registry:topic_row",
        "if topic.filter_type is None",
        "if True",
        "cmq/test_actions.py::test_a_topic_is_made_with_its_type",
    ),
)
SEALED = (
    _planted(
        "a secret is stored as it was given, too",
        "tagcast.sealing.secrets:sealed",
        "replace(changed, settings=kept)",
        "changed",
        f"{SECRETS}::test_a_secret_is_stored_encrypted",
    ),
    _planted(
        "the sweep seals over what changed meanwhile",
        "tagcast.rows.sealed:sealing_writes",
        "expect=as_read",
        "expect={}",
        f"{SECRETS}::test_what_changed_meanwhile",
    ),
    _planted(
        "a secret that cannot be read counts an attempt",
        "tagcast.pushing.opening:attempt_opened",
        "put_off(world, made,",
        "put_off(world, made + 1,",
        f"{SECRETS}::test_while_a_secret_cannot_be_read",
    ),
    _planted(
        "what a receiver says of a subscriber's headers is shown",
        "tagcast.settings:secrets_of",
        "*(settings.headers or {}).values(), ",
        "",
        f"{OWN_HEADERS}::test_what_the_receiver_says",
    ),
    _planted(
        "a subscriber's headers are missing in its pushes",
        "tagcast.pushing.webhook_signature:signed_headers",
        "**(subscription.settings.headers or {}),",
        "",
        f"{OWN_HEADERS}::test_no_header_that_the_subscriber_chose",
    ),
    _planted(
        "a header of the service's own may be chosen",
        "tagcast_aws.api.subscriptions.headers:_refused",
        " or plain.startswith(_TAKEN)",
        "",
        f"{OWN_HEADERS}::test_a_header_that_is_not_a_subscriber_s",
    ),
    _planted(
        "a header is there twice, in two cases",
        "tagcast_aws.api.subscriptions.headers:_refused",
        "if plain in seen:",
        "if False:",
        f"{OWN_HEADERS}::test_headers_are_few_short",
    ),
    _planted(
        "the end of an answer shows the beginning of a long header",
        "tagcast.pushing.response_text:response_text",
        "-max((EDGE_LENGTH, *map(len, forms)))",
        "-EDGE_LENGTH",
        f"{OWN_HEADERS}::test_a_value_is_redacted",
    ),
    _planted(
        "an exchanged secret signs for ever",
        "tagcast.settings:SubscriptionSettings.signing_secrets",
        "if now < former.until",
        "",
        f"{ROTATION}::test_for_the_grace",
    ),
    _planted(
        "an exchanged secret is kept for ever",
        "tagcast.repairing.exchanged_secrets:_forget",
        "world.store.write(formers_removal(listed))",
        "pass",
        f"{ROTATION}::test_after_the_grace",
    ),
    _planted(
        "the end of an exchanged secret takes those that were sealed since",
        "tagcast.rows.sealed:formers_removal",
        "expect=expect",
        "expect={}",
        f"{ROTATION}::test_each_exchanged_secret",
    ),
    _planted(
        "a second exchange forgets who knows the first secret",
        "tagcast.registry.rotation:rotate_secret",
        "(*alive, FormerSecret",
        "(FormerSecret",
        f"{ROTATION}::test_who_exchanges_again",
    ),
    _planted(
        "a push goes out without the service's own signature",
        "tagcast.pushing.webhook_signature:signatures",
        "if settings.signature is Signature.V1A:",
        "if False:",
        "clients/test_receiver.py::test_what_the_service_signs",
    ),
    _planted(
        "the public key verifies pushes of any age",
        "tagcast_client.verifying:_by_public_key",
        "if not _is_verified(",
        "if False and not _is_verified(",
        "clients/test_receiver.py::test_what_the_service_signed_counts",
    ),
    _planted(
        "secrets open for every subscription",
        "tagcast_aws.store.vault:_part",
        "{**context,",
        "{",
        "integration/test_vault.py::test_what_belongs_to_one_subscription",
    ),
)
CIRCUITS = (
    _planted(
        "whoever asks is the probe",
        "tagcast.pushing.circuit:Passage.ask",
        "if host.probe_at <= now and rested_at <= now:",
        "if rested_at <= now:",
        f"{CIRCUIT}::test_one_of_those_that_ask",
    ),
    _planted(
        "a lane that waits for its host forgets that in another process",
        "tagcast.delivery.retrying:_is_in_doubt",
        "return due.last_outcome == CIRCUIT or (due.attempts > 0 and not answered)",
        "return False",
        f"{CIRCUIT}::test_lanes_at_a_dead_host",
    ),
    _planted(
        "two that ask at once both probe",
        "tagcast.rows.host:host_put",
        '{"version": ABSENT if known is None else known.version}',
        "{}",
        f"{CIRCUIT}::test_of_two_that_ask",
    ),
    _planted(
        "a dead prober keeps its probe for ever",
        "tagcast.pushing.circuit:Passage.ask",
        "if host.probe_at <= now and rested_at <= now:",
        "if host.probe_at == (host.opened_at or 0) + _ms(self.world, PROBE_GAP_S) and rested_at <= now:",
        f"{CIRCUIT}::test_a_probe_that_nobody_hears_of",
    ),
    _planted(
        "only a good answer closes a circuit",
        "tagcast.pushing.circuit:Passage.hear",
        "self.reached = self.reached or not outcome.unreached",
        "self.reached = self.reached or outcome.delivered",
        f"{CIRCUIT}::test_a_probe_that_gets_an_answer",
    ),
    _planted(
        "some tenants that hang are everybody's trouble",
        "tagcast.pushing.circuit:Passage.is_doubtful",
        "return news.answered_at is None or news.answered_at <= self.world.clock.now() - _ms(self.world, WINDOW_S)",
        "return True",
        f"{CIRCUIT}::test_a_process_that_had_an_answer",
    ),
    _planted(
        "failures count however long ago they were",
        "tagcast.pushing.circuit:failed",
        "if at > since and each != lane",
        "if each != lane",
        f"{CIRCUIT}::test_five_lanes_that_fail_in_more",
    ),
    _planted(
        "a host that flaps is asked as often as one that died just now",
        "tagcast.pushing.circuit:failed",
        "opened_at=known.opened_at if goes_on else now,",
        "opened_at=now,",
        f"{CIRCUIT}::test_a_host_that_flaps",
    ),
    _planted(
        "a probe that was not made is kept",
        "tagcast.pushing.circuit:Passage.tell",
        "gap_s = 0 if self.reached is None else PROBE_GAP_S",
        "gap_s = PROBE_GAP_S",
        f"{CIRCUIT}::test_a_probe_that_makes_no_attempt",
    ),
    _planted(
        "what is over waits for its host",
        "tagcast.delivery.retrying:_passage",
        "await hold.release(min(passage.until, head.expires_at), *_told(head, CIRCUIT))",
        "await hold.release(passage.until + 10**9, *_told(head, CIRCUIT))",
        f"{CIRCUIT}::test_life_runs_on",
    ),
)

TOLD = (
    _planted(
        "the trace of a request goes before that of its message",
        "tagcast_aws.api.publishing.routes:_traced",
        "draft if draft.trace is not None or trace is None else",
        "draft if trace is None else",
        f"{TRACES}::test_a_message_goes_out_in_the_trace",
    ),
    _planted(
        "a trace that was named is not stored",
        "tagcast.rows.message:_message_of",
        'trace=trace_in(row["trace"]) if "trace" in row else None',
        "trace=None",
        "unit/test_stored_rows.py::test_a_trace_is_stored",
    ),
    _planted(
        "an invalid state takes its parent along",
        "tagcast.trace_context:trace_read",
        'if version == "ff" or',
        'if (state and not _state(state)) or version == "ff" or',
        f"{TRACES}::test_a_state_is_valid_as_a_whole",
    ),
    _planted(
        "a receiver is told that its parent was not recorded",
        "tagcast.trace_context:trace_made",
        "{digest[32:48]}-01",
        "{digest[32:48]}-00",
        "clients/test_tracing.py::test_what_was_published_outside_of_a_trace",
    ),
    _planted(
        "a topic that nobody named has metrics of its own",
        "tagcast_aws.runtime.telemetry:PowertoolsTelemetry.owes",
        "if topic in self._watched:",
        "if True:",
        f"{METERED}::test_topics_that_were_not_named",
    ),
    _planted(
        "every subscription of a topic has metrics of its own",
        "tagcast_aws.runtime.subscription_metrics:SubscriptionMetrics.add",
        "if ordinal < METERED_MAX else OTHERS",
        "",
        f"{METERED}::test_only_the_first_subscriptions",
    ),
    _planted(
        "what a paused lane owes rings for its expiry",
        "tagcast.repairing.overdue:_countable",
        "(LaneState.PAUSED, LaneState.REMOVED)",
        "(LaneState.REMOVED,)",
        f"{METERED}::test_a_lane_that_is_not_active_tells",
    ),
    _planted(
        "the wait for a first round is told of rounds that are over",
        "tagcast.delivery.fan_out:_serve_part",
        "if row.map.round_open:",
        "if True:",
        f"{METERED}::test_a_batch_that_comes_again",
    ),
)
AGREED = (
    _planted(
        "a first round pushes to who did not agree",
        "tagcast.delivery.fan_out:_push",
        "if subscription.settings.unverified is not None:",
        "if False:",
        f"{VERIFIED}::test_what_matches_before",
    ),
    _planted(
        "a retry pushes to who did not agree",
        "tagcast.delivery.retrying:retry",
        "if subscription.settings.unverified is not None:",
        "if False:",
        f"{VERIFIED}::test_what_failed_at_the_former_url",
    ),
    _planted(
        "nobody wakes the lane of who agreed",
        "tagcast.operating.verification:verify",
        "wake(world, changed)",
        "pass",
        f"{VERIFIED}::test_what_matches_before",
    ),
    _planted(
        "an answer counts for another URL",
        "tagcast.operating.verification:verify",
        "present.endpoint == known.settings.endpoint",
        "True",
        f"{VERIFIED}::test_an_answer_for_a_url_that_was_replaced",
    ),
    _planted(
        "a later change forgets the rate that the endpoint allows",
        "tagcast.operating.verification:_agreed",
        "allowed_per_second=before.allowed_per_second",
        "allowed_per_second=None",
        f"{VERIFIED}::test_the_rate_that_the_endpoint_allows",
    ),
    _planted(
        "a first round parks what it owes until it expires",
        "tagcast.delivery.fan_out:_push",
        "part.limited(world.clock.now(), UNVERIFIED)",
        "part.limited(world.clock.now() + 3_600_000, UNVERIFIED)",
        f"{VERIFIED}::test_a_round_that_read_the_subscription",
    ),
    _planted(
        "whoever repeats the request agrees",
        "tagcast.verification:confirmation",
        "hmac.compare_digest(answer.strip(), token.encode())",
        "token.encode() in answer",
        f"{ASKED}::test_who_does_not_agree",
    ),
    _planted(
        "another sender's permission is taken for ours",
        "tagcast.verification:handshake",
        'allowed_origin.strip().lower() not in ("*", origin.lower())',
        "False",
        f"{ASKED}::test_who_does_not_agree",
    ),
)
PLANTED = (
    *FIRST_ROUND,
    *REDELIVERY,
    *GROUPS,
    *OPERATORS,
    *KEEPING,
    *ARCHIVED,
    *TABLE,
    *AROUND,
    *CMQ,
    *MEMBERSHIP,
    *SEALED,
    *CIRCUITS,
    *TOLD,
    *AGREED,
)
