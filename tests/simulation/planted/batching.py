"""Bugs of batched pushes."""

from __future__ import annotations

from tagcast.model import Strategy

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

BATCHED = Aim(modes=("flapping", "down"), rules=("all",), batched=1.0)
IN_ORDER = Aim(
    modes=("flapping", "down"), rules=("all",), strategy=Strategy.BACKOFF_RETRY, operations=("sweep",), batched=1.0
)
SHORT_LIVED = Aim(modes=("flapping", "slow"), rules=("all",), retention_s=60, steered=0.5, batched=1.0)

RACING = Aim(
    faults=("task_copy", "workflow_loss", "stall"),
    modes=("flapping", "down", "slow"),
    rules=("all",),
    operations=("retry_now", "pause", "resume", "skip_head", "sweep"),
    restless=True,
    batched=1.0,
)

MUTANTS = (
    Mutant(
        "a batch that fails is an attempt of all that it holds",
        "tagcast.pushing.engine:_count_attempted",
        "return 1\n",
        "return len(pushes)\n",
        BATCHED,
    ),
    Mutant(
        "what a receiver names as failed is delivered",
        "tagcast.pushing.batch_form:read_response",
        "failed=dict.fromkeys(ids, NAMED)",
        "failed={}",
        BATCHED,
    ),
    Mutant(
        "what stands behind a failed message of its batch is delivered",
        "tagcast.pushing.engine:_count_attempted",
        "if failed and pushes[0].subscription.settings.keeps_order",
        "if False",
        IN_ORDER,
    ),
    Mutant(
        "an answer that names a message of no batch takes all",
        "tagcast.pushing.batch_form:read_response",
        "if ids is None or not ids <= {push.message.message_id for push in batch.pushes}:",
        "if ids is None:",
        BATCHED,
    ),
    Mutant(
        "an answer that is cut off takes all",
        "tagcast.pushing.batch_form:read_response",
        "    except (ValueError, RecursionError):\n        return replace(told, delivered=False, detail=MALFORMED)",
        "    except (ValueError, RecursionError):\n        return taken",
        BATCHED,
    ),
    Mutant(
        "what failed before takes others into its request",
        "tagcast.pushing.engine:requests_of",
        "not made and not last[0][1]",
        "True",
        BATCHED,
    ),
    Mutant(
        "a batch is as long as its backlog",
        "tagcast.pushing.engine:requests_of",
        "0 < len(last) < batching.messages_max",
        "0 < len(last)",
        BATCHED,
    ),
    Mutant(
        "a batch holds what is over",
        "tagcast.pushing.engine:_Sender.attempt",
        "drop_expired(self.world, self.run.subscription, request, self.result, now)",
        "list(request)",
        SHORT_LIVED,
    ),
    Mutant(
        "the ends of a batch are written by whoever pushed it",
        "tagcast.delivery.lease:LaneLease.end_deliveries",
        "writes: list[Write] = [self.check()]",
        "writes: list[Write] = []",
        RACING,
    ),
    Mutant(
        "an end is put over another one",
        "tagcast.rows.log:end_puts",
        'expect={"pk": ABSENT})',
        "expect={})",
        RACING,
    ),
)
