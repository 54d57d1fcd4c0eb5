"""Compares what roles did with what their policies allow: `python -m tests.permissions.report` prints the table.

Every permission is taken away in turn, and the recorded uses decide whether that would be noticed.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

from local.engine.callers import roles_of
from local.rules.needs import Account
from local.rules.permissions import Grant, Need, Role, decide
from local.template.intrinsics import Resolver
from local.template.parameters import LOCAL
from tests.aws.stack import translated
from tests.permissions.story import FUNCTIONS, Story
from tests.permissions.uses import USES, Use, declared, recorded
from tests.running_stack import start_stack

TIME_SCALE = "10"
BY_AWS = "what AWS itself does in the role's name, outside of any code that runs here"
BY_SPARK = "used by the jobs over the archive, whose end-to-end test needs Spark"
LETTERS = "keeps the index of a dead-letter topic with two hundred subscriptions"
SILENT = "removes a group that was silent for hours"
NOT_USED: dict[tuple[str, str], str] = {
    ("*", "logs:*"): BY_AWS,
    ("*", "xray:*"): BY_AWS,
    ("*", "dynamodb:ListStreams"): "Lambda requires it of the role of a function with a stream as its source",
    ("*", "sqs:SendMessage group"): "on the local stack any queue may be an endpoint; test_roles takes that away",
    ("PullFunctionRole", "s3:*"): LETTERS,
    ("RetryFunctionRole", "s3:*"): LETTERS,
    ("SweepFunctionRole", "s3:*"): LETTERS,
    ("SweepFunctionRole", "sqs:DeleteQueue group"): "removes the queue of a group that was never stored",
    ("SweepFunctionRole", "sqs:GetQueueAttributes group"): "counts the entries in the queue of a group without rows",
    (
        "PullFunctionRole",
        "dynamodb:DeleteItem messagestable",
    ): "ends, last of all, what was retained for others",
    ("RelayFunctionRole", "sqs:SendMessage relayfailures"): "the source gives up after an hour",
    ("RelayFunctionRole", "dynamodb:BatchGetItem messagestable"): "looks for ends of a wide message; the box notices",
    (
        "ArchiveFunctionRole",
        "s3:*",
    ): "keeps what cannot be read, and what the source gives up after 18 hours",
    ("ArchiveFunctionRole", "dynamodb:GetItem messagestable"): "reads the claim of an event that comes again",
    ("ArchiveFunctionRole", "sqs:* archivefailures"): "a person asks for the archiving of kept changes",
    ("*", "dynamodb:BatchGetItem registrytable"): "reads the changed subscriptions of a topic that the process knows",
    ("SweepFunctionRole", "dynamodb:GetItem registrytable"): "reads the order of a topic whose queue did not take all",
    ("SweepFunctionRole", "dynamodb:DeleteItem registrytable"): SILENT,
    ("SweepFunctionRole", "dynamodb:PutItem registrytable"): SILENT,
    ("SweepFunctionRole", "dynamodb:UpdateItem registrytable"): SILENT,
    ("SweepFunctionRole", "events:PutEvents"): "tells of the last member of a group two minutes after its last word",
    ("SweepFunctionRole", "dynamodb:BatchGetItem messagestable"): "reads what has been over for ten minutes",
    ("FanOutFunctionRole", "dynamodb:GetItem messagestable"): "reads again what another writer changed meanwhile",
    (
        "FanOutFunctionRole",
        "dynamodb:DeleteItem messagestable",
    ): "an entry comes twice, and a subscription that it was retained for is gone meanwhile",
    (
        "FanOutFunctionRole",
        "sqs:ChangeMessageVisibility",
    ): "a batch of more messages than one part has, of which the first part took long",
    ("FanOutFunctionRole", "s3:*"): "keeps the subscriptions of a topic with a thousand of them",
    ("RelayFunctionRole", "dynamodb:PutItem messagestable"): "lists what the queue did not take, and here it takes all",
    ("SweepFunctionRole", "sqs:SendMessage deliveryqueue"): "sends again what the queue did not take, or has lost",
    ("DeliveryStreamRole", "s3:GetBucketLocation"): BY_AWS,
    ("DeliveryStreamRole", "s3:ListBucket"): BY_AWS,
    ("DeliveryStreamRole", "s3:ListBucketMultipartUploads"): BY_AWS,
    ("DeliveryStreamRole", "s3:AbortMultipartUpload"): BY_AWS,
    ("DeliveryStreamRole", "s3:PutObject failed"): "where Firehose puts what it cannot deliver",
    ("*", "ec2:*"): "Lambda itself deletes the interfaces in former subnets",
    ("JobRole", "execute-api:Invoke"): "the local stack asks for no signatures",
    ("JobRole", "s3:*"): BY_SPARK,
    ("EraseRole", "s3:*"): BY_SPARK,
}
"""What no test can use, each with the reason; the part after a space is looked for in the resource."""


@dataclass(frozen=True)
class Removal:
    """One permission taken away, and a recorded use that would then be refused (None: nobody would notice)."""

    role: str
    grant: Grant
    noticed_by: Use | None
    excused: str | None

    @property
    def survives(self) -> bool:
        """Whether nothing notices it and nothing excuses it: the permission is superfluous."""
        return self.noticed_by is None and self.excused is None


@cache
def resolved_template() -> Resolver:
    """The template as the story's stack deploys it."""
    return Resolver(translated(), Account("123456789012", "us-east-1"), parameters=LOCAL)


def declared_roles() -> dict[str, Role]:
    """The roles of the template, resources named as in the uses."""
    return {
        name: Role(name, tuple(Grant(g.action, declared(g.resource), g.allows, g.condition) for g in role.grants))
        for name, role in roles_of(resolved_template()).items()
    }


def missing(uses: Iterable[Use]) -> list[Use]:
    """What was asked for and refused."""
    return [use for use in uses if use.grant is None]


def removals(roles: dict[str, Role], uses: Sequence[Use]) -> list[Removal]:
    """Every permission taken away in turn."""
    found = []
    for role in roles.values():
        mine = [use for use in uses if use.role == role.name and use.grant is not None]
        for grant in dict.fromkeys(grant for grant in role.grants if grant.allows):
            less = [each for each in role.grants if each != grant]
            noticed = next((use for use in mine if decide(less, Need(use.action, use.resource)) is None), None)
            found.append(Removal(role.name, grant, noticed, excuse(role.name, grant)))
    return found


def excuse(role: str, grant: Grant) -> str | None:
    """Why a permission need not be used by any test, or None."""
    for (whose, what), reason in NOT_USED.items():
        action, _, part = what.partition(" ")
        named = action == grant.action or (action.endswith("*") and grant.action.startswith(action[:-1]))
        if whose in ("*", role) and named and part in grant.resource:
            return reason
    return None


def tell(folder: Path, uses: Path) -> dict[str, bool]:
    """Tell the story to a stack of its own; answers how its chapters ended."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "functions.py").write_text(FUNCTIONS)
    flags = ("--functions", str(folder / "functions.py"), "--uses", str(uses))
    with start_stack(folder / "data", "--time-scale", TIME_SCALE, *flags) as stack:
        return Story(stack).play()


def main() -> int:
    """Record what is not recorded yet, and print the table."""
    console = Console(width=170)
    with tempfile.TemporaryDirectory() as folder:
        if not recorded(USES):
            console.print(f"the story, told to a stack: {tell(Path(folder) / 'story', USES)}")
    uses = recorded(USES)
    found = removals(declared_roles(), uses)
    _print(console, found, missing(uses))
    return 1 if missing(uses) or any(each.survives for each in found) else 0


def _print(console: Console, found: Sequence[Removal], refused: Sequence[Use]) -> None:
    table = Table("role", "action", "resource", "taken away, this is refused")
    excused: dict[str, list[str]] = defaultdict(list)
    for each in found:
        if each.noticed_by is None and each.excused is not None:
            excused[each.excused].append(f"{each.role} {each.grant.action}")
            continue
        notice = "NOTHING: it is superfluous" if each.noticed_by is None else each.noticed_by.resource
        table.add_row(each.role, each.grant.action, _short(each.grant.resource), _short(notice))
    console.print(table)
    for reason, permissions in excused.items():
        console.print(f"used by no test ({reason}): {', '.join(permissions)}")
    for use in refused:
        console.print(f"MISSING: {use.role} needs {use.action} on {use.resource}")
    noticed = sum(each.noticed_by is not None for each in found)
    pardoned = sum(map(len, excused.values()))
    console.print(f"{len(found)} permissions: {noticed} noticed when taken away, {pardoned} excused, "
                  f"{len(found) - noticed - pardoned} superfluous; {len(refused)} missing")  # fmt: skip


def _short(resource: str) -> str:
    """An ARN without its beginning."""
    return ":".join(resource.split(":")[5:]) or resource


if __name__ == "__main__":
    sys.exit(main())
