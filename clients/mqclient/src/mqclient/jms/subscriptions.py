"""Names of the queues that hold topic subscriptions, as every JMS client of the broker makes them ("JMS to Core Mapping")."""

from __future__ import annotations


def escape(text: str) -> str:
    """A part of a subscription queue's name: backslash and dot get a backslash in front."""
    return text.replace("\\", "\\\\").replace(".", "\\.")


def subscription_queue(client_id: str | None, name: str, *, durable: bool) -> str:
    """The queue of a durable subscription (shared or not), or of a shared non-durable one."""
    parts = [] if durable else ["nonDurable"]
    if client_id:
        parts.append(escape(client_id))
    parts.append(escape(name))
    return ".".join(parts)
