"""What CloudFormation's intrinsics say, for the local stack and the simulated AWS alike."""

from pathlib import Path
from typing import Any

import pytest

from local.rules.needs import Account
from local.template.intrinsics import IntrinsicError, Resolver
from local.template.translated import Template

PARAMETERS = {"Names": {"Type": "CommaDelimitedList", "Default": "a,b"}, "Wish": {"Type": "String", "Default": ""}}
RESOURCES: dict[str, Any] = {
    "Fifo": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True}},
    "Bucket": {"Type": "AWS::S3::Bucket"},
    "Named": {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": {"Fn::Sub": "${AWS::StackName}-f"}}},
    "Logs": {"Type": "AWS::Logs::LogGroup"},
    "Alarm": {"Type": "AWS::CloudWatch::Alarm"},
}
CONDITIONS = {
    "Wished": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Wish"}, ""]}]},
    "WishedNothing": {"Fn::Equals": [{"Ref": "Wish"}, 0]},
}
TEMPLATE = Template(RESOURCES, PARAMETERS, CONDITIONS, {}, {"Named": Path()})
ACCOUNT = Account("1", "r", "aws-cn")


def said(given: Any, **settings: Any) -> Any:
    return Resolver(TEMPLATE, ACCOUNT, "s", **settings).value(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"Ref": "Fifo"}, "https://sqs.r.amazonaws.com/1/s-Fifo.fifo"),
        ({"Fn::GetAtt": ["Fifo", "QueueName"]}, "s-Fifo.fifo"),
        ({"Fn::GetAtt": "Bucket.Arn"}, "arn:aws-cn:s3:::s-bucket"),
        ({"Ref": "Named"}, "s-f"),
        ({"Fn::Sub": ["${x}:${!kept}:${Wish}", {"x": {"Ref": "Logs"}}]}, "s-Logs:${kept}:"),
        ({"Fn::Sub": "${Named.Arn}"}, "arn:aws-cn:lambda:r:1:function:s-f"),
        ({"Fn::Join": ["+", {"Ref": "Names"}]}, "a+b"),
        ({"Fn::Select": [1, {"Fn::Split": ["/", "a/b"]}]}, "b"),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [{"Ref": "AWS::NoValue"}, 1]}, {"b": [1]}),
    ],
)
def test_an_intrinsic_says_what_cloudformation_says(given: Any, expected: Any) -> None:
    assert said(given) == expected


@pytest.mark.parametrize(("wish", "expected"), [("", {}), ("x", {"wishes": ["x"]})])
def test_a_condition_decides_by_the_parameters(wish: str, expected: dict[str, list[str]]) -> None:
    given = {"wishes": {"Fn::If": ["Wished", [{"Ref": "Wish"}], {"Ref": "AWS::NoValue"}]}}
    assert said(given, parameters={"Wish": wish}) == expected


@pytest.mark.parametrize(("wish", "is_none"), [("0", True), ("", False), ("00", False), ("1", False)])
def test_a_number_of_the_template_equals_the_text_of_a_parameter(wish: str, is_none: bool) -> None:
    assert Resolver(TEMPLATE, ACCOUNT, parameters={"Wish": wish}).holds("WishedNothing") is is_none


def test_what_exists_has_the_name_that_it_was_given() -> None:
    physical = {"Fifo": "http://127.0.0.1:1/1/made-up-77.fifo", "Logs": "/tagcast/logs"}
    resolver = Resolver(TEMPLATE, ACCOUNT, physical=physical)
    assert resolver.reference("Fifo") == physical["Fifo"]
    assert resolver.attribute("Fifo", "Arn") == "arn:aws-cn:sqs:r:1:made-up-77.fifo"
    assert resolver.attribute("Logs", "Arn") == "arn:aws-cn:logs:r:1:log-group:/tagcast/logs:*"


@pytest.mark.parametrize("given", [{"Fn::GetAtt": ["Fifo", "Colour"]}, {"Fn::GetAtt": "Alarm.Arn"}, {"Fn::Cidr": []}])
def test_what_is_not_understood_is_refused(given: Any) -> None:
    with pytest.raises(IntrinsicError):
        said(given)
