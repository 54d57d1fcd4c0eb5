"""The URL of the function publish, where the template asks for one."""

from __future__ import annotations

from tests.aws import limits
from tests.aws.http_api import Answer, FunctionUrl
from tests.aws.lambdas import Crowded
from tests.aws.scenes import Scene


def test_a_message_is_published_at_the_url_of_its_function_too_where_the_template_asks_for_one() -> None:
    assert Scene(1).deployment.publish_url is None
    scene, answers = Scene(1, PublishUrl="true"), list[Answer]()
    scene.topic("t")
    scene.subscribe("t", "a")
    url = scene.deployment.publish_url
    assert url is not None
    for path in (("topics", "t", "messages"), ("topics",)):
        url.ask("POST", path, answers.append, body={"body": "hello"})
        scene.play(5)
    accepted, elsewhere = answers
    assert scene.receivers["t/a"].asked_for == [accepted.value["message_id"]]
    assert (accepted.status, elsewhere.status) == (201, 404)


def test_the_url_of_a_function_says_itself_what_lambda_refuses_and_that_a_function_failed() -> None:
    scene, answers = Scene(1), list[Answer]()
    functions = scene.deployment.functions
    url = FunctionUrl(scene.timeline, functions, functions.by_id["FanOutFunction"])  # Which takes no such events.
    url.ask("POST", ("topics",), answers.append)
    scene.play(2)
    url.ask("POST", ("topics",), answers.append, body="x" * limits.LAMBDA_PAYLOAD_BYTES_MAX)
    functions.weather = Crowded("fan_out")
    url.ask("POST", ("topics",), answers.append)
    assert [answer.status for answer in answers] == [502, 413, 429]
