"""Start, stop, commit, rollback, metadata and close of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from mqbroker.messaging.administration.registrar import Reservation
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.server.session.link_consumers import of_home_link
from mqbroker.server.transport.naming import check_length
from mqclient.errors import DuplicateMetadataError, IllegalStateError, MQError
from mqclient.wire import packets as wire

if TYPE_CHECKING:
    from mqbroker.server.session.session_consumers import SessionConsumers
    from mqbroker.server.session.xa import SessionBranches
    from mqbroker.server.session_state import SessionState

CLIENT_ID_KEY = "jms-client-id"
METADATA_MAX = 100
"""Metadata entries that are kept for one session."""


class SessionControl:
    """The requests about the session as a whole.

    ``claim_metadata`` is True unless another session of the broker has the key with this value; ``end_former_link`` is told of the session
    of a new home link; ``close`` closes the session.
    """

    __slots__ = ("_branches", "_claim_metadata", "_close_session", "_consumers", "_end_former_link", "_names", "_session")

    def __init__(
        self,
        session: SessionState,
        consumers: SessionConsumers,
        branches: SessionBranches,
        claim_metadata: Callable[[SessionState, str, str], bool],
        end_former_link: Callable[[SessionState], None],
        close: Callable[[], None],
    ) -> None:
        self._session = session
        self._consumers = consumers
        self._branches = branches
        self._claim_metadata = claim_metadata
        self._end_former_link = end_former_link
        self._close_session = close
        self._names: dict[str, Reservation] | None = None
        """The reserved values by the key of the metadata; None before the first."""

    def _start(self, packet: wire.SessionStart) -> None:
        self._session.started = True
        self._consumers.started_changed()

    def _stop(self, packet: wire.SessionStop) -> None:
        self._session.started = False
        self._consumers.started_changed()
        self._session.reply_null()

    def _close(self, packet: wire.SessionClose) -> None:
        self._close_session()

    # --- transactions

    def _commit(self, packet: wire.Commit) -> None:
        session = self._session
        if self._branches.active is not None:
            raise IllegalStateError("this session works in an XA branch, which only its transaction manager commits")
        correlation_id = -1 if packet.correlation_id is None else packet.correlation_id
        elsewhere = session.server.messaging.core.elsewhere
        if elsewhere is not None:
            elsewhere.prepare(session.transaction, None)
        transaction, session.transaction = session.transaction, Transaction()
        try:
            ticket = session.server.messaging.settlement.commit(transaction, session.context)
        except MQError as error:
            session.reply_error(error, packet.correlation_id)
            return
        session.reply_null(correlation_id, ticket)

    def _rollback(self, packet: wire.Rollback) -> None:
        session = self._session
        settlement = session.server.messaging.settlement
        transaction = self._branches.give_up()
        consumed, prefetched = self._consumers.take_back(packet.consider_last_message_as_delivered)
        settlement.cancel(prefetched)
        transaction.acknowledged.extend(consumed)
        settlement.rollback(transaction)
        self._consumers.started_changed()
        session.reply_null()

    def roll_back_open_work(self) -> None:
        """At the end of the session: roll back its open transaction.  A branch goes on without the session."""
        session = self._session
        self._branches.leave()
        transaction, session.transaction = session.transaction, Transaction()
        session.server.messaging.settlement.rollback(transaction)

    # --- metadata

    def _add_metadata(self, packet: wire.AddMetadata) -> None:
        self._add(packet.key, packet.data)
        self._session.reply_null()

    def _add_metadata_v2(self, packet: wire.AddMetadataV2) -> None:
        self._add(packet.key, packet.data)
        if packet.requires_confirmation:
            self._session.reply_null()

    def _add_unique_metadata(self, packet: wire.UniqueAddMetadata) -> None:
        session = self._session
        self._check(packet.key, packet.data)
        if packet.key not in session.metadata and len(session.metadata) >= METADATA_MAX:
            raise IllegalStateError(f"the session has {METADATA_MAX} metadata entries already: no other can be unique")
        reservation = Reservation(packet.key, packet.data, session.name)
        registrar = session.server.messaging.registrar
        if not self._claim_metadata(session, packet.key, packet.data) or not registrar.reserve(reservation):
            raise DuplicateMetadataError(f"AMQ229035: Metadata {packet.key}={packet.data} had been set already")
        if self._names is None:
            self._names = {}
        former = self._names.get(packet.key)
        if former is not None and former != reservation:
            registrar.release(former)
        self._names[packet.key] = reservation
        self._put(packet.key, packet.data)
        session.reply_null()

    def _add(self, key: str, data: str) -> None:
        """Without asking whether another session has it: a client that has reconnected brings its client id along."""
        session = self._session
        self._check(key, data)
        self._put(key, data)
        if key == CLIENT_ID_KEY and self._names is None:
            reservation = Reservation(key, data, session.name)
            self._names = {key: reservation}
            session.server.messaging.registrar.hold(reservation)
        elif key == wire.HOME_LINK_KEY and of_home_link(session):
            self._end_former_link(session)

    def release_names(self) -> None:
        """At the end of the session: free its client id."""
        for reservation in (self._names or {}).values():
            self._session.server.messaging.registrar.release(reservation)

    def _check(self, key: str, data: str) -> None:
        check_length(key)
        self._session.server.connection_limits.check_metadata(self._session.connection, len(data))

    def _put(self, key: str, data: str) -> None:
        session = self._session
        if len(session.metadata) < METADATA_MAX or key in session.metadata:
            session.metadata[key] = data
        if key == CLIENT_ID_KEY:
            session.connection.client_id = data

    HANDLERS: ClassVar[Mapping[int, Callable[[Any, Any], object]]] = {
        wire.SessionStart.TYPE: _start,
        wire.SessionStop.TYPE: _stop,
        wire.SessionClose.TYPE: _close,
        wire.Commit.TYPE: _commit,
        wire.Rollback.TYPE: _rollback,
        wire.AddMetadata.TYPE: _add_metadata,
        wire.AddMetadataV2.TYPE: _add_metadata_v2,
        wire.UniqueAddMetadata.TYPE: _add_unique_metadata,
    }
