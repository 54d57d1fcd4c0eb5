"""The CMQ endpoint: turns an API Gateway event into an answer that every CMQ client can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tagcast.ports import World

from tagcast_aws.api.http.authorization import EVERY_TOPIC, covers
from tagcast_aws.api.http.routing import REQUEST_ID_HEADER, request_id_of, response
from tagcast_aws.cmq import publishing, subscriptions, topics
from tagcast_aws.cmq.authentication import Secret, authenticate
from tagcast_aws.cmq.errors import CmqError, CmqFault, error_of
from tagcast_aws.cmq.form import Form, form_of, format_name
from tagcast_aws.cmq.keys import CmqKey
from tagcast_aws.cmq.limits import FORM_BYTES_MAX, NONCE_DIGITS_MAX
from tagcast_aws.cmq.parameters import Parameters
from tagcast_aws.cmq.request import OF_EVERY_ACTION, Action, CmqRequest
from tagcast_aws.runtime.settings import Home

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

_ACTIONS: Mapping[str, Action] = {
    name.lower(): action
    for name, action in (*topics.ACTIONS.items(), *publishing.ACTIONS.items(), *subscriptions.ACTIONS.items())
}


@dataclass(frozen=True)
class CmqEndpoint:
    """Answers requests that are signed with one of the deployment's *keys*. *home* is the deployment's account."""

    world: World
    keys: Secret
    home: Home

    def serve(self, event: Mapping[str, Any], logger: Logger) -> dict[str, Any]:
        """Answer one event (payload 2.0), always with status 200, because clients read ``code`` only then.

        An unexpected error is counted, and logged with its stack, but without the event.
        """
        request_id = request_id_of(event)
        answer: dict[str, object] = {"code": 0, "message": "", "requestId": request_id}
        try:
            form = form_of(event)
            answer |= _echo(form)
            answer |= self._answer(form)
        except Exception as error:
            cmq_error = error_of(error)
            if cmq_error is None:
                logger.exception("unexpected error", correlation_id=request_id)
                self.world.telemetry.count("Failed")
                cmq_error = CmqError(CmqFault.INTERNAL, "its requestId is in the log")
            answer |= cmq_error.as_json()
        headers = {"Content-Type": "application/json; charset=utf-8", REQUEST_ID_HEADER: request_id}
        return response(200, headers, json.dumps(answer, ensure_ascii=False, separators=(",", ":")))

    def _answer(self, form: Form) -> dict[str, object]:
        given = Parameters(form.parameters)
        key = authenticate(self.world, self.keys, form)
        name = given.optional("action")
        if name is None:
            raise CmqError(CmqFault.NO_ACTION)
        action = _ACTIONS.get(name.lower())
        if action is None:
            raise CmqError(CmqFault.UNKNOWN_ACTION, format_name(name))
        if form.size > FORM_BYTES_MAX and name.lower() != publishing.BATCH:
            raise CmqError(CmqFault.UNREADABLE, "it is too large")
        given.check_known((*OF_EVERY_ACTION, *action.parameters))
        _check_topic(key, given.topic() if "topicName" in action.parameters else None)
        return action.serve(CmqRequest(self.world, self.home, given))


def _check_topic(key: CmqKey, topic: str | None) -> None:
    """Raise CmqError unless *key* is for *topic* (None: all topics)."""
    if topic is None and EVERY_TOPIC not in key.topics:
        raise CmqError(CmqFault.SIGNATURE, "this key is not for all topics")
    if topic is not None and not covers(key.topics, topic):
        raise CmqError(CmqFault.SIGNATURE, "this key is not for this topic")


def _echo(form: Form) -> dict[str, object]:
    """Return the request's ``clientRequestId`` as a field of the answer, by which the Go client finds its request."""
    given = Parameters(form.parameters)
    if given.optional("clientRequestId") is None:
        return {}
    return {"clientRequestId": int(given.digits("clientRequestId", NONCE_DIGITS_MAX))}
