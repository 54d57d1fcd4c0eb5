"""The archive: records of the changes of topics, subscriptions, messages, deliveries and lanes."""
