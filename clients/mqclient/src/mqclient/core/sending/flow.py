"""Credits of the producers of a session, by address, and the sends that wait for them.

Source: ``protocol-spec/``, chapter "Flow control".
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from mqclient.core.connection.channel import Channel
from mqclient.core.runtime import Mutex, Runtime, Timer
from mqclient.errors import AddressFullError, MQError
from mqclient.protocol.credits import ProducerCredits
from mqclient.wire.packets import ProducerRequestCredits

ANONYMOUS_MAX = 1000
"""Addresses whose credits are kept for producers without an address."""

BLOCKED_SECONDS = 10.0
"""A line is logged when no send to an address has gone on for so long."""

UNLIMITED_SPARE = 1024 * 1024
"""Bytes that :meth:`ProducerFlow.spare` gives without flow control."""


class _Address:
    __slots__ = ("blocked", "credits", "holders", "order", "served", "waiting", "watch")

    def __init__(self, runtime: Runtime, window: int) -> None:
        self.credits = ProducerCredits(window)
        self.holders = 0
        """Producers that are bound to the address, and sends that are under way."""
        self.order = Mutex(runtime)
        """Sends to one address are written in the order of their calls: each holds this in its turn."""
        self.waiting: deque[tuple[object, int, Any]] = deque()
        """(producer, size, future) of sends, in order."""
        self.served = 0
        """Sends that have got their credits after waiting."""
        self.watch: Timer | None = None
        self.blocked = False
        """Has the log line been written that sends wait here?"""


class ProducerFlow:
    """``window``: bytes of credits that are asked for at once, -1 for no flow control."""

    def __init__(self, channel: Channel, window: int) -> None:
        self._channel = channel
        self._runtime = channel.runtime
        self._window = window
        self._addresses: OrderedDict[str, _Address] = OrderedDict()

    def open(self, address: str) -> None:
        """A producer is bound to ``address``: ask for its first credits."""
        entry = self.enter(address)
        if self._window >= 0:
            self._request(address, entry.credits.request(0))

    def enter(self, address: str) -> _Address:
        """A send to ``address`` begins; :meth:`leave` when it is over."""
        entry = self._entry(address)
        entry.holders += 1
        return entry

    def leave(self, entry: _Address) -> None:
        entry.holders -= 1

    def release(self, address: str | None, producer: object, error: MQError) -> None:
        """The producer is closed: sends of it that wait fail with ``error``."""
        failing: list[Any] = []
        for entry in self._addresses.values():
            for waiter in [waiter for waiter in entry.waiting if waiter[0] is producer]:
                entry.waiting.remove(waiter)
                failing.append(waiter[2])
        entry_of_producer = self._addresses.get(address) if address is not None else None
        if address is not None and entry_of_producer is not None:
            entry_of_producer.holders -= 1
            if not entry_of_producer.holders:
                del self._addresses[address]
        # Last, because a waiting caller may close the session at once, and so re-enter this method.
        for future in failing:
            self._runtime.reject(future, error)

    def drop(self, error: MQError) -> None:
        """No send that waits for credits shall be written any more: each fails with ``error``."""
        failing = [waiter[2] for entry in self._addresses.values() for waiter in entry.waiting]
        for entry in self._addresses.values():
            entry.waiting.clear()
        for future in failing:
            self._runtime.reject(future, error)

    def spare(self, address: str) -> int:
        """Bytes that can be sent to ``address`` now without waiting; 0 while other sends wait."""
        if self._window < 0:
            return UNLIMITED_SPARE
        entry = self._addresses.get(address)
        return entry.credits.spare if entry is not None and not entry.waiting else 0

    async def acquire(self, producer: object, address: str, size: int) -> None:
        """Take credits for ``size`` bytes; waits for the broker to grant them.

        Raises ``AddressFullError`` when the address is full and its policy is FAIL.
        """
        if self._window < 0:
            return
        entry = self._entry(address)
        if not entry.waiting:
            self._request(address, entry.credits.request(size))
            if entry.credits.take_refusal():
                raise _full(address)
            if entry.credits.spend(size):
                return
        future = self._runtime.create_future()
        waiter = (producer, size, future)
        entry.waiting.append(waiter)
        if entry.watch is None:
            self._watch(address, entry)
        try:
            await future
        finally:
            if waiter in entry.waiting:
                entry.waiting.remove(waiter)
                self._serve(address, entry)
            if not entry.waiting and entry.watch is not None:
                entry.watch.cancel()
                entry.watch = None

    def charge(self, address: str, size: int) -> None:
        """Take credits for ``size`` bytes that are written already; later sends wait until those that are missing have come."""
        if self._window >= 0:
            credits = self._entry(address).credits
            self._request(address, credits.request(size))
            credits.balance -= size

    def granted(self, address: str, credits: int) -> None:
        entry = self._addresses.get(address)
        if entry is not None:
            entry.credits.granted(credits)
            self._serve(address, entry)

    def refused(self, address: str, credits: int) -> None:
        entry = self._addresses.get(address)
        if entry is not None:
            entry.credits.refused(credits)
            self._serve(address, entry)

    def session_recreated(self) -> None:
        for address, entry in self._addresses.items():
            self._request(address, entry.credits.after_recreation())

    def close(self, error: MQError) -> None:
        """The session is over."""
        entries, self._addresses = self._addresses, OrderedDict()
        for entry in entries.values():
            while entry.waiting:
                self._runtime.reject(entry.waiting.popleft()[2], error)

    def _serve(self, address: str, entry: _Address) -> None:
        runtime = self._runtime
        while entry.waiting:
            _, size, future = entry.waiting[0]
            if entry.credits.take_refusal():
                entry.waiting.popleft()
                runtime.reject(future, _full(address))
            elif entry.credits.spend(size):
                entry.waiting.popleft()
                entry.served += 1
                if entry.blocked:
                    entry.blocked = False
                    runtime.log_warning(f"sends to address {address} continue")
                runtime.resolve(future, None)
            else:
                self._request(address, entry.credits.request(size))
                return

    def _watch(self, address: str, entry: _Address) -> None:
        entry.watch = self._runtime.call_later(BLOCKED_SECONDS, self._watched, address, entry, entry.served)

    def _watched(self, address: str, entry: _Address, served: int) -> None:
        entry.watch = None
        if not entry.waiting or entry.blocked:
            return
        if entry.served == served and not self._channel.locked:
            entry.blocked = True
            self._runtime.log_warning(
                f"AMQ212054: sends to address {address} have been waiting for {BLOCKED_SECONDS:g} s: the broker gives no credits, for the "
                "address, its memory or its disk is full; they go on when messages are consumed or there is room"
            )
        else:
            self._watch(address, entry)

    def _entry(self, address: str) -> _Address:
        entry = self._addresses.get(address)
        if entry is None:
            if len(self._addresses) >= ANONYMOUS_MAX:
                self._evict()
            entry = self._addresses[address] = _Address(self._runtime, self._window)
        else:
            self._addresses.move_to_end(address)
        return entry

    def _evict(self) -> None:
        for address, entry in self._addresses.items():
            if not entry.holders:
                del self._addresses[address]
                return

    def _request(self, address: str, credits: int) -> None:
        if credits > 0:
            self._channel.send_at_once(ProducerRequestCredits(credits, address))


def _full(address: str) -> AddressFullError:
    return AddressFullError(f"address {address} is full and its policy is FAIL; the message was not sent")
