"""The changes that make a queue as the record says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from mqbroker.messaging.queues.definitions import QueueDefinition

_FIXED = ("address", "routing_type", "durable", "last_value", "last_value_key", "non_destructive")
"""Attributes that cannot change while a queue exists."""
_LOCAL = frozenset(("user",))


@dataclass(frozen=True, slots=True)
class QueueUpdate:
    """How an existing queue becomes the wanted one.  ``replaced``: only by being made anew, without its messages."""

    changes: Mapping[str, Any]
    replaced: bool


def queue_update(existing: QueueDefinition, wanted: QueueDefinition) -> QueueUpdate:
    """The difference between what is there and what the record says; who has made the queue is none."""
    names = [field.name for field in fields(QueueDefinition) if field.name not in _LOCAL]
    changes = {name: getattr(wanted, name) for name in names if getattr(existing, name) != getattr(wanted, name)}
    return QueueUpdate(changes, any(name in changes for name in _FIXED))
