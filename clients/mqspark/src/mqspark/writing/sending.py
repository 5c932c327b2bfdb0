"""The messages of one task on their way to one node: sent ahead, kept until the broker has confirmed them, sent again after a failure.

Bytes on their way are bounded, so that memory stays flat however many rows a task has.  After a lost connection the unconfirmed messages
are sent again in their order, with the same ids: where duplicate ids are in use, the broker drops messages that it has already.  The sender
works only inside calls; every call reads the answers that have come meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqclient.errors import DuplicateIdRejectedError, MQError, NotConnectedError, OperationTimeoutError
from mqclient.sockets import SocketRuntime
from mqclient.wire.message import body_end
from mqspark.broker.failures import OF_THE_CONNECTION, failure
from mqspark.errors import BrokerUnreachableError, MqsparkError

UNCONFIRMED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of messages that may wait for their confirmation before the task waits, but for one that is greater."""
CHUNK_BYTES_MAX: Final = 256 * 1024
"""Bytes of messages that are handed to the client at once, but for one that is greater; a part of its credits."""
SILENCE_SECONDS_MAX: Final = 60
"""Time without any confirmation over a live connection after which a task fails: a full address may block it."""
RESTORED_MAX: Final = 10
"""Connections in a row that may be lost before any of them has brought a confirmation."""
_MESSAGE_COST: Final = 64
"""Bytes that a message takes in memory besides its own."""


@dataclass(slots=True)
class _Chunk:
    """Messages to one address that are confirmed together; a large message is one by itself."""

    address: str
    messages: list[bytes]
    size: int


class Sender:
    """Sends encoded messages.

    ``open_session()`` gives a session that ends with its connection, connecting again where there is none; it raises MqsparkError when it
    gives up.  ``in_transaction``: confirmations are not asked for, since the transaction fails when a message is refused, and a lost
    connection is the end, since the transaction is lost with it.  All methods raise MqsparkError when the node stays away or refuses a
    message; nothing can be sent after that.
    """

    def __init__(self, runtime: SocketRuntime, open_session: Callable[[], Any], in_transaction: bool = False) -> None:
        self._runtime = runtime
        self._open_session = open_session
        self._in_transaction = in_transaction
        self._session = open_session()
        self._unconfirmed: dict[int, _Chunk] = {}
        self._next = 0
        self._bytes = 0
        self._failed: MqsparkError | None = None
        self._lost: MQError | None = None
        self._generation = 0
        self._restored = 0
        self._goal = 0
        self._waiter: Any = None
        self.confirmed = 0
        """Messages that the broker has confirmed."""

    def send(self, messages: Sequence[bytes], addresses: Sequence[str] | str) -> None:
        """Send messages, each to the address that it names; the order is kept for each address.

        Waits only when too much is unconfirmed.
        """
        if isinstance(addresses, str):
            groups = {addresses: messages}
        else:
            found: dict[str, list[bytes]] = {}
            for data, address in zip(messages, addresses, strict=True):
                found.setdefault(address, []).append(data)
            groups = dict(found)
        for address, group in groups.items():
            for chunk in self._chunks(address, group):
                self._send(chunk)
        self._runtime.pump(0)
        self._look()

    def flush(self) -> None:
        """Wait until everything is confirmed."""
        self._wait_for(0)

    # --- inside

    def _chunks(self, address: str, messages: Sequence[bytes]) -> Iterator[_Chunk]:
        large = self._session.settings.min_large_message_size
        group: list[bytes] = []
        size = 0
        for data in messages:
            cost = len(data) + _MESSAGE_COST
            if group and (size + cost > CHUNK_BYTES_MAX or len(data) >= large):
                yield _Chunk(address, group, size)
                group, size = [], 0
            group.append(data)
            size += cost
            if len(data) >= large:
                yield _Chunk(address, group, size)
                group, size = [], 0
        if group:
            yield _Chunk(address, group, size)

    def _send(self, chunk: _Chunk) -> None:
        if self._bytes + chunk.size > UNCONFIRMED_BYTES_MAX:
            self._wait_for(max(UNCONFIRMED_BYTES_MAX // 2 - chunk.size, 0))
        number = self._next
        self._next += 1
        large = len(chunk.messages[0]) >= self._session.settings.min_large_message_size
        if large or not self._in_transaction:
            self._unconfirmed[number] = chunk
            self._bytes += chunk.size
        if not self._write(number, chunk):
            self._wait_for_room()
            self._look()

    def _write(self, number: int, chunk: _Chunk) -> bool:
        """Hand a chunk to the session; False: the next one has to wait for room."""
        if len(chunk.messages[0]) >= self._session.settings.min_large_message_size:
            return self._write_large(number, chunk)
        if self._in_transaction:
            return bool(self._session.send_batch(chunk.address, chunk.messages, None))
        generation = self._generation

        def done(batch: Any) -> None:
            if generation == self._generation:
                self._answered(number, batch.error, list(batch.refused.values()), batch.unanswered)

        return bool(self._session.send_batch(chunk.address, chunk.messages, done))

    def _write_large(self, number: int, chunk: _Chunk) -> bool:
        (data,) = chunk.messages
        end = body_end(data)
        body = memoryview(data)[4:end]
        generation = self._generation

        def read(offset: int, size: int) -> bytes:
            return bytes(body[offset : offset + size])

        def done(error: MQError | None) -> None:
            if generation != self._generation:
                return
            if isinstance(error, OF_THE_CONNECTION):
                self._answered(number, error, [], [0])
            else:
                self._answered(number, None, [] if error is None else [error], [])

        return bool(self._session.send_large_encoded(data[end:], read, len(body), done, address=chunk.address))

    def _answered(self, number: int, lost: MQError | None, refusals: Sequence[MQError], unanswered: Sequence[int]) -> None:
        chunk = self._unconfirmed.pop(number)
        self._bytes -= chunk.size
        confirmed = len(chunk.messages) - len(unanswered) - len(refusals)
        for error in refusals:
            if isinstance(error, DuplicateIdRejectedError):
                confirmed += 1
            else:
                self._failed = self._failed or failure(error, f"sending to {chunk.address}")
        if lost is not None:
            self._lost = self._lost or lost
            left = [chunk.messages[at] for at in unanswered]
            if left:
                chunk = _Chunk(chunk.address, left, sum(map(len, left)) + _MESSAGE_COST * len(left))
                self._unconfirmed[number] = chunk
                self._bytes += chunk.size
        if confirmed:
            self.confirmed += confirmed
            self._restored = 0
        if self._bytes <= self._goal or self._lost is not None or self._failed is not None:
            self._wake()

    def _wait_for(self, size: int) -> None:
        """Wait until so many bytes are unconfirmed at most."""
        self._look()
        while self._bytes > size:
            self._goal = size
            self._wait()
            self._look()

    def _wait_for_room(self) -> None:
        """Wait until the session takes more, or something went wrong."""
        self._goal = -1
        while self._lost is None and self._failed is None and not self._session.open_encoded_sends().room:
            self._session.open_encoded_sends().on_room = self._wake
            self._wait()

    def _wait(self) -> None:
        """Wait until :meth:`_wake` is called, the session has ended, or nothing was confirmed for :data:`SILENCE_SECONDS_MAX`."""
        before = self.confirmed
        for _ in range(SILENCE_SECONDS_MAX):
            waiter = self._waiter = self._runtime.create_future()
            try:
                self._runtime.run(waiter, timeout=1.0)
                return
            except OperationTimeoutError:
                if self.confirmed != before:
                    return
            finally:
                self._waiter = None
            if self._session.closed:
                self._lost = self._lost or NotConnectedError("the session has ended")
                return
        self._failed = BrokerUnreachableError(
            f"the broker has taken and confirmed nothing for {SILENCE_SECONDS_MAX} s: is an address full, and its policy to block senders?"
        )

    def _wake(self) -> None:
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            self._runtime.resolve(waiter, None)

    def _look(self) -> None:
        """Connect again after a lost connection; raise a failure that cannot be repaired."""
        if self._in_transaction and self._session.closed:
            self._lost = self._lost or NotConnectedError("the session has ended")
        while self._failed is None and self._lost is not None:
            self._restore()
        if self._failed is not None:
            raise self._failed

    def _restore(self) -> None:
        """Send unconfirmed messages once more, over a new connection."""
        lost, self._lost = self._lost, None
        assert lost is not None
        self._restored += 1
        if self._in_transaction or self._restored > RESTORED_MAX:
            what = "the connection was lost, and the transaction with it" if self._in_transaction else "each connection was lost at once"
            self._failed = BrokerUnreachableError(f"{what}: {lost}")
            return
        self._generation += 1
        self._session = self._open_session()
        for number, chunk in sorted(self._unconfirmed.items()):
            if not self._write(number, chunk):
                self._wait_for_room()
            if self._lost is not None or self._failed is not None:
                return
