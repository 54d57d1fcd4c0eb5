"""The policies of docs/authorization.md allow what stands beside them, as IAM would decide it, and nothing else."""

import json
import re
from pathlib import Path

import pytest

from local.rules.permissions import Need, Role, grants_of
from tests.architecture.test_documents import table_rows

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "authorization.md").read_text()
API = "arn:aws:execute-api:eu-west-1:123456789012:abc123"
POLICY = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)[0]
EXAMPLES = {
    row[0]: re.findall(r"`(API/[^`]+)`", row[1]) for row in table_rows("docs/authorization.md", "to", "resources")
}
"""By what a caller may do, the resources that the policy allows then."""
REQUESTS = (
    "POST /topics/orders/messages",
    "POST /topics/orders/messages/batch",
    "POST /topics/orders-old/messages",
    "POST /topics/billing-eu/messages",
    "POST /topics/orders/retry",
    "PUT /topics/orders",
    "PUT /topics/billing-eu",
    "DELETE /topics/orders",
    "GET /topics",
    "GET /topics/orders",
    "GET /topics/orders/messages",
    "GET /topics/orders/subscriptions",
    "GET /topics/orders/subscriptions/a/backlog",
    "GET /topics/billing-eu/messages/1/explain",
    "PUT /topics/orders/subscriptions/a",
    "DELETE /topics/orders/subscriptions/a",
    "POST /topics/orders/subscriptions/a/replay",
    "DELETE /topics/billing-eu/subscriptions/a",
    "POST /filters/test",
    "PUT /topics/orders/subscriptions/workers/members/1",
    "DELETE /topics/orders/subscriptions/workers/members/1",
    "POST /topics/orders/subscriptions/workers/pull",
    "POST /topics/orders/subscriptions/workers/ack",
    "PUT /topics/orders/subscriptions/workers",
    "POST /topics/orders/subscriptions/others/pull",
    "POST /lanes/retry",
    "POST /lanes/skip",
)
OF_THE_URL = TEXT.partition("\n## The URL of the function publish\n")[2]
ALLOWED = {
    "publish to one topic": REQUESTS[:2],
    "run the topics of one team (`billing-…`), and test filters": (
        REQUESTS[3],
        REQUESTS[6],
        REQUESTS[13],
        REQUESTS[17],
        REQUESTS[18],
    ),
    "list, create and delete subscriptions of one topic, without publishing": (
        REQUESTS[9],
        *REQUESTS[11:13],
        *REQUESTS[14:16],
        *REQUESTS[19:21],
        REQUESTS[23],
    ),
    "consume as a member of one group, without updating it": REQUESTS[19:23],
    "act on many lanes, of every topic": REQUESTS[25:27],
    "read everything": REQUESTS[8:14],
}


def test_every_example_is_tried() -> None:
    assert EXAMPLES.keys() == ALLOWED.keys()


@pytest.mark.parametrize("heading", ALLOWED)
def test_a_policy_allows_what_it_says_and_nothing_else(heading: str) -> None:
    policy = json.loads(POLICY)
    policy["Statement"][0]["Resource"] = [each.replace("API/", f"{API}/", 1) for each in EXAMPLES[heading]]
    role = Role("caller", tuple(grants_of(policy)))

    allowed = [
        request
        for request in REQUESTS
        if role.allows(Need("execute-api:Invoke", f"{API}/$default/{request.replace(' ', '')}"))
    ]

    assert tuple(allowed) == ALLOWED[heading]


def test_who_may_call_the_url_of_publish_may_not_invoke_the_function_past_it() -> None:
    (policy,) = re.findall(r"```json\n(.*?)```", OF_THE_URL, re.DOTALL)
    function = "arn:aws:lambda:eu-west-1:123456789012:function:tagcast-publish"
    role = Role("caller", tuple(grants_of(json.loads(policy.replace('"FUNCTION"', f'"{function}"')))))
    by_url, invoked = Need("lambda:InvokeFunctionUrl", function), Need("lambda:InvokeFunction", function)

    assert role.allows(by_url, {"lambda:FunctionUrlAuthType": "AWS_IAM"})
    assert role.allows(invoked, {"lambda:InvokedViaFunctionUrl": "true"})
    assert not role.allows(invoked)
    assert not role.allows(by_url, {"lambda:FunctionUrlAuthType": "NONE"})
