"""When a message expires, by the settings of its address."""

from __future__ import annotations

from mqbroker.config.model.address_settings import AddressSettings

_LAST = 2**63 - 1
"""The latest time that a message can state: a delay may be as long."""


def expiration_at_routing(expiration: int, settings: AddressSettings, now: int) -> int:
    """The expiration that the settings of the address make of a message's own (Artemis manual, "Message Expiry")."""
    if settings.no_expiry:
        return 0
    if not expiration and settings.expiry_delay >= 0:
        return min(now + settings.expiry_delay, _LAST)
    low, high = settings.min_expiry_delay, settings.max_expiry_delay
    if not expiration:
        if high >= 0:
            return min(now + high, _LAST)
        return min(now + low, _LAST) if low >= 0 else 0
    if high >= 0 and expiration > now + high:
        return now + high
    if low >= 0 and expiration < now + low:
        return min(now + low, _LAST)
    return expiration
