"""Tencent's own client in Python, with its quirks provided for: it logs into its working folder."""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def account(url: str, secret_id: str, secret_key: str, folder: Path) -> Any:
    """The client's account object; its log lies in *folder*."""
    if "mailcap" not in sys.modules:
        # It imports a name, and never uses it, from a module that Python 3.13 has no more.
        sys.modules["mailcap"] = ModuleType("mailcap")
        sys.modules["mailcap"].subst = None  # type: ignore[attr-defined]
    from cmq.account import Account

    with contextlib.chdir(folder):
        made = Account(url, secret_id, secret_key)
    made.set_log_level(logging.CRITICAL)
    return made


def topic_meta(**fields: Any) -> Any:
    from cmq.topic import TopicMeta

    return _with(TopicMeta(), fields)


def subscription_meta(endpoint: str, protocol: str = "http", **fields: Any) -> Any:
    from cmq.subscription import SubscriptionMeta

    return _with(SubscriptionMeta(), {"Endpoint": endpoint, "Protocal": protocol, **fields})


def message(body: str, *tags: str) -> Any:
    from cmq.topic import Message

    return Message(body, list(tags))


def _with(meta: Any, fields: dict[str, Any]) -> Any:
    for name, value in fields.items():
        assert hasattr(meta, name), name
        setattr(meta, name, value)
    return meta
