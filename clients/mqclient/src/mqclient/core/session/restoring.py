"""How a session goes on over a new connection: reattached if the broker still has it, else created anew.

Source: ``protocol-spec/``, chapters "Responses, correlation, confirmations, reattachment" and "Client failover".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from mqclient.core.connection.channel import Channel, closed_error, unblocked
from mqclient.core.connection.connection import Connection, FrameHandler
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.once.sends import RepeatedSends
from mqclient.core.runtime import new_uuid
from mqclient.core.sending.async_sends import AsyncSends
from mqclient.core.sending.flow import ProducerFlow
from mqclient.core.session.branches import Branches
from mqclient.core.session.commits import Commits
from mqclient.core.session.queues import recreation_of
from mqclient.core.session.transactions import Transaction
from mqclient.errors import MQError
from mqclient.wire.packets import AddMetadataV2, CreateSession, FlowToken, ForceConsumerDelivery, Packet, SessionClose, SessionStart


class RestoredSession(FrameHandler, Protocol):
    """The session, as its restoration sees it: the state that has to be sent to the broker anew."""

    channel: Channel
    request: CreateSession
    open_transaction: Transaction
    branches: Branches
    flow: ProducerFlow
    async_sends: AsyncSends
    once: RepeatedSends | None
    commits: Commits | None

    @property
    def metadata(self) -> Mapping[str, str]: ...

    @property
    def consumers(self) -> Sequence[Consumer]: ...

    @property
    def started(self) -> bool: ...

    @property
    def closed(self) -> bool: ...

    def abandon(self, error: MQError) -> None:
        """The session does not live on."""


class Restoration:
    def __init__(self, session: RestoredSession) -> None:
        self._session = session
        self._recreated = False

    async def restore(self, connection: Connection) -> None:
        """Go on over ``connection``: reattached if the broker still has the session, else created anew."""
        session = self._session
        if session.closed:
            session.abandon(closed_error("session"))
            return
        # An attempt before may have got as far as attaching the channel.
        session.channel.lock()
        protocol = session.channel.protocol
        answer = await connection.reattach_session(session.request.name, session.channel.protocol.id, protocol.last_confirmed, session)
        if session.closed:
            if answer.reattached:
                self._close_on_broker(connection)
        elif answer.reattached:
            session.channel.attach(connection.write_frame, connection.paused)
            session.async_sends.confirmed(protocol.confirmed(answer.last_confirmed_command_id))
            session.channel.replay()
        else:
            await self._recreate(connection)

    def finish(self) -> None:
        """All sessions live on the new connection."""
        session = self._session
        for key, data in session.metadata.items():
            session.channel.write_raw(session.channel.protocol.frame(AddMetadataV2(key, data, False)))
        session.channel.unlock()
        if self._recreated:
            self._recreated = False
            session.flow.session_recreated()
            if session.once is not None:
                session.once.session_restored()

    async def _recreate(self, connection: Connection) -> None:
        session = self._session
        request = replace(session.request, name=new_uuid(session.channel.runtime), session_channel_id=session.channel.protocol.id)
        version = await connection.create_session(request, session, recreate=True)
        if session.closed:
            self._close_on_broker(connection)
            return
        # Only now: if the answer had been lost, the broker would have an empty session of that name, and reattaching to it would be wrong.
        session.request = request
        channel = session.channel
        session.open_transaction.session_recreated()
        about_branch = session.branches.session_recreated()
        channel.restart(version)
        # Not earlier: with the pings go confirmations, and one for the packets of the lost session would count for those of the new one.
        channel.attach(connection.write_frame, connection.paused)
        session.async_sends.fail(unblocked("the message", None))
        if session.once is not None:
            session.once.session_recreated()
        if session.commits is not None:
            session.commits.session_recreated()
        self._recreated = True
        frames: list[Packet] = []
        for consumer in session.consumers:
            queue = recreation_of(consumer.queue_info)
            if queue is not None:
                frames.append(queue)
            frames.append(replace(consumer.request, requires_response=False))
            frames.append(FlowToken(consumer.id, consumer.recreated()))
            if consumer.pending_sequence is not None:
                if session.started or consumer.browse_only:
                    frames.append(ForceConsumerDelivery(consumer.id, consumer.pending_sequence))
                else:
                    consumer.arrivals.forced.give_up()
        frames += about_branch
        if session.started:
            frames.append(SessionStart())
        for packet in frames:
            # The broker counts these packets, too: uncounted here, their confirmations would be taken for those of later packets.
            channel.write_raw(channel.protocol.frame(packet))

    def _close_on_broker(self, connection: Connection) -> None:
        """The application has closed the session meanwhile: the broker must not keep it, with consumers that take messages for nobody."""
        connection.write_frame(self._session.channel.protocol.frame(SessionClose()))
