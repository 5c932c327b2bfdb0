"""A producer: which way a message is sent, and whether the sender waits for the broker."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from mqclient.core.closing import Closing
from mqclient.core.connection.channel import Channel, closed_error
from mqclient.core.listeners import SendAcknowledgementHandler
from mqclient.core.message import ClientMessage
from mqclient.core.runtime import Runtime, new_uuid, sleep, starts
from mqclient.core.sending.async_sends import AsyncSends
from mqclient.core.sending.flow import ProducerFlow
from mqclient.core.sending.sendable import check_message, check_size, encoded
from mqclient.core.sending.uploads import LargeUploads, Uploader
from mqclient.core.sending.work import OpenTransaction, Underway, Work
from mqclient.core.settings import LocatorSettings
from mqclient.errors import MQError
from mqclient.protocol.retry import RateLimiter
from mqclient.wire.hot import VERSION_SENDER
from mqclient.wire.message import KEY_GROUP_ID, encode_message
from mqclient.wire.packets import CreateProducer, NullResponse, RemoveProducer, SessionSend
from mqclient.wire.properties import STRING


class ExactlyOnceSends(Protocol):
    """The sends of a session with ``exactly_once``, as its producers see them.  ``repeating``: :meth:`ready` has something to wait for."""

    repeating: bool

    def with_id(self, message: ClientMessage) -> bytes:
        """The encoded message, which is not large, with its id."""

    def hold(
        self, producer_id: int, message: ClientMessage, address: str, buffer: bytes, handler: SendAcknowledgementHandler | None
    ) -> Any:
        """What has to go to :meth:`write`; None: :meth:`join` is all that the send needs.  ``buffer`` is empty for a large message."""

    def join(self, producer_id: int, address: str, buffer: bytes) -> Any:
        """Hold a send with the open transaction; it is written like any other then, or the result goes to :meth:`not_written`.

        None: :meth:`ask` has to come first.
        """

    def not_written(self, joined: Any) -> None:
        """The send that has joined the transaction has failed."""

    async def ask(self, address: str) -> int:
        """How many ids does the broker keep of the address?"""

    async def write(self, producer: Uploader, held: Any, era: int) -> Any:
        """Send in the turn of its address; returns the future of the confirmation if the sender waits for it, else None."""

    async def ready(self) -> None:
        """Wait until the session is usable and the sends of before a failure are repeated."""


class SendingSession(Protocol):
    """The session, as its producers see it: the parts that sends go through."""

    runtime: Runtime
    settings: LocatorSettings
    channel: Channel
    flow: ProducerFlow
    work: Work
    uploads: LargeUploads
    async_sends: AsyncSends
    send_acknowledgement_handler: SendAcknowledgementHandler | None

    @property
    def once(self) -> ExactlyOnceSends | None:
        """None without ``exactly_once``."""

    @property
    def open_transaction(self) -> OpenTransaction: ...

    @property
    def closing(self) -> bool:
        """Has the application begun to close it?"""

    @property
    def auto_commit_sends(self) -> bool: ...

    def producer_closed(self, producer: Producer) -> None: ...


class Producer(Closing):
    """Sends to one address, or to the address that each call names."""

    def __init__(self, session: SendingSession, producer_id: int, address: str | None, max_rate: int) -> None:
        self.runtime: Runtime = session.runtime
        self.session = session
        self.id = producer_id
        self._address = address
        self._limiter = RateLimiter(max_rate) if max_rate > 0 else None
        self._closed = False
        self._sends = Underway(session.runtime)
        settings = session.settings
        self._group_id = settings.group_id or (new_uuid(self.runtime) if settings.auto_group else None)
        if address is not None:
            session.flow.open(address)
        if session.channel.protocol.version >= VERSION_SENDER:
            session.channel.send(CreateProducer(producer_id, address))

    @property
    def address(self) -> str | None:
        return self._address

    @property
    def closed(self) -> bool:
        return self._closed

    def send(
        self, message: ClientMessage, address: str | None = None, *, acknowledgement_handler: SendAcknowledgementHandler | None = None
    ) -> Awaitable[None]:
        """Send ``message`` to ``address`` (needed by an anonymous producer, refused with ``ValueError`` by one with an address).

        The result comes when the broker has the message, if the send blocks (``block_on_durable_send``, ``block_on_non_durable_send``, only
        in sessions with ``auto_commit_sends``); otherwise when it is written.  A send waits for credits (a full BLOCK address) without
        limit.  With an ``acknowledgement_handler`` the send never blocks.  Raises ``AddressFullError``, ``SecurityError``,
        ``AddressDoesNotExistError``, ``DuplicateIdRejectedError``.  The message's address is set; its body is not touched.

        Refused before anything is sent: with TypeError or ValueError a body that is not bytes, and a text message whose body is no encoded
        text; with ``MessageTooLargeError`` a message with more than 10,000 properties, and one whose frame would have more than 100 MiB
        (only with ``min_large_message_size`` raised to that).
        """
        check_message(message)
        return self.runtime.spawn(self._send(message, self._target(address), acknowledgement_handler))

    @starts
    async def close(self) -> None:
        """Close after the producer's sends, within ``call_timeout`` and not while the connection is away; sends that are left then fail."""
        if not (self._closed or self.session.channel.locked):
            try:
                await self._sends.settled(self.session.settings.call_timeout / 1000)
            except TimeoutError:
                self.runtime.log_warning(f"{self._sends.count} messages cannot be sent before their producer is closed")
        self.end()

    def end(self) -> None:
        """Close without waiting."""
        if self._closed:
            return
        self.abandon(closed_error("producer"))
        self.session.producer_closed(self)
        if self.session.channel.protocol.version >= VERSION_SENDER:
            self.session.channel.send(RemoveProducer(self.id))

    def abandon(self, error: MQError) -> None:
        """The session is over, or the producer is closed."""
        if not self._closed:
            self._closed = True
            self.session.flow.release(self._address, self, error)

    def check_open(self) -> None:
        if self._closed:
            raise closed_error("producer")

    def check_send(self, era: int) -> None:
        """Raise why a send that began in that era must not be written."""
        self.check_open()
        self.session.work.check(era)

    def _target(self, address: str | None) -> str:
        if self._address is None:
            if address is None:
                raise ValueError("an anonymous producer needs the address of each message")
            if not isinstance(address, str):
                raise TypeError(f"the address of a message is a str, not {type(address).__name__}")
            return address
        if address is not None and address != self._address:
            raise ValueError(f"this producer sends to {self._address}; a producer without an address can send to {address}")
        return self._address

    async def _send(self, message: ClientMessage, address: str, handler: SendAcknowledgementHandler | None) -> None:
        session = self.session
        self.check_open()
        if session.closing:
            raise closed_error("session")
        message.address = address
        if self._group_id is not None:
            message.properties[KEY_GROUP_ID] = (STRING, self._group_id)
        handler = handler or session.send_acknowledgement_handler
        block = self.waits_for_answer(message, handler)
        large = self.is_large(message)
        once = session.once
        if large:
            buffer = b""
        else:
            buffer = encoded(encode_message, message) if once is None else once.with_id(message)
        held = None if once is None else once.hold(self.id, message, address, buffer, handler)
        work = session.work
        era = work.era
        self._sends.count += 1
        if work.order.held:
            await self._begin_in_order(era)
        else:
            work.count += 1
        entry = session.flow.enter(address)
        joined = None
        try:
            async with entry.order:
                if self._limiter is not None:
                    while delay := self._limiter.delay(self.runtime.now()):
                        await sleep(self.runtime, delay)
                if once is not None and held is not None:
                    answer = await once.write(self, held, era)
                elif large:
                    answer = await session.uploads.send(self, message, address, block, handler, era)
                else:
                    while once is not None and joined is None:
                        work.check(era)  # a send that was dropped is none of the next transaction
                        joined = once.join(self.id, address, buffer)
                        if joined is None:
                            await once.ask(address)
                    answer = await self.send_regular(message, address, buffer, block, handler, era)
        except BaseException as error:
            if once is not None and joined is not None:
                once.not_written(joined)
            self._end(entry, era, error)
            raise
        self._end(entry, era, None)
        if answer is not None:
            await answer

    async def _begin_in_order(self, era: int) -> None:
        """The send comes after the end of a transaction, which was begun before and waits itself."""
        try:
            await self.session.work.begin_in_order(era)
        except BaseException:
            self._sends.ended()
            raise

    def _end(self, entry: Any, era: int, failure: BaseException | None) -> None:
        """A send was written, or has failed."""
        self.session.flow.leave(entry)
        self._sends.ended(failure)
        self.session.work.send_ended(era, failure)

    @property
    def paced(self) -> bool:
        """Is there a limit on the messages per second?"""
        return self._limiter is not None

    def spare(self, address: str) -> int:
        """Bytes of messages that can be sent to ``address`` now without waiting."""
        session = self.session
        if self._closed or not session.channel.writable or session.async_sends.full:
            return 0
        return session.flow.spare(address)

    def is_large(self, message: ClientMessage) -> bool:
        """Is the message sent in chunks?"""
        # Four bytes of the buffer's leading length count as body here.
        return message.body_source is not None or 4 + len(message.body) > self.session.settings.min_large_message_size

    def waits_for_answer(self, message: ClientMessage, handler: SendAcknowledgementHandler | None) -> bool:
        """Does a send last until the broker has the message?"""
        session = self.session
        if handler is not None or session.send_acknowledgement_handler is not None or not session.auto_commit_sends:
            return False
        if session.once is not None:
            return True
        settings = session.settings
        return settings.block_on_durable_send if message.durable else settings.block_on_non_durable_send

    async def send_regular(
        self, message: ClientMessage, address: str, buffer: bytes, block: bool, handler: SendAcknowledgementHandler | None, era: int
    ) -> Any:
        """Send a message in one packet (also for large ones that compression has made small).

        Returns the future of the broker's answer if one is to be waited for, else None.
        """
        session = self.session
        channel = session.channel
        check_size(len(buffer), session.channel.protocol.version)
        message.encode_size = len(buffer)
        if not channel.writable:
            await channel.ready(writable=True)
        self.check_send(era)
        await session.flow.acquire(self, address, len(buffer))
        if session.async_sends.full:
            await session.async_sends.room()
        await channel.ready()
        if session.once is not None and session.once.repeating:
            await session.once.ready()
        self.check_send(era)
        session.open_transaction.sent()
        packet = SessionSend(buffer, sender_id=self.id)
        if block:
            packet.requires_response = True
            return channel.call(packet, NullResponse)
        if channel.protocol.window is not None:
            packet.requires_response = True
            packet.correlation_id = session.async_sends.register(message, handler, len(buffer))
            channel.send(packet, tag=packet.correlation_id)
        else:
            channel.send(packet)
            if handler is not None:
                session.async_sends.written(message, handler)
        return None
