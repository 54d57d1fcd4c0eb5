"""Where a deployment is at home: the partition, region and account that its resources are named after."""

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
        """Return where the resource of this ARN is.

        >>> Home.of("arn:aws:states:eu-west-1:123456789012:stateMachine:x")
        Home(partition='aws', region='eu-west-1', account='123456789012')
        """
        _, partition, _, region, account, _ = arn.split(":", 5)
        return cls(partition, region, account)

    @property
    def origin(self) -> str:
        """Return the name, written like one of the DNS, by which the deployment asks webhooks for consent.

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
