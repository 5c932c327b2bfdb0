"""The messages of one task on their way to one node: sent ahead, kept until the broker has confirmed them, sent again after a failure.

What is on its way is bounded in bytes and in messages, so that memory stays flat however many rows a task has.  After a lost connection the
unconfirmed messages are sent again in their order, with the ids that they have: where duplicate ids are in use, the broker drops what it
has got already.  Nothing happens between calls; every call takes in the answers that have come meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from mqclient.errors import DuplicateIdRejectedError, MQError, NotConnectedError, OperationTimeoutError
from mqclient.wire.message import body_end
from mqspark.errors import BrokerUnreachableError, MqsparkError
from mqspark.failures import OF_THE_CONNECTION, failure

UNCONFIRMED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of messages that may wait for their confirmation before the task waits, but for one that is greater."""
UNCONFIRMED_MAX: Final = 20_000
"""Messages that may wait for their confirmation before the task waits."""
SILENCE_SECONDS_MAX: Final = 60
"""Without a single confirmation for so long, while the connection stands, a task fails: an address that is full may block it."""
RESTORED_MAX: Final = 10
"""How often in a row a connection may be lost before it has brought a single confirmation."""


class Runtime(Protocol):
    """What is used of :class:`mqclient.sockets.SocketRuntime`."""

    def run(self, awaitable: Any, timeout: float | None = None) -> Any: ...
    def pump(self, seconds: float) -> None: ...
    def create_future(self) -> Any: ...
    def resolve(self, future: Any, value: Any) -> None: ...


class Sender:
    """Sends encoded messages.

    ``open_session()`` gives a session that ends with its connection, connecting again where there is none; it raises MqsparkError when it
    gives up.  Without ``restores`` a lost connection is the end: for work that is lost with it, as in a transaction.  All methods raise
    MqsparkError when the node stays away or refuses a message; nothing can be sent after that.
    """

    def __init__(self, runtime: Runtime, open_session: Callable[[], Any], restores: bool) -> None:
        self._runtime = runtime
        self._open_session = open_session
        self._restores = restores
        self._session = open_session()
        self._next = 0
        self._unconfirmed: dict[int, tuple[bytes, str]] = {}
        self._bytes = 0
        self._failed: MqsparkError | None = None
        self._lost: MQError | None = None
        self._generation = 0
        self._restored = 0
        self._goal = (0, 0)
        self._waiter: Any = None
        self.confirmed = 0
        """Messages that the broker has confirmed."""

    @property
    def session(self) -> Any:
        """The session that is in use."""
        return self._session

    def send(self, messages: Sequence[bytes], addresses: Sequence[str] | str) -> None:
        """Send messages, each to the address that it names.  Waits only when too much is unconfirmed."""
        if isinstance(addresses, str):
            for data in messages:
                self._send((data, addresses))
        else:
            for message in zip(messages, addresses, strict=True):
                self._send(message)
        self._runtime.pump(0)
        self._look()

    def flush(self) -> None:
        """Wait until everything is confirmed."""
        self._wait_for(0, 0)

    # --- inside

    def _send(self, message: tuple[bytes, str]) -> None:
        size = len(message[0])
        if self._bytes + size > UNCONFIRMED_BYTES_MAX or len(self._unconfirmed) >= UNCONFIRMED_MAX:
            self._wait_for(UNCONFIRMED_MAX // 2, max(UNCONFIRMED_BYTES_MAX // 2 - size, 0))
        number = self._next
        self._next += 1
        self._unconfirmed[number] = message
        self._bytes += size
        if not self._write(number, message):
            self._wait_for_room()
            self._look()

    def _write(self, number: int, message: tuple[bytes, str]) -> bool:
        """Hand a message to the session; False: the next one has to wait for room."""
        session = self._session
        data, address = message
        generation = self._generation

        def done(error: MQError | None) -> None:
            if generation == self._generation:
                self._answered(number, error)

        if len(data) < session.settings.min_large_message_size:
            return bool(session.send_encoded((data,), len(data), done, address=address))
        end = body_end(data)
        body = memoryview(data)[4:end]

        def read(offset: int, size: int) -> bytes:
            return bytes(body[offset : offset + size])

        return bool(session.send_large_encoded(data[end:], read, len(body), done, address=address))

    def _answered(self, number: int, error: MQError | None) -> None:
        if error is not None and not isinstance(error, DuplicateIdRejectedError):
            if isinstance(error, OF_THE_CONNECTION):
                self._lost = self._lost or error
            else:
                address = self._unconfirmed[number][1]
                self._failed = self._failed or failure(error, f"sending to {address}")
            self._wake()
            return
        self._bytes -= len(self._unconfirmed.pop(number)[0])
        self.confirmed += 1
        self._restored = 0
        if self._waiter is not None and len(self._unconfirmed) <= self._goal[0] and self._bytes <= self._goal[1]:
            self._wake()

    def _wait_for(self, messages: int, size: int) -> None:
        """Wait until so many messages and bytes are unconfirmed at most."""
        self._look()
        while len(self._unconfirmed) > messages or self._bytes > size:
            self._goal = (messages, size)
            self._wait()
            self._look()

    def _wait_for_room(self) -> None:
        """Wait until the session takes more, or something went wrong."""
        while self._lost is None and self._failed is None and not self._session.open_encoded_sends().room:
            self._session.open_encoded_sends().on_room = self._wake
            self._wait()

    def _wait(self) -> None:
        """Until something of interest has happened."""
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
            f"the broker has confirmed none of {len(self._unconfirmed)} messages for {SILENCE_SECONDS_MAX} s: "
            "is an address full, and its policy to block senders?"
        )

    def _wake(self) -> None:
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            self._runtime.resolve(waiter, None)

    def _look(self) -> None:
        """Deal with what went wrong."""
        while self._failed is None and self._lost is not None:
            self._restore()
        if self._failed is not None:
            raise self._failed

    def _restore(self) -> None:
        """Send what is not confirmed once more, over a new connection."""
        lost, self._lost = self._lost, None
        assert lost is not None
        self._restored += 1
        if not self._restores or self._restored > RESTORED_MAX:
            self._failed = BrokerUnreachableError(f"the connection was lost with {len(self._unconfirmed)} messages unconfirmed: {lost}")
            return
        self._generation += 1
        self._session = self._open_session()
        for number, message in list(self._unconfirmed.items()):
            if not self._write(number, message):
                self._wait_for_room()
            if self._lost is not None or self._failed is not None:
                return
