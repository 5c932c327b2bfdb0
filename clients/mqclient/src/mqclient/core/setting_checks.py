"""Checks of settings: their types and least values."""

from __future__ import annotations

from dataclasses import fields

from mqclient.core.api import LocatorSettings
from mqclient.urls import holds_password

_MINIMA = {
    "call_timeout": 1,
    "call_failover_timeout": -1,
    "client_failure_check_period": -1,
    "connection_ttl": -1,
    "retry_interval": 0,
    "max_retry_interval": 0,
    "reconnect_attempts": -1,
    "initial_connect_attempts": -1,
    "failover_attempts": -1,
    "confirmation_window_size": -1,
    "consumer_window_size": -1,
    "producer_window_size": -1,
    "ack_batch_size": 0,
    "min_large_message_size": 128,
    "on_message_close_timeout": 0,
}
_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "str | None": (str, type(None)),
}
_EXPECTED = {
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "str | None": "a text or None",
}


def check_settings(settings: LocatorSettings) -> None:
    """Raises ValueError for a setting of the wrong type or out of its range."""
    for entry in fields(LocatorSettings):
        check_setting(entry.name, getattr(settings, entry.name), str(entry.type))


def check_setting(name: str, value: object, kind: str) -> None:
    """Raises ValueError, saying what was expected, when ``value`` is not of the type that ``kind`` names, or below the minimum."""
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        shown = type(value).__name__ if holds_password(name) else repr(value)
        raise ValueError(f"{name} is {shown}; expected {_EXPECTED[kind]}")
    minimum = _MINIMA.get(name)
    if minimum is not None and isinstance(value, int) and value < minimum:
        raise ValueError(f"{name} is {value}; it must be at least {minimum}")
    if name == "retry_interval_multiplier" and isinstance(value, (int, float)) and not value > 0:
        raise ValueError(f"{name} is {value}; it must be greater than 0")
    if name == "compression_level" and isinstance(value, int) and not -1 <= value <= 9:
        raise ValueError(f"{name} is {value}; expected -1 (default) to 9")
