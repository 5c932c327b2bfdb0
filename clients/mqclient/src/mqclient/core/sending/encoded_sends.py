"""Encoded messages that a link between brokers or a program hands on, without decoding and without waiting; each gets one answer.

The session must end with its connection (``reconnect_attempts`` 0): written messages are not kept for sending again.  The sender keeps its
messages until they are answered.  In the layout of version 129 and later, as :func:`mqclient.wire.message.encode_message` makes it, through
the session:

- ``send_encoded(parts, size, done, address=...)``: one message;
- ``send_batch(address, messages, done)``: many to one address, about two microseconds each, answers included.  ``done`` is called with the
  :class:`mqclient.core.batches.Batch`, with its refused and unanswered messages, once all are answered or the connection is over.  Without
  ``done`` no answers are asked for: in a transaction, whose commit (or prepare) fails when one of its messages was refused;
- ``send_large_encoded(headers, read, size, done, address=...)``: a body that is read piece by piece;
- ``open_encoded_sends()``: this object.  A send that returns False has taken all its messages, but the next send has to wait for
  ``on_room``: the peer does not read, the credits of an address are used up, or a large message is being written.

Sends may exceed the credits of an address by one call at most: batches should be smaller than ``producer_window_size``.

Source: ``protocol-spec/``, chapters "Sending and delivery", "Large messages" and "Flow control".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from mqclient.core.batches import Batch, BatchDone, Batches
from mqclient.core.connection.channel import Channel, unblocked
from mqclient.core.settings import LocatorSettings
from mqclient.errors import AddressFullError, IllegalStateError, LargeMessageInterruptedError, MQError
from mqclient.protocol.credits import ProducerCredits
from mqclient.wire.frames import HEADER, frame
from mqclient.wire.hot import VERSION_CORRELATION, VERSION_SENDER, encode_send, encode_send_continuation, send_frames, send_trailer_size
from mqclient.wire.packets import CreateProducer, ProducerRequestCredits, SessionSend, SessionSendContinuation, SessionSendLarge

Done = Callable[[MQError | None], object]
"""Called once with the outcome of a message: None = the broker has it; ``UnblockedError`` = the connection was lost; else the refusal."""
ReadBody = Callable[[int, int], bytes | None]
"""(offset, size) -> at most so many bytes of a body, None: they come later, and :meth:`EncodedSends.resumed` is called then.  Raises
OSError when they cannot be read."""

ADDRESSES_MAX = 1000
"""Addresses whose credits are kept, of one session that sends encoded messages, as links between brokers do."""

CHUNKS_UNANSWERED_MAX = 1024 * 1024
"""Bytes of one large message that were sent by such a session and are not answered."""

_FRAME_OVERHEAD = 9
_SEND = SessionSend.TYPE


class EncodedSends:
    """``on_room`` is called when a sender that was told to stop may go on.

    ``connection_failed`` ends the connection.
    """

    def __init__(self, channel: Channel, settings: LocatorSettings, sender_id: int, connection_failed: Callable[[MQError], None]) -> None:
        self.fail_connection = connection_failed
        self._channel = channel
        self._runtime = channel.runtime
        self._protocol = channel.protocol
        self._settings = settings
        self._window = settings.producer_window_size
        self._sender_id = sender_id
        self._pending: dict[int, Done] = {}
        self._credits: OrderedDict[str, ProducerCredits] = OrderedDict()
        self._starved: set[str] = set()
        self._large: _LargeSend | None = None
        self._batches = Batches(self._tell_batch)
        self._flushing = False
        self._stopped = False
        self.chunks_answered = 0
        """Pieces of large messages that the peer has answered."""
        self.on_room: Callable[[], object] = _nothing
        version = self._protocol.version
        self._correlates = version >= VERSION_CORRELATION
        if not self._correlates and self._protocol.window is None:
            raise IllegalStateError("encoded messages to a broker this old need a session with a confirmation window")
        self._trailer_size = send_trailer_size(version)
        if version >= VERSION_SENDER:
            self._channel.send(CreateProducer(sender_id, None))

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def room(self) -> bool:
        """May more be sent now: does the peer read, are there credits, is no large message being written?"""
        return self._large is None and self.flowing

    @property
    def held_back(self) -> bool:
        """Does a large message wait in the middle, for credits or for its body?"""
        return self._large is not None and (bool(self._starved) or self._large.starved)

    @property
    def flowing(self) -> bool:
        return not self._starved and self._channel.writable

    # --- sending

    def send(self, parts: Sequence[bytes], size: int, done: Done, address: str | None) -> bool:
        """See :meth:`mqclient.core.session.encoded.EncodedMethods.send_encoded`."""
        channel = self._channel
        if channel.error is not None:
            done(unblocked("SESS_SEND", channel.error))
            return False
        protocol = self._protocol
        correlation = protocol.next_async_correlation()
        self._pending[correlation] = done
        trailer = encode_send(b"", self._correlates, correlation, self._sender_id, protocol.version)
        self._hold((HEADER.pack(_FRAME_OVERHEAD + size + self._trailer_size, _SEND, protocol.id), *parts, trailer), correlation)
        if address is not None:
            self._charge(address, size)
        return not self._told_to_stop()

    def send_batch(self, address: str | None, messages: Sequence[bytes], done: BatchDone | None) -> bool:
        """See :meth:`mqclient.core.session.encoded.EncodedMethods.send_batch`."""
        channel = self._channel
        protocol = self._protocol
        first = protocol.reserve_correlations(len(messages))
        if done is not None:
            batch = Batch(address, messages, first, done)
            if channel.error is not None or not messages:
                batch.error = None if channel.error is None else unblocked("SESS_SEND", channel.error)
                self._tell_batch(batch)
                return channel.error is None and not self._told_to_stop()
            self._batches.add(batch)
        parts, size = send_frames(messages, protocol.id, first, self._sender_id, done is not None and self._correlates, protocol.version)
        self._channel.hold_many(parts, range(first, first + len(messages)))
        self._flush_soon()
        if address is not None:
            self._charge(address, size)
        return not self._told_to_stop()

    def send_large(self, headers: bytes, read: ReadBody, size: int, done: Done, address: str | None, was_large: bool) -> bool:
        """See :meth:`mqclient.core.session.encoded.EncodedMethods.send_large_encoded`."""
        if self._channel.error is not None:
            done(unblocked("SESS_SEND_LARGE", self._channel.error))
            return False
        if self._large is not None:
            raise IllegalStateError("another large message is being written")
        self._hold((frame(SessionSendLarge.TYPE, self._protocol.id, headers),), 0)
        if address is not None:
            self._charge(address, len(headers))
        told = -1 if was_large else size
        self._large = _LargeSend(self, read, size, done, address, self._settings.min_large_message_size, told)
        self._large.advance()
        return not self._told_to_stop()

    def _told_to_stop(self) -> bool:
        self._stopped = not self.room
        return self._stopped

    def write_chunk(self, chunk: bytes, continues: bool, body_size: int, done: Done, address: str | None) -> None:
        """Send a chunk of the large message that is being written."""
        protocol = self._protocol
        correlation = protocol.next_async_correlation()
        self._pending[correlation] = done
        body = encode_send_continuation(chunk, continues, body_size, self._correlates, correlation, self._sender_id, protocol.version)
        self._hold((frame(SessionSendContinuation.TYPE, protocol.id, body),), correlation)
        if address is not None:
            self._charge(address, len(body))

    def large_ended(self) -> None:
        self._large = None

    def _hold(self, parts: Iterable[bytes], tag: int) -> None:
        self._channel.hold(parts, tag)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._runtime.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._channel.flush_held()

    # --- credits

    def credits(self) -> dict[str, int]:
        """Bytes that may still be sent, by address; only the latest addresses."""
        return {address: credits.balance for address, credits in self._credits.items()}

    def _charge(self, address: str, size: int) -> None:
        if self._window < 0:
            return
        credits = self._credits.get(address)
        if credits is None:
            credits = self._new_credits(address)
        elif len(self._credits) > 1:
            self._credits.move_to_end(address)
        # One byte more than the message has: were the credits used up to the last byte with none on their way, nothing would go on.
        ask = credits.request(size + 1)
        if ask:
            self._channel.send_at_once(ProducerRequestCredits(ask, address))
        credits.balance -= size
        if credits.balance <= 0:
            self._starved.add(address)

    def _new_credits(self, address: str) -> ProducerCredits:
        if len(self._credits) >= ADDRESSES_MAX:
            unused = next((known for known in self._credits if known not in self._starved), None)
            if unused is not None:
                del self._credits[unused]
        credits = self._credits[address] = ProducerCredits(self._window)
        credits.balance = self._window
        return credits

    def granted(self, address: str, amount: int) -> None:
        """The peer lets more be sent to an address."""
        credits = self._credits.get(address)
        if credits is None:
            return
        credits.granted(amount)
        if credits.balance > 0 and address in self._starved:
            self._starved.discard(address)
            self.resumed()
        elif credits.balance <= 0:
            ask = credits.request(0)
            if ask:
                self._channel.send_at_once(ProducerRequestCredits(ask, address))

    def refused_credits(self, address: str) -> None:
        """The address is full at the peer, whose policy is to refuse: the link fails, and its owner tries again later."""
        self.fail_connection(AddressFullError(f"address {address} of the target is full and its policy is FAIL"))

    # --- answers

    def confirmed(self, correlations: Iterable[int]) -> None:
        """A peer whose answers name no send has processed these packets.  For other peers a confirmation proves nothing: they also confirm
        refused packets."""
        if not self._correlates:
            for correlation in correlations:
                self.answered(correlation)

    def answered(self, correlation: int) -> bool:
        """False when no encoded send has that correlation."""
        done = self._pending.pop(correlation, None)
        if done is None:
            return self._batches.settle(correlation, None)
        self._tell(done, None)
        return True

    def refused(self, correlation: int, error: MQError) -> bool:
        """False when no encoded send has that correlation."""
        done = self._pending.pop(correlation, None)
        if done is None:
            return self._batches.settle(correlation, error)
        self._tell(done, error)
        return True

    def resumed(self) -> None:
        """The peer reads again, has granted credits or answered a chunk, or more of a body can be read: go on as far as possible."""
        large = self._large
        if large is not None:
            large.advance()
        if self._stopped and self.room:
            self._stopped = False
            self.on_room()

    def fail(self, error: MQError) -> None:
        """The session is over: no answers come any more."""
        error = unblocked("a message", error)
        pending, self._pending = self._pending, {}
        large, self._large = self._large, None
        if large is not None:
            self._tell(large.fail, error)
        for done in pending.values():
            self._tell(done, error)
        self._batches.fail(error)

    def _tell_batch(self, batch: Batch) -> None:
        self._tell(batch.told)

    def _tell(self, function: Callable[..., object], *args: MQError | None) -> None:
        try:
            function(*args)
        except Exception as failure:  # one owner's defect must not keep the answers of others
            self._runtime.log_failure("an answer to an encoded message could not be handled", failure)


class _LargeSend:
    """A large message that is being written, as far as the peer reads, grants credits and answers."""

    __slots__ = (
        "_address",
        "_chunk_size",
        "_done",
        "_offset",
        "_read",
        "_sends",
        "_size",
        "_told_size",
        "_unanswered",
        "_written",
        "starved",
    )

    def __init__(
        self, sends: EncodedSends, read: ReadBody, size: int, done: Done, address: str | None, chunk_size: int, told_size: int
    ) -> None:
        self._sends = sends
        self._read = read
        self._size = size
        self._told_size = told_size
        self._done: Done | None = done
        self._address = address
        self._chunk_size = chunk_size
        self._offset = 0
        self._unanswered = 0
        self._written = False
        self.starved = False
        """The next piece of the body is not there yet."""

    def advance(self) -> None:
        sends = self._sends
        while not self._written and self._done is not None:
            if not sends.flowing or self._unanswered >= CHUNKS_UNANSWERED_MAX:
                return
            wanted = min(self._chunk_size, self._size - self._offset)
            try:
                chunk = self._read(self._offset, wanted)
                self.starved = chunk is None
                if chunk is None:
                    return
                if wanted and not chunk:
                    raise OSError(f"the body ends after {self._offset} of {self._size} bytes")
            except OSError as error:
                self._unreadable(error)
                return
            self._offset += len(chunk)
            self._written = self._offset >= self._size
            self._unanswered += len(chunk)
            sends.write_chunk(chunk, not self._written, self._told_size, _Chunk(self, len(chunk), self._written).answered, self._address)
        sends.large_ended()

    def chunk_answered(self, size: int, last: bool, error: MQError | None) -> None:
        self._unanswered -= size
        self._sends.chunks_answered += 1
        if error is not None:
            if not self._written:
                self._written = True
                self._sends.large_ended()
            self.fail(error)
        elif last:
            self.fail(None)
        self._sends.resumed()

    def fail(self, error: MQError | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(error)

    def _unreadable(self, error: OSError) -> None:
        """The peer has half of a message and waits for the rest: only a new connection makes it forget that."""
        failure = LargeMessageInterruptedError(f"the body of a large message cannot be read: {error}")
        self._written = True
        self._sends.large_ended()
        self.fail(failure)
        self._sends.fail_connection(failure)


class _Chunk:
    __slots__ = ("_large", "_last", "_size")

    def __init__(self, large: _LargeSend, size: int, last: bool) -> None:
        self._large = large
        self._size = size
        self._last = last

    def answered(self, error: MQError | None) -> None:
        self._large.chunk_answered(self._size, self._last, error)


def _nothing() -> None: ...
