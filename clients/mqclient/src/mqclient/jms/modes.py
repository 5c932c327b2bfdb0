"""Acknowledgement modes of sessions."""

from __future__ import annotations

import enum
from typing import NamedTuple

from mqclient.core.settings import LocatorSettings
from mqclient.jms.exceptions import JMSException


class AcknowledgeMode(enum.IntEnum):
    """When received messages count as received (JMS 2.0, and two modes of Artemis)."""

    SESSION_TRANSACTED = 0
    """Sends and receipts take effect together, with ``commit()``."""
    AUTO_ACKNOWLEDGE = 1
    """``receive()`` acknowledges before it returns; a listener's message is acknowledged when the listener returns."""
    CLIENT_ACKNOWLEDGE = 2
    """``message.acknowledge()`` acknowledges all that the session has delivered."""
    DUPS_OK_ACKNOWLEDGE = 3
    """As AUTO, in batches: after a crash some messages may come again."""
    PRE_ACKNOWLEDGE = 100
    """The broker acknowledges before it delivers: fastest, but a crash loses the messages under way."""
    INDIVIDUAL_ACKNOWLEDGE = 101
    """``message.acknowledge()`` acknowledges that message only."""


class SessionFlags(NamedTuple):
    """How a session of the core client is made for a mode.  ``ack_batch_size`` in bytes; 0 acknowledges every message at once."""

    auto_commit_sends: bool
    auto_commit_acks: bool
    pre_acknowledge: bool
    ack_batch_size: int


def session_flags(mode: int, settings: LocatorSettings) -> SessionFlags:
    """The flags for ``mode``.  Raises JMSException for a number that is no mode."""
    pre = settings.pre_acknowledge
    client_batch = settings.transaction_batch_size if settings.block_on_acknowledge else settings.ack_batch_size
    if mode == AcknowledgeMode.SESSION_TRANSACTED:
        return SessionFlags(False, False, pre, settings.transaction_batch_size)
    if mode == AcknowledgeMode.AUTO_ACKNOWLEDGE:
        return SessionFlags(True, True, pre, 0)
    if mode == AcknowledgeMode.DUPS_OK_ACKNOWLEDGE:
        return SessionFlags(True, True, pre, settings.dups_ok_batch_size)
    if mode == AcknowledgeMode.CLIENT_ACKNOWLEDGE:
        return SessionFlags(True, False, pre, client_batch)
    if mode == AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE:
        return SessionFlags(True, False, False, client_batch)
    if mode == AcknowledgeMode.PRE_ACKNOWLEDGE:
        return SessionFlags(True, False, True, settings.transaction_batch_size)
    raise JMSException(f"{mode} is not an acknowledgement mode; see AcknowledgeMode")
