"""The template as it is deployed: a message goes from the API to its receivers, and through the workflow."""

from __future__ import annotations

from typing import Any

from tests.aws import limits
from tests.aws.deployment import Deployment
from tests.aws.http_api import Answer, FunctionUrl
from tests.aws.lambdas import Crowded
from tests.aws.scenes import Receiver
from tests.aws.timeline import Timeline


class Story:
    """A deployment and what its API answered."""

    def __init__(self, **parameters: str) -> None:
        self.timeline = Timeline()
        self.deployment = Deployment(self.timeline, None, 1, parameters=parameters.items())
        self.deployment.begin()
        self.answers: list[Answer] = []

    def ask(self, method: str, *path: str, body: Any = None) -> Answer:
        self.deployment.api.ask(method, path, self.answers.append, body=body)
        self.play(5_000)
        return self.answers[-1]

    def play(self, ms: int) -> None:
        self.timeline.play_until(self.timeline.now + ms)


def test_a_message_is_published_at_the_url_of_its_function_too_where_the_template_asks_for_one() -> None:
    assert Story().deployment.publish_url is None
    story = Story(PublishUrl="true")
    assert story.ask("PUT", "topics", "t", body={}).status == 201
    receiver = Receiver(story.timeline, hangs=False)
    story.deployment.network.listen("a.example", receiver)
    endpoint = {"protocol": "http", "url": "http://a.example/"}
    assert story.ask("PUT", "topics", "t", "subscriptions", "a", body={"endpoint": endpoint}).status == 201
    url = story.deployment.publish_url
    assert url is not None
    for path in (("topics", "t", "messages"), ("topics",)):
        url.ask("POST", path, story.answers.append, body={"body": "hello"})
        story.play(5_000)
    accepted, elsewhere = story.answers[-2:]
    assert receiver.asked_for == [accepted.value["message_id"]]
    assert (accepted.status, elsewhere.status) == (201, 404)


def test_the_url_of_a_function_says_itself_what_lambda_refuses_and_that_a_function_failed() -> None:
    story = Story()
    functions = story.deployment.functions
    url = FunctionUrl(story.timeline, functions, functions.by_id["FanOutFunction"])  # Which takes no such events.
    url.ask("POST", ("topics",), story.answers.append)
    story.play(2_000)
    url.ask("POST", ("topics",), story.answers.append, body="x" * limits.LAMBDA_PAYLOAD_BYTES_MAX)
    functions.weather = Crowded("fan_out")
    url.ask("POST", ("topics",), story.answers.append)
    assert [answer.status for answer in story.answers] == [502, 413, 429]
