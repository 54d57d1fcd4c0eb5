"""What the parameters of the template are on this machine, where their defaults are too narrow for it."""

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
"""Nobody but its owner uses the local stack: endpoints may be anywhere and need not agree, dead letters may go to any
topic; all bodies are archived, and `make run` shows every attempt. Requests about one topic never wait in
all workers of `pull`. Changes answer at once. No worker of `retry` waits, since there are few."""
