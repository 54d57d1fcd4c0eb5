"""The partition, region and account of a deployment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Home:
    """The parts of an ARN that all resources of a deployment share."""

    partition: str
    region: str
    account: str

    @classmethod
    def of(cls, arn: str) -> Home:
        """Return the home of the resource with this ARN.

        >>> Home.of("arn:aws:states:eu-west-1:123456789012:stateMachine:x")
        Home(partition='aws', region='eu-west-1', account='123456789012')
        """
        _, partition, _, region, account, _ = arn.split(":", 5)
        return cls(partition, region, account)

    @property
    def origin(self) -> str:
        """The deployment's name, in DNS form, in verification requests to webhooks.

        >>> Home("aws", "eu-west-1", "123456789012").origin
        '123456789012.eu-west-1.tagcast'
        """
        return f"{self.account}.{self.region}.tagcast"

    def queue_arn(self, name: str) -> str:
        """Return the ARN of a queue of this account.

        >>> Home("aws", "eu-west-1", "123456789012").queue_arn("orders")
        'arn:aws:sqs:eu-west-1:123456789012:orders'
        """
        return f"arn:{self.partition}:sqs:{self.region}:{self.account}:{name}"
