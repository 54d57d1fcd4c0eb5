"""The template's parameters on this machine, where its defaults are too strict."""

ANY_SUBSCRIBER = {"SubscriberQueueNames": "*", "SubscriberFunctionNames": "*"}
"""Any queue and any function of the account may be an endpoint."""

LOCAL = {
    **ANY_SUBSCRIBER,
    "AllowPrivateEndpoints": "true",
    "EndpointVerification": "optional",
    "TopicKnownSeconds": "0",
    "ShortWaitSeconds": "0",
    "DeadLetterTopics": "*:*",
    "WaitingPerTopic": "8",
    "ArchiveBodies": "*",
    "LogLevel": "DEBUG",
}
"""The local stack has only one user.

Endpoints may be anywhere and need no verification, dead letters may go to any topic, all bodies are archived, and `make
run` prints every attempt. Requests about one topic never occupy all workers of `pull`. Changes answer at once. Workers
of `retry` never wait, because there are few.
"""
