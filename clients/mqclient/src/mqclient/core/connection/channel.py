"""A session's channel in use: one call at a time, the queue behind it, and the time while the connection is away.

Packets leave in the order in which they were handed in: packets that come while a call waits for its turn queue up behind it.
While the connection is away the channel is locked; calls and sends wait for its return, at most ``call_failover_timeout``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from mqclient.core.runtime import Runtime, Timer, Waiters
from mqclient.errors import (
    ConnectionTimedOutError,
    MQError,
    ObjectClosedError,
    TransactionRolledBackError,
    UnblockedError,
    error_for_code,
)
from mqclient.protocol.channel import NO_CORRELATION, SessionChannel
from mqclient.wire.hot import VERSION_COMMIT_CORRELATION
from mqclient.wire.packets import Commit, ExceptionResponse, Packet, SessionSend, SessionSendContinuation

_QUEUE_MAX = 1000
"""Packets that may wait for a call to end before senders wait too."""


class Call:
    """A request and the future of its answer.

    ``bound``: it has a meaning only for the session that the broker has now, not for one that it creates anew after a failure.
    """

    __slots__ = ("bound", "expects", "future", "packet", "sent", "timer")

    def __init__(self, packet: Packet, expects: tuple[type[Packet], ...], future: Any, bound: bool) -> None:
        self.packet = packet
        self.expects = expects
        self.future = future
        self.bound = bound
        self.sent = False
        self.timer: Timer | None = None


class Channel:
    """``timed_out(error)`` is told when a call was not answered within ``call_timeout``: the connection has failed then."""

    def __init__(
        self,
        runtime: Runtime,
        protocol: SessionChannel,
        call_timeout_ms: int,
        call_failover_timeout_ms: int,
        timed_out: Callable[[MQError], None],
    ) -> None:
        self.runtime = runtime
        self.protocol = protocol
        self.incarnation = 0
        """How often the other end was created anew."""
        self.locked = True
        self.usable_since = 0.0
        """Monotonic time (s) at which the connection was there, or back, last."""
        self.error: MQError | None = None
        """Why the channel is closed; None while it is not."""
        self._call_timeout = call_timeout_ms / 1000
        self._failover_timeout = None if call_failover_timeout_ms < 0 else call_failover_timeout_ms / 1000
        self._timed_out = timed_out
        self._transmit: Callable[[bytes], None] | None = None
        self._current: Call | None = None
        self._queue: deque[Call | tuple[Packet, int]] = deque()
        """Calls, and packets with their tags, that wait for their turn."""
        self._waiters = Waiters(runtime)
        self._paused = False
        self._held: list[bytes] = []

    # --- sending ---

    def send(self, packet: Packet, tag: int = 0) -> None:
        """Send without waiting for an answer.  Dropped when the channel is closed; ``tag``: see :meth:`SessionChannel.frame`."""
        if self.error is not None:
            return
        if self.locked or self._queue:
            self._queue.append((packet, tag))
        else:
            self.write_raw(self.protocol.frame(packet, tag=tag))

    def send_at_once(self, packet: Packet) -> None:
        """As :meth:`send`, but not behind waiting calls: for credits."""
        if self.error is not None:
            return
        if self.locked:
            self._queue.append((packet, 0))
        else:
            self.write_raw(self.protocol.frame(packet))

    def call(self, packet: Packet, *expects: type[Packet], bound: bool = False) -> Any:
        """Send a request; the future gives the answer, one of ``expects``, or fails with the error in an EXCEPTION packet.

        ``bound``: see :class:`Call`; such a request fails when the session was created anew before its turn came.
        """
        return self.submit(packet, *expects, bound=bound).future

    def submit(self, packet: Packet, *expects: type[Packet], bound: bool = False) -> Call:
        """As :meth:`call`, for callers that need more of the call than its answer."""
        call = Call(packet, expects, self.runtime.create_future(), bound)
        if self.error is not None:
            self.runtime.reject(call.future, self.error)
            return call
        if self.locked:
            self._limit_wait(call)
        self._queue.append(call)
        self._drain()
        return call

    def hold(self, parts: Iterable[bytes], tag: int) -> None:
        """Send one counted frame, given in parts, with :meth:`flush_held` or before the next packet.  The frame is not kept for a
        reattachment.

        Dropped while there is no connection.  ``tag`` as for :meth:`send`.
        """
        if self._transmit is not None:
            self._held.extend(parts)
            self.protocol.sent_unkept(tag)

    def hold_many(self, parts: Iterable[bytes], tags: Iterable[int]) -> None:
        """As :meth:`hold`, for several frames at once."""
        if self._transmit is not None:
            self._held.extend(parts)
            if self.protocol.window is not None:
                for tag in tags:
                    self.protocol.sent_unkept(tag)

    def flush_held(self) -> None:
        """Write the frames that :meth:`hold` has gathered."""
        held = self._held
        if held:
            data = b"".join(held)
            held.clear()
            if self._transmit is not None:
                self._transmit(data)

    @property
    def writable(self) -> bool:
        """Would :meth:`ready` with ``writable`` return at once?"""
        return self.error is None and not (self.locked or self._paused or len(self._queue) >= _QUEUE_MAX)

    async def ready(self, writable: bool = False) -> None:
        """Wait until the channel is usable, with ``writable`` also until the peer reads.  Raises why it is closed.

        The wait for the connection's return is limited as a whole, however many attempts to restore the session fail meanwhile.
        """
        deadline: float | None = None
        while True:
            if self.error is not None:
                raise self.error
            if not (self.locked or (writable and (self._paused or len(self._queue) >= _QUEUE_MAX))):
                return
            left = None
            if not self.locked or self._failover_timeout is None:
                deadline = None
            else:
                now = self.runtime.now()
                deadline = now + self._failover_timeout if deadline is None else deadline
                left = max(deadline - now, 0.0)
            await self._waiters.wait(left, self._failover_error())

    # --- receiving ---

    def answered(self, packet: Packet) -> bool:
        """A response came in; False when it does not answer the call in progress."""
        call = self._current
        if call is None or not self.protocol.completes_call(packet):
            return False
        self._finish(call)
        if isinstance(packet, ExceptionResponse):
            self.runtime.reject(call.future, error_for_code(packet.error_code, packet.message))
        else:
            self.runtime.resolve(call.future, packet)
        self._drain()
        return True

    # --- connection ---

    def attach(self, transmit: Callable[[bytes], None], paused: bool = False) -> None:
        """The connection is up; the channel stays locked until :meth:`unlock`.  ``paused``: its peer does not read just now."""
        self._transmit = transmit
        self._paused = paused

    def lock(self) -> None:
        """The connection is lost."""
        self._transmit = None
        if self.locked:
            return  # it was not back for long enough: the waits that run go on
        self.locked = True
        if self._current is not None:
            self._stop_timer(self._current)
            self._limit_wait(self._current)
        for item in self._queue:
            if isinstance(item, Call) and item.timer is None:
                self._limit_wait(item)
        self._waiters.wake()

    def replay(self) -> None:
        """The session was reattached: send the packets again that the broker has not received."""
        for data in self.protocol.replay():
            self.write_raw(data)

    def restart(self, version: int) -> None:
        """The session was created anew: the call in progress fails with ``UnblockedError``.

        Waiting calls that were bound to the old session fail, too; a commit fails with ``TransactionRolledBackError``.  Waiting packets
        that need no answer are dropped.
        """
        self.incarnation += 1
        self.protocol.restart(version)
        call, self._current = self._current, None
        waiting = [item for item in self._queue if isinstance(item, Call)]
        self._queue = deque(item for item in waiting if not item.bound)
        if call is not None:
            self._stop_timer(call)
            self.runtime.reject(call.future, unblocked(call.packet.NAME, None))
        for item in waiting:
            if item.bound:
                self._stop_timer(item)
                self.runtime.reject(item.future, _outdated(item.packet))

    def unlock(self) -> None:
        """The session is there again: let everything go on."""
        self.locked = False
        self.usable_since = self.runtime.now()
        if self._current is not None:
            self._stop_timer(self._current)
            self._start_timer(self._current)
        for item in self._queue:
            if isinstance(item, Call):
                self._stop_timer(item)
        self._drain()
        self._waiters.wake()

    def pause(self) -> None:
        """The peer does not read."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._waiters.wake()

    def close(self, error: MQError, cause: MQError | None = None) -> None:
        """The channel is closed: calls raise ``error`` from now on.

        ``cause`` is the failure that ended the channel: calls that wait for their turn fail with it, the one that was sent fails with
        ``UnblockedError``.
        """
        if self.error is not None:
            return
        self.error = error
        self._transmit = None
        call, self._current = self._current, None
        waiting = [item for item in self._queue if isinstance(item, Call)]
        self._queue.clear()
        for item in waiting:
            self._stop_timer(item)
            self.runtime.reject(item.future, cause or error)
        if call is not None:
            self._stop_timer(call)
            self.runtime.reject(call.future, error if cause is None else unblocked(call.packet.NAME, cause))
        self._waiters.wake()

    # --- inside ---

    def _drain(self) -> None:
        while self._queue and not self.locked and self.error is None:
            item = self._queue[0]
            if isinstance(item, Call):
                if self._current is not None:
                    break
                self._queue.popleft()
                if not self.runtime.is_done(item.future):  # else it was cancelled before its turn came
                    self._begin(item)
            else:
                self._queue.popleft()
                packet, tag = item
                self.write_raw(self.protocol.frame(packet, tag=tag))
        if not (self.locked or self._paused) and len(self._queue) < _QUEUE_MAX:
            self._waiters.wake()

    def _begin(self, call: Call) -> None:
        packet = call.packet
        correlation = self.protocol.next_blocking_correlation()
        if isinstance(packet, (SessionSend, SessionSendContinuation)) or (
            isinstance(packet, Commit) and self.protocol.version >= VERSION_COMMIT_CORRELATION
        ):
            packet.correlation_id = correlation
        else:
            correlation = NO_CORRELATION
        try:
            data = self.protocol.frame(packet)
        except Exception as error:  # a value does not fit its field: the caller's mistake must not keep the others from being answered
            self._stop_timer(call)
            self.runtime.reject(call.future, error)
            return
        self._current = call
        call.sent = True
        self.protocol.begin_call(call.expects, correlation)
        self._start_timer(call)
        self.write_raw(data)

    def _finish(self, call: Call) -> None:
        self._stop_timer(call)
        self._current = None
        self.protocol.end_call()

    def write_raw(self, data: bytes) -> None:
        """Write a frame made by :attr:`protocol`."""
        if self._held:
            self.flush_held()
        if self._transmit is not None:
            self._transmit(data)

    def _start_timer(self, call: Call) -> None:
        call.timer = self.runtime.call_later(self._call_timeout, self._unanswered, call)

    def _stop_timer(self, call: Call) -> None:
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None

    def _limit_wait(self, call: Call) -> None:
        if self._failover_timeout is not None:
            call.timer = self.runtime.call_later(self._failover_timeout, self._waited_too_long, call)

    def _unanswered(self, call: Call) -> None:
        call.timer = None
        error = ConnectionTimedOutError(
            f"{call.packet.NAME} was not answered within {self._call_timeout:g} s; the connection is given up (callTimeout sets the limit)"
        )
        self.runtime.reject(call.future, error)
        self._timed_out(error)

    def _waited_too_long(self, call: Call) -> None:
        # A call that has been sent keeps its place: its answer may still come with a reattachment.
        call.timer = None
        if call is self._current:
            error: MQError = unblocked(call.packet.NAME, None)
        else:
            self._queue.remove(call)
            error = self._failover_error()
        self.runtime.reject(call.future, error)

    def _failover_error(self) -> ConnectionTimedOutError:
        return ConnectionTimedOutError(
            f"the connection did not come back within {self._failover_timeout or 0:g} s (callFailoverTimeout sets the limit)"
        )


def unblocked(what: str, cause: MQError | None) -> UnblockedError:
    """The error of a call that was sent and gets no answer."""
    error = UnblockedError(f"{what} was interrupted by a connection failure, its outcome is unknown" + (f": {cause}" if cause else ""))
    error.__cause__ = cause
    return error


def _outdated(packet: Packet) -> MQError:
    if isinstance(packet, Commit):
        return TransactionRolledBackError("the connection failed before the commit was sent: the transaction was rolled back")
    return UnblockedError(f"{packet.NAME} was not sent: the session that it belongs to was lost with the connection")


def closed_error(what: str) -> ObjectClosedError:
    return ObjectClosedError(f"the {what} is closed")
