"""A short life of the service in which every permission of every function is needed at least once."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError
from tagcast_cli.cmq_key_store import KeyStore
from tagcast_cli.cmq_keys import create_key

from tests.cmq.over_http import CmqProgram
from tests.e2e.killing import call
from tests.http_server import Handler, serving
from tests.running_stack import RunningStack, wait_until

FUNCTIONS = """
def cheap(event):
    return {"verdicts": [True for _ in event["messages"]]}

def refuses(event):
    raise ValueError("not today")
"""
"""Functions of subscribers, for `--functions`."""
ARCHIVED = 205
"""With so many subscriptions a topic's index is kept on S3."""
SECRET = f"whsec_{'QUJD' * 8}"
DEAD = {"protocol": "http", "url": "http://127.0.0.1:9/"}


@contextmanager
def refusing() -> Iterator[tuple[dict[str, str], threading.Event]]:
    """Yield an endpoint that refuses, and the event from which on it accepts."""
    accepts = threading.Event()

    class Serving(Handler):
        def serve(self) -> None:
            self.body()
            self.answer(204 if accepts.is_set() else 500)

    with serving(Serving) as url:
        yield {"protocol": "http", "url": f"{url}/"}, accepts


@dataclass
class Story:
    """The story, told to one running stack; each chapter returns whether it ended as promised."""

    stack: RunningStack

    def play(self) -> dict[str, bool]:
        """All chapters in their order; what a refused permission makes of one is its answer."""
        chapters = {
            "manage": self.manage,
            "push": self.push,
            "sign": self.sign,
            "pull": self.pull,
            "letters": self.letters,
            "recover": self.recover,
            "continue": self.continue_as_new,
            "tail": self.tail,
            "sweep": self.sweep,
            "twice": self.twice,
            "index": self.index,
            "events": self.events,
            "cmq": self.cmq,
        }
        return {name: self._told(chapter) for name, chapter in chapters.items()}

    @staticmethod
    def _told(chapter: Callable[[], bool]) -> bool:
        with suppress(OSError):  # HTTP errors are such.
            return chapter()
        return False

    def manage(self) -> bool:
        """Topics, subscriptions and shadows come and go."""
        self.put("/topics/kept", {})
        self.put("/topics/kept", {"retention_seconds": 3600})
        self.subscribe("kept", "s", DEAD, filter={"kind": "tags", "tags": ["a"]})
        self.put("/topics/kept/subscriptions/s/shadow", {"filter": {"kind": "tags", "tags": ["b"]}})
        self.get("/topics/kept/subscriptions/s/shadow")
        self.call("DELETE", "/topics/kept/subscriptions/s/shadow")
        self.put("/topics/kept/subscriptions/s/shadow", {"filter": {"kind": "tags", "tags": ["b"]}})
        self.publish("kept", tags=["b"])
        shadow = self.get("/topics/kept/subscriptions/s/shadow")
        promoted = {"shadow_version": shadow["shadow_version"]}
        self.post("/topics/kept/subscriptions/s/shadow/promote", promoted)
        self.get("/topics/kept/subscriptions/s/versions")
        self.get("/topics")
        self.get("/lanes")
        self.get("/hosts")
        self.put("/topics/kept/subscriptions/workers/members/1", {"filter": None})
        self.call("DELETE", "/topics/kept/subscriptions/workers/members/1")
        self.put("/topics/gone", {})
        self.subscribe("gone", "s", DEAD)
        self.publish("gone")
        self.eventually(lambda: self.lane("gone", "s")["backlog"] == 1)
        self.call("DELETE", "/topics/gone/subscriptions/s")
        self.call("DELETE", "/topics/gone")
        return True

    def push(self) -> bool:
        """Endpoints of every kind, one of them absent at first; a filter that is a function."""
        owner = self.owner("sqs")
        here = owner.create_queue(QueueName="here")["QueueUrl"]
        self.put("/topics/pushed", {})
        self.subscribe("pushed", "here", {"protocol": "sqs", "queue_url": here})
        self.subscribe("pushed", "late", {"protocol": "sqs", "arn": f"{ARN}late"}, retry=ONE_AFTER_ANOTHER)
        self.subscribe("pushed", "refuses", {"protocol": "lambda", "function": "refuses"})
        self.subscribe("pushed", "judged", DEAD, filter={"kind": "function", "function": "cheap"})
        sent = [self.publish("pushed") for _ in range(3)]
        for _ in range(2):
            self.call("POST", "/topics/pushed/messages", {"body": "x"}, **{"idempotency-key": "once"})
        batch = {"messages": [{"body": "x"}, {"body": "y"}]}
        self.call("POST", "/topics/pushed/messages/batch", batch, **{"idempotency-key": "both"})
        self.post("/topics/pushed/subscriptions/here/replay", {"messages": [{"body": "x", "replay_of": sent[0]}]})
        self.eventually(lambda: self.lane("pushed", "late")["state"] == "blocked")
        owner.create_queue(QueueName="late")
        # A lane may be seen blocked before the round that blocked it is closed; only then the message is listed.
        self.eventually(lambda: bool(self.get("/topics/pushed/messages")["messages"]))
        self.get(f"/topics/pushed/messages/{sent[0]}")
        self.get(f"/topics/pushed/messages/{sent[0]}/explain?subscription=late")
        self.eventually(lambda: self.get("/topics/pushed/history")["archived_until"] is not None)
        self.get("/topics/pushed/subscriptions/refuses/backlog")
        names = ("here", "late")
        is_over = self.eventually(lambda: all(self.lane("pushed", name)["state"] == "active" for name in names))
        # On a busy machine a first round comes to no push, and lanes do all of it: this one finds them active.
        last = self.publish("pushed")
        self.eventually(lambda: bool(self.get(f"/topics/pushed/messages/{last}")["subscribers"]["here"]["attempts"]))
        return is_over

    def sign(self) -> bool:
        """A secret signs the first attempts and the others."""
        with refusing() as (endpoint, accepts):
            self.put("/topics/signed", {})
            self.subscribe("signed", "s", endpoint, secret=SECRET, signature="v1a")
            are_told = "public_keys" in self.get("/topics/signed/subscriptions/s")
            self.post("/topics/signed/subscriptions/s/secret/rotate", {"grace_seconds": 60})
            self.publish("signed")
            self.eventually(lambda: self.lane("signed", "s")["state"] == "retrying")
            accepts.set()
            return self.eventually(lambda: self.lane("signed", "s")["state"] == "active") and are_told

    def pull(self) -> bool:
        """A group is handed messages, pulls, answers in every way, and goes with what is left."""
        self.put("/topics/pulled", {})
        group = "/topics/pulled/subscriptions/g"
        self.put("/topics/dead-letters", {})
        self.subscribe("dead-letters", "s", DEAD)
        once = {"endpoint": {"protocol": "pull"}, "retry": {"max_retries": 1}, "dead_letter_topic": "dead-letters"}
        self.put(group, once)
        self.post(f"{group}/pause", {})
        sent = [self.publish("pulled") for _ in range(3)]
        self.eventually(lambda: self.lane("pulled", "g")["backlog"] == 3)
        self.post(f"{group}/resume", {})
        sent.append(self.publish("pulled"))
        found: list[str] = []

        def pulled(number: int) -> bool:
            answer = self.post(f"{group}/pull", {"wait_seconds": 1, "visibility_timeout_seconds": 3_600})
            found.extend(each["receipt_handle"] for each in answer["messages"])
            return len(found) >= number

        self.eventually(lambda: pulled(4))
        self.post(f"{group}/extend", {"receipt_handles": found[:1], "visibility_timeout_seconds": 3_600})
        self.post(f"{group}/ack", {"receipt_handles": found[1:]})
        self.post(f"{group}/nack", {"receipt_handles": found[:1]})
        self.eventually(lambda: pulled(5))
        self.post(f"{group}/nack", {"receipt_handles": found[4:]})
        self.eventually(lambda: pulled(5) and not self.retained("pulled", sent))
        self.eventually(lambda: self.lane("dead-letters", "s")["backlog"] == 1)
        last = self.publish("pulled")
        self.eventually(lambda: self.lane("pulled", "g").get("queued") == 1)
        self.put("/topics/pulled/subscriptions/late", {"endpoint": {"protocol": "pull"}, "start_from": "earliest"})
        self.eventually(lambda: self.lane("pulled", "late").get("queued") == 1)
        for name in ("late", "g"):
            self.call("DELETE", f"/topics/pulled/subscriptions/{name}")
        return self.eventually(lambda: not self.retained("pulled", [*sent, last]))

    def letters(self) -> bool:
        """Deliveries that are given up are published to a dead-letter topic: by the first round, and by a retry."""
        self.put("/topics/given-up", {})
        self.put("/topics/letters", {})
        self.subscribe("letters", "s", DEAD)
        for name, retries in (("at-once", 0), ("retried", 1)):
            retry = {"strategy": "BACKOFF_RETRY", "max_retries": retries, "interval_seconds": 10}
            endpoint = {"protocol": "lambda", "function": "refuses"}
            self.subscribe("given-up", name, endpoint, retry=retry, dead_letter_topic="letters")
        self.publish("given-up")
        return self.eventually(lambda: self.lane("letters", "s")["backlog"] == 2)

    def retained(self, topic: str, ids: Sequence[str]) -> list[str]:
        return [each for each in ids if self.state(topic, each) == "retained"]

    def recover(self) -> bool:
        """A lane is paused, resumed, skipped, retried and drains in the end."""
        with refusing() as (endpoint, accepts):
            self.put("/topics/recovers", {})
            self.subscribe("recovers", "s", endpoint, retry=ONE_AFTER_ANOTHER)
            self.subscribe("recovers", "many", endpoint)
            for _ in range(4):
                self.publish("recovers")
            self.eventually(lambda: self.lane("recovers", "s")["state"] == "blocked")
            self.eventually(lambda: self.lane("recovers", "many")["backlog"] == 4)
            lane = "/topics/recovers/subscriptions/s"
            self.post(f"{lane}/pause", {})
            self.publish("recovers")
            self.post(f"{lane}/skip", {"reason": "why not"})
            self.post(f"{lane}/resume", {})
            accepts.set()
            self.post(f"{lane}/retry", {})
            self.post("/topics/recovers/retry", {})
            return self.eventually(lambda: self.lane("recovers", "s")["state"] == "active") and self.eventually(
                lambda: self.lane("recovers", "many")["state"] == "active"
            )

    def continue_as_new(self) -> bool:
        """An execution that has gone through all its rounds hands its lane to the next."""
        self.put("/topics/old", {})
        self.subscribe("old", "s", DEAD)
        self.publish("old")
        self.eventually(lambda: self.lane("old", "s")["state"] == "lost_contact")
        states = self.owner("stepfunctions")
        found = [task for task, _ in self.executions() if task["topic"] == "old"]
        if not found:
            return False
        machine = self.stack.where["outputs"]["StateMachineArn"]
        task = {**found[0], "rounds": 1_500}
        states.start_execution(stateMachineArn=machine, name="used-up", input=json.dumps(task))
        return self.eventually(
            lambda: any(
                task["topic"] == "old" and task["generation"] != found[0]["generation"] for task, _ in self.executions()
            )
        )

    def tail(self) -> bool:
        """Somebody watches a topic while messages come: the archive is told of it within a second."""
        self.put("/topics/watched", {})

        def told() -> bool:
            answer = self.get("/topics/watched/tail?wait_seconds=1")
            self.publish("watched")
            return bool(answer["events"])

        return self.eventually(told)

    def sweep(self) -> bool:
        """A lane whose execution has died is woken; messages past their life end."""
        self.put("/topics/swept", {"retention_seconds": 60})
        self.subscribe("swept", "asleep", DEAD)
        self.subscribe("swept", "dead", DEAD)
        self.post("/topics/swept/subscriptions/asleep/pause", {})
        self.put("/topics/woken", {})
        self.subscribe("woken", "s", DEAD)
        sent = self.publish("swept")
        self.publish("woken")
        self.eventually(lambda: self.lane("woken", "s")["state"] == "lost_contact")
        before = {execution for task, execution in self.executions() if task["topic"] in ("woken", "swept")}
        for execution in before:
            with suppress(ClientError):  # It may have come to its end in this moment.
                self.owner("stepfunctions").stop_execution(executionArn=execution)
        woken = self.eventually(
            lambda: any(task["topic"] == "woken" and each not in before for task, each in self.executions())
        )
        return woken and self.eventually(lambda: self.state("swept", sent) == "deleted")

    def twice(self) -> bool:
        """The queue delivers messages a second time, just when their life ends and nobody has swept them up yet."""
        self.put("/topics/twice", {"retention_seconds": 60})
        self.subscribe("twice", "s", DEAD)
        self.post("/topics/twice/subscriptions/s/pause", {})
        expiring = []
        for _ in range(4):
            answer = self.post("/topics/twice/messages", {"body": "x"})
            expiring.append((answer["message_id"], datetime.fromisoformat(answer["expires_at"]).timestamp()))
            time.sleep(0.8)
        sqs = self.owner("sqs")
        for message_id, expires_at in expiring:
            time.sleep(max(0.0, expires_at - time.time()))
            sqs.send_message(
                QueueUrl=self.stack.where["outputs"]["QueueUrl"],
                MessageBody=json.dumps({"topic": "twice", "message_id": message_id}),
                MessageGroupId="twice",
                MessageDeduplicationId=f"{message_id}-again",
            )
        return self.eventually(lambda: all(self.state("twice", each) == "deleted" for each, _ in expiring))

    def index(self) -> bool:
        """A topic so large that its index is kept."""
        self.put("/topics/large", {})
        for number in range(ARCHIVED):
            self.subscribe("large", f"s{number}", DEAD, filter={"kind": "tags", "tags": [f"t{number}"]})
        for _ in range(3):
            self.publish("large", tags=["none"])
        bucket = self.stack.where["outputs"]["RefIndexBucket"]
        return bool(self.owner("s3").list_objects_v2(Bucket=bucket).get("KeyCount"))

    def events(self) -> bool:
        """Trouble with a topic is published to one whose index is kept, and whose shadow counts."""
        self.subscribe("large", "trouble", DEAD, filter={"kind": "tags", "tags": ["lane.lost_contact"]})
        self.put("/topics/large/subscriptions/trouble/shadow", {"filter": None})
        self.put("/topics/noisy", {"events_topic": "large"})
        self.subscribe("noisy", "s", DEAD)
        self.publish("noisy")
        return self.eventually(lambda: self.lane("large", "trouble")["backlog"] == 1)

    def cmq(self) -> bool:
        """A program that was written for CMQ does all that it may, also with a topic whose index is kept."""
        keys = KeyStore.of_folder(self.stack.folder)
        key = create_key("", unsigned_at=False)
        keys.change(lambda ring: ring.with_key(key))
        program = CmqProgram(self.stack.url, key)
        subscription = {"topicName": "cmq", "subscriptionName": "s"}
        program.ask("CreateTopic", topicName="cmq")
        program.ask("SetTopicAttributes", topicName="cmq", maxMsgSize="2048")
        program.ask("Subscribe", **subscription, protocol="http", endpoint=DEAD["url"], notifyStrategy="BACKOFF_RETRY")
        self.put("/topics/cmq/subscriptions/s/shadow", {"filter": {"kind": "tags", "tags": ["b"]}})
        for _ in range(2):
            program.ask("PublishMessage", topicName="cmq", msgBody="x")
        self.eventually(lambda: self.lane("cmq", "s")["backlog"] == 2)
        program.ask("GetTopicAttributes", topicName="cmq")
        program.ask("GetSubscriptionAttributes", **subscription)
        program.ask("ClearSubscriptionFilterTags", **subscription)
        program.ask("ListTopic")
        program.ask("ListSubscriptionByTopic", topicName="cmq")
        program.ask("Unsubscribe", **subscription)
        program.ask("DeleteTopic", topicName="cmq")
        for number in range(3):
            program.ask("SetSubscriptionAttributes", topicName="large", subscriptionName=f"s{number}",
                        notifyContentFormat="SIMPLIFIED")  # fmt: skip
            program.ask("PublishMessage", **{"topicName": "large", "msgBody": "x", "msgTag.1": f"t{number}"})
        return program.all_served

    def executions(self) -> list[tuple[dict[str, Any], str]]:
        """The running executions: what each was given, and its ARN."""
        states = self.owner("stepfunctions")
        machine = self.stack.where["outputs"]["StateMachineArn"]
        running = states.list_executions(stateMachineArn=machine, statusFilter="RUNNING", maxResults=100)["executions"]
        arns = [each["executionArn"] for each in running]
        return [(json.loads(states.describe_execution(executionArn=arn)["input"]), arn) for arn in arns]

    def owner(self, service: Any) -> Any:
        """A client of the owner of the account."""
        return self.stack.owner(service)

    def lane(self, topic: str, name: str) -> dict[str, Any]:
        lane: dict[str, Any] = self.get(f"/topics/{topic}/subscriptions/{name}")["lane"]
        return lane

    def state(self, topic: str, message_id: str) -> str:
        return str(self.get(f"/topics/{topic}/messages/{message_id}")["state"])

    def publish(self, topic: str, **fields: Any) -> str:
        return str(self.post(f"/topics/{topic}/messages", {"body": "x", **fields})["message_id"])

    def subscribe(self, topic: str, name: str, endpoint: dict[str, str], **fields: Any) -> None:
        self.put(f"/topics/{topic}/subscriptions/{name}", {"endpoint": endpoint, **fields})

    def put(self, path: str, body: object) -> None:
        self.call("PUT", path, body)

    def post(self, path: str, body: object) -> dict[str, Any]:
        return self.call("POST", path, body)

    def get(self, path: str) -> dict[str, Any]:
        return self.call("GET", path)

    def call(self, method: str, path: str, body: object = None, **headers: str) -> dict[str, Any]:
        return call(method, f"{self.stack.url}{path}", body, **headers)

    def eventually(self, found: Callable[[], bool]) -> bool:
        return wait_until(found)


ARN = "arn:aws:sqs:us-east-1:123456789012:"
ONE_AFTER_ANOTHER = {"strategy": "BACKOFF_RETRY", "max_retries": 50, "interval_seconds": 5}
