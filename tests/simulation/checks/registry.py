"""Versions of a topic and its subscriptions: every change is seen by every later publish."""

from tagcast.ports import Key, Table

from tests.simulation.ledger import RETRIES, Change, Ledger, Row


class RegistryChecks:
    """A version names one set of subscriptions, and ordinals are never used again."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def committed(self, changes: list[Change]) -> None:
        touched = [(key, new) for key, _, new in changes if key.table is Table.REGISTRY]
        for key, new in touched:
            self._row(key, new)
        if any(key.sk == "TOPIC" for key, _ in touched):
            self._version()

    def _row(self, key: Key, new: Row | None) -> None:
        ledger = self.ledger
        if key.sk == "TOPIC" and new is not None:
            ledger.topic = new
            ledger.retentions.add(new["retention_s"] * 1000)
        if not key.sk.startswith("SUB#"):
            return
        name = key.sk.removeprefix("SUB#")
        if new is None:
            for ordinal in [ordinal for ordinal, row in ledger.subscribers.items() if row["name"] == name]:
                ledger.removed.add(ordinal)
                del ledger.subscribers[ordinal]
            return
        if new["ordinal"] in ledger.removed:
            ledger.fail("ordinals are new", f"ordinal {new['ordinal']} was used before")
        present = ledger.subscribers.get(new["ordinal"])
        if present is not None and present["name"] != name:
            ledger.fail("ordinals are new", f"{name} has the ordinal of {present['name']}")
        ledger.subscribers[new["ordinal"]] = new
        ledger.retries[new["ordinal"]].add(tuple(new.get(name) for name in RETRIES))

    def _version(self) -> None:
        ledger = self.ledger
        version = ledger.topic["subscriptions_version"]
        if version < ledger.version:
            ledger.fail("versions grow", f"version {version} after {ledger.version}")
        if version > ledger.version or version not in ledger.registry:
            ledger.version = version
            ledger.registry[version] = dict(ledger.subscribers)
        elif ledger.registry[version] != ledger.subscribers:
            ledger.fail("no match missed", f"subscriptions changed within version {version}")
