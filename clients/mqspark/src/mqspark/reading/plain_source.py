"""The sources against a broker without readers, as Apache ActiveMQ Artemis is: at least once.

Such a broker has no durable positions.  A batch is the messages that browsing shows and that were not handed out before; this process
remembers them, and settles them by consuming just these.  A task reads its messages by browsing, too.  So

* a position counts the messages that were handed out, and is no message id;
* a query that starts again remembers nothing, and reads messages that it had not settled once more;
* other consumers can take messages away before they are read;
* messages that a ``selector`` leaves out stay in the queue.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, Unpack

from mqclient.core.api import QueueQueryResult
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.message import ClientMessage
from mqclient.core.session.session import Session
from mqclient.errors import MQError
from mqclient.wire.message import KEY_LARGE_COMPRESSED, encode_message
from mqclient.wire.packets import ReaderRange, ReaderState
from mqspark.broker.broker import Broker, Limits
from mqspark.broker.nodes import Node
from mqspark.errors import BadOptionError
from mqspark.messages.blocks import MadeBlock
from mqspark.options import Options

log: Final = logging.getLogger(__name__)
T = TypeVar("T")

BLOCK_MESSAGES: Final = 1000
BLOCK_BYTES: Final = 1 << 20
"""A block ends when it has as many messages or bytes."""


@dataclass(slots=True)
class HandedOut:
    """The messages of one node that a query has handed out: kept as long as its process, over any number of connections."""

    known: dict[str, dict[int, int]] = field(default_factory=dict)
    """Queue to message id to the position at which it was handed out."""
    until: dict[str, int] = field(default_factory=dict)
    """Queue to the last position."""


class PlainBroker:
    """A broker without readers that does the work of readers by browsing and consuming."""

    def __init__(self, broker: Broker, options: Options, handed_out: HandedOut | None = None) -> None:
        """``handed_out``: over an earlier connection; None: this is the first one.

        Raises BadOptionError when reading is to begin at message ids, which mean nothing here.
        """
        if options.starting_offsets != "earliest" or options.ending_offsets != "latest":
            raise BadOptionError(
                f"the broker at {broker.place} has no readers, so a query can only begin with the oldest message and end with the newest: "
                "leave out the options startingOffsets and endingOffsets"
            )
        if handed_out is None:
            log.warning(
                "the broker at %s has no readers (it is not an mqbroker): messages are read at least once, not exactly once", broker.place
            )
        self.broker = broker
        self._selector = options.selector if options.topic is None else None
        self.kept = handed_out or HandedOut()
        self._known = self.kept.known
        self._handed = self.kept.until

    @property
    def has_readers(self) -> bool:
        return False

    @property
    def node_id(self) -> str:
        return self.broker.node_id

    @property
    def alive(self) -> bool:
        return self.broker.alive

    def members(self) -> list[Node]:
        return self.broker.members()

    def queue_query(self, queue: str) -> QueueQueryResult:
        return self.broker.queue_query(queue)

    def subscribe_topic(self, topic: str, subscription: str, selector: str | None = None) -> str:
        return self.broker.subscribe_topic(topic, subscription, selector)

    def check_selector(self, queue: str, selector: str) -> None:
        """Raise BadOptionError when the broker does not understand the option ``selector``."""

        async def browse(session: Session) -> None:
            await session.create_consumer(queue, selector, browse_only=True)

        try:
            self._run(browse, f"browsing queue {queue}")
        except BadOptionError as error:
            raise BadOptionError(f"the option selector: {error}") from error

    def close(self) -> None:
        self.broker.close()

    # --- in place of readers

    def open_reader(self, queue: str, reader: str, start: int = -1) -> ReaderState:
        """Sends no request.  ``start``: the position where the query goes on."""
        position = max(start, 0)
        self._handed[queue] = max(position, self._handed.get(queue, 0))
        return ReaderState(self.node_id, 1, position, position, position, 0, queue)

    def reader_state(self, queue: str, reader: str, position: int) -> tuple[int, int, int]:
        state = self.open_reader(queue, reader, position)
        return state.epoch, state.settled, state.reserved

    def survey(self, queue: str, after: int, **limits: Unpack[Limits]) -> ReaderRange:
        """The range that :meth:`reserve` would hand out behind ``after``."""
        return self._range(queue, after, limits)[0]

    def reserve(self, queue: str, reader: str, epoch: int, after: int, **limits: Unpack[Limits]) -> ReaderRange:
        """Hand messages out; a range that was handed out before is the same again, as far as this process remembers it."""
        known = self._known.setdefault(queue, {})
        until = limits.get("until", -1)
        if 0 <= until <= self._handed.get(queue, 0):
            again = sum(after < position <= until for position in known.values())
            if again:
                return ReaderRange(after, until, again, 0, 0, (until,))
        # The query has not committed ranges beyond ``after``: it asks for a new range where its last one ended.
        known = self._known[queue] = {each: position for each, position in known.items() if position <= after}
        found, ids = self._range(queue, after, limits)
        known.update(zip(ids, itertools.count(max(after, 0) + 1), strict=False))
        self._handed[queue] = max(self._handed.get(queue, 0), found.until)
        return found

    def handed_out(self, queue: str, after: int, until: int) -> frozenset[int]:
        """The ids of the messages of a range."""
        return frozenset(each for each, position in self._known.get(queue, {}).items() if after < position <= until)

    def settle(self, queue: str, reader: str, epoch: int, until: int) -> None:
        """Consume the messages that were handed out up to ``until``, and no other."""
        known = self._known.get(queue, {})
        wanted = {each for each, position in known.items() if position <= until}
        if wanted:
            self._take(queue, wanted)
            self._known[queue] = {each: position for each, position in known.items() if each not in wanted}

    def _take(self, queue: str, wanted: set[int]) -> None:
        self._run(lambda session: _consume(session, queue, wanted), f"settling messages of queue {queue}", auto_commit_acks=False)

    def _range(self, queue: str, after: int, limits: Limits) -> tuple[ReaderRange, list[int]]:
        after = max(after, 0)
        until, messages, size = limits.get("until", -1), limits.get("max_messages", -1), limits.get("max_bytes", -1)
        most = messages if until < 0 else until - after if messages < 0 else min(messages, until - after)
        known = self._known.get(queue, {})
        ids: list[int] = []
        total = 0
        for message_id, amount in self._sizes(queue):
            if message_id in known:
                continue
            if 0 <= most <= len(ids) or (ids and 0 <= size < total + amount):
                break
            ids.append(message_id)
            total += amount
        end = after + len(ids)
        return ReaderRange(after, end, len(ids), total, 0, (end,) if ids else ()), ids

    def _sizes(self, queue: str) -> list[tuple[int, int]]:
        """(id, bytes) of every message that browsing shows."""

        async def browse(session: Session) -> list[tuple[int, int]]:
            consumer = await session.create_consumer(queue, self._selector, browse_only=True)
            await session.start()
            found = []
            while (message := await consumer.receive_immediate()) is not None:
                found.append((message.message_id, message.encode_size))
                if message.large is not None:
                    message.large.discard()
            return found

        return self._run(browse, f"browsing queue {queue}")

    def _run(self, function: Callable[[Session], Awaitable[T]], doing: str, **arguments: Any) -> T:
        session = self.broker.session(**arguments)
        try:
            return self.broker.runtime.run(_closing(session, function))
        except MQError as error:
            self.broker.failed(error, doing)


async def _closing(session: Session, function: Callable[[Session], Awaitable[T]]) -> T:
    try:
        return await function(session)
    finally:
        await session.close()


async def _consume(session: Session, queue: str, wanted: set[int]) -> None:
    """Take the wanted messages.  The others go back when the session is closed, and are not counted as delivered."""
    consumer = await session.create_consumer(queue)
    await session.start()
    left = set(wanted)
    while left and (message := await consumer.receive_immediate()) is not None:
        if message.large is not None:
            message.large.discard()
        if message.message_id in left:
            left.remove(message.message_id)
            await consumer.individual_acknowledge(message)
    await session.commit()


def browsed(broker: Broker, queue: str, selector: str | None, wanted: Callable[[int], bool], stop: int | None) -> Iterator[MadeBlock]:
    """The wanted messages of a queue, by their ids; ``stop``: how many there are at most."""
    session = broker.session()
    try:
        consumer = broker.runtime.run(session.create_consumer(queue, selector, browse_only=True))
        broker.runtime.run(session.start())
        while stop is None or stop > 0:
            block = broker.runtime.run(_block(consumer, wanted, BLOCK_MESSAGES if stop is None else min(stop, BLOCK_MESSAGES)))
            if not block.count:
                break
            yield block
            stop = None if stop is None else stop - block.count
        broker.runtime.run(session.close())
    except MQError as error:
        broker.failed(error, f"browsing queue {queue}")


async def _block(consumer: Consumer, wanted: Callable[[int], bool], most: int) -> MadeBlock:
    ids: list[int] = []
    counts: list[int] = []
    messages: list[bytes] = []
    size = 0
    while len(ids) < most and size < BLOCK_BYTES:
        message = await consumer.receive_immediate()
        if message is None:
            break
        if not wanted(message.message_id):
            if message.large is not None:
                message.large.discard()
            continue
        ids.append(message.message_id)
        counts.append(max(message.delivery_count - 1, 0))
        messages.append(await _encoded(message))
        size += len(messages[-1])
    return MadeBlock(ids, counts, messages)


async def _encoded(message: ClientMessage) -> bytes:
    """The message as the converter reads it, its body plain."""
    body = message.plain_body() if message.large is None else await message.large.read()
    properties = {key: value for key, value in message.properties.items() if key != KEY_LARGE_COMPRESSED}
    return encode_message(replace(message, properties=properties, body=body))
