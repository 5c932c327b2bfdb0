"""The notifications that a cluster connection asks other brokers for, and the addresses that it covers.

Source: the Artemis manual, chapter "Clusters" (the ``address`` and ``max-hops`` of a cluster connection); ``protocol-spec/``.
"""

from __future__ import annotations

from collections.abc import Iterable

KINDS = (
    "SESSION_CREATED",
    "BINDING_ADDED",
    "BINDING_REMOVED",
    "BINDING_UPDATED",
    "CONSUMER_CREATED",
    "CONSUMER_CLOSED",
    "PROPOSAL",
    "PROPOSAL_RESPONSE",
    "UNPROPOSAL",
)
"""The kinds of notifications between brokers."""

_WILD = "%_"
_ESCAPE = "\\"


class Interests:
    """The addresses of one cluster connection, and its filter for notifications.

    ``address`` is the option: prefixes with commas between, prefixes with ``!`` are excluded; empty = every address.

    ``excluded`` are further prefixes that are never shared, such as that of store-and-forward queues.
    """

    def __init__(self, address: str, max_hops: int, notification_address: str, excluded: Iterable[str]) -> None:
        entries = [entry.strip() for entry in address.split(",")]
        self.max_hops = max_hops
        self.notification_address = notification_address
        self.included = tuple(entry for entry in entries if entry and not entry.startswith("!"))
        self.excluded = (*(entry[1:] for entry in entries if len(entry) > 1 and entry.startswith("!")), *excluded)

    def cover(self, address: str) -> bool:
        """Does this cluster connection share the queues of ``address``?"""
        if address.startswith((self.notification_address, *self.excluded)):
            return False
        return not self.included or address.startswith(self.included)

    def filter_string(self) -> str:
        """The filter of the queue that gets the other broker's notifications."""
        kinds = ", ".join(f"'{kind}'" for kind in KINDS)
        return (
            "(_AMQ_Binding_Type <> 2 OR _AMQ_Binding_Type IS NULL)"
            f" AND _AMQ_NotifType IN ({kinds})"
            f" AND _AMQ_Distance < {self.max_hops}"
            f" AND ({self._addresses()})"
            f" AND (_AMQ_NotifType = 'SESSION_CREATED' OR ({_like(self.notification_address, 'NOT LIKE')}))"
        )

    def _addresses(self) -> str:
        included = " OR ".join(f"({_like(prefix, 'LIKE')})" for prefix in self.included)
        excluded = " AND ".join(f"({_like(prefix, 'NOT LIKE')})" for prefix in self.excluded)
        if included and excluded:
            return f"(({included}) AND ({excluded}))"
        return f"({included or excluded})"


def _like(prefix: str, operator: str) -> str:
    quoted = prefix.replace("'", "''")
    if not any(character in quoted for character in _WILD):
        return f"_AMQ_Address {operator} '{quoted}%'"
    for character in (_ESCAPE, *_WILD):
        quoted = quoted.replace(character, _ESCAPE + character)
    return f"_AMQ_Address {operator} '{quoted}%' ESCAPE '{_ESCAPE}'"
