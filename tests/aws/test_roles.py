"""Who may do what: the rules of IAM on the roles of the translated template."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from local.engine.callers import roles_of
from local.rules.permissions import Grant, Need, Role
from tests.aws.account import furnished
from tests.aws.box import ADMINISTRATOR
from tests.aws.roles import Roles
from tests.aws.small_account import code_of
from tests.aws.solo_timeline import SoloTimeline
from tests.aws.stack import deployed


@cache
def roles() -> Roles:
    return Roles.of(deployed())


def test_a_role_may_do_what_the_template_says_and_nothing_else() -> None:
    messages, registry = deployed().arn("MessagesTable"), deployed().arn("RegistryTable")
    assert roles().allows("PublishFunction", "dynamodb:PutItem", messages)
    assert roles().allows("PublishFunctionRole", "dynamodb:PutItem", messages)
    assert not roles().allows("PublishFunction", "dynamodb:PutItem", registry)
    assert not roles().allows("PublishFunction", "dynamodb:DeleteItem", messages)
    assert not roles().allows("RelayFunction", "dynamodb:UpdateItem", registry)
    assert roles().allows("SweepFunction", "dynamodb:Query", f"{messages}/index/wake")
    assert not roles().allows("FanOutFunction", "dynamodb:Query", f"{messages}/index/wake")


def test_a_role_that_the_template_does_not_have_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        roles().allows("NobodyFunction", "s3:GetObject", "arn:any")


@pytest.mark.parametrize(
    ("actions", "resources", "asked", "speaks"),
    [
        (("s3:Get*",), ("*",), ("s3:GetObject", "arn:x"), True),
        (("s3:getobject",), ("*",), ("s3:GetObject", "arn:x"), True),
        (("s3:*",), ("arn:x/*",), ("s3:GetObject", "arn:x"), False),
        (("s3:*",), ("arn:x/?",), ("s3:GetObject", "arn:x/y"), True),
        (("s3:*",), ("arn:[x]",), ("s3:GetObject", "arn:x"), False),
        (("s3:*",), ("arn:X",), ("s3:GetObject", "arn:x"), False),
    ],
)
def test_patterns_of_iam_have_stars_and_question_marks_only(
    actions: Any, resources: Any, asked: tuple[str, str], speaks: bool
) -> None:
    grants = [Grant(action, resource) for action in actions for resource in resources]
    assert any(grant.covers(Need(*asked)) for grant in grants) is speaks


def test_a_condition_holds_only_for_what_the_request_says() -> None:
    grant, need = (
        Grant("*", "*", True, {"StringEquals": {"aws:PrincipalTag/team": ["a"]}}),
        Need("s3:GetObject", "arn:x"),
    )
    assert grant.covers(need, {"aws:PrincipalTag/team": "a"})
    assert not grant.covers(need, {"aws:PrincipalTag/team": "b"})
    assert not grant.covers(need, {})


def test_a_refused_call_has_the_code_of_its_service_and_no_effect() -> None:
    box = furnished(deployed(), SoloTimeline(), roles())
    table, queue = deployed().name_of("MessagesTable"), deployed().reference("DeliveryQueue")
    row = {"pk": {"S": "p"}, "sk": {"S": "s"}}
    dynamodb = box.client("dynamodb", "PublishFunction")
    assert code_of(lambda: dynamodb.delete_item(TableName=table, Key=row)) == "AccessDeniedException"
    assert not list(box.services["dynamodb"].tables[table].rows())  # type: ignore[attr-defined]
    message = {"QueueUrl": queue, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    assert code_of(lambda: box.client("sqs", "FanOutFunction").send_message(**message)) == "AccessDenied"
    box.client("sqs", "PublishFunction").send_message(**message)
    firehose = box.client("firehose", "SweepFunction")
    put = {"DeliveryStreamName": deployed().name_of("MessagesDelivery"), "Records": [{"Data": b"x"}]}
    assert code_of(lambda: firehose.put_record_batch(**put)) == "AccessDeniedException"
    assert box.calls["FanOutFunction", "sqs:SendMessage", deployed().arn("DeliveryQueue")] == 1


def test_each_write_of_a_transaction_has_to_be_allowed() -> None:
    box = furnished(deployed(), SoloTimeline(), roles())
    table = deployed().name_of("MessagesTable")
    publish = box.client("dynamodb", "PublishFunction")
    put = {"Put": {"TableName": table, "Item": {"pk": {"S": "p"}, "sk": {"S": "s"}}}}
    delete = {"Delete": {"TableName": table, "Key": {"pk": {"S": "p"}, "sk": {"S": "t"}}}}
    publish.transact_write_items(TransactItems=[put])
    assert code_of(lambda: publish.transact_write_items(TransactItems=[put, delete])) == "AccessDeniedException"


def test_an_absent_object_is_forbidden_to_those_who_may_not_list() -> None:
    bucket = deployed().name_of("IndexBucket")
    listing = Grant("s3:ListBucket", deployed().arn("IndexBucket"))
    blind = Role("Blind", tuple(each for each in roles_of(deployed())["PublishFunctionRole"].grants if each != listing))
    box = furnished(deployed(), SoloTimeline(), Roles({**roles_of(deployed()), "Blind": blind}, {}))
    absent = {"Bucket": bucket, "Key": "indexes/x"}
    assert code_of(lambda: box.client("s3", "Blind").get_object(**absent)) == "AccessDenied"
    assert code_of(lambda: box.client("s3", "PublishFunctionRole").get_object(**absent)) == "NoSuchKey"
    assert code_of(lambda: box.client("s3", ADMINISTRATOR).get_object(**absent)) == "NoSuchKey"
