"""A cluster with readers, in memory: what the sources need of :mod:`mqspark.broker.broker`, with the rules of the page on readers."""

from __future__ import annotations

import bisect
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace, TracebackType
from typing import Any

from mqclient.core.api import QueueQueryResult
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.packets import START_NEWEST, START_OLDEST, ReaderRange, ReaderState
from mqspark.broker.broker import Broker
from mqspark.broker.nodes import Node
from mqspark.errors import (
    BadOptionError,
    BrokerUnreachableError,
    FencedError,
    MissingQueueError,
    MqsparkError,
    PermissionDeniedError,
    ReaderRefusedError,
)
from mqspark.options import Options
from tests.unit.mqspark.blocks import block_of

SILENCE_SECONDS = 20
"""After so long a test that waits for a silent node has failed."""


@dataclass
class FakeReader:
    epoch: int = 0
    settled: int = 0
    reserved: int = 0


@dataclass
class FakeQueue:
    messages: dict[int, bytes] = field(default_factory=dict)
    """Encoded messages by id, ascending."""
    readers: dict[str, FakeReader] = field(default_factory=dict)
    consumers: int = 0
    taken: int = 0
    """Everything up to here was settled or removed."""


@dataclass
class FakeNode:
    node_id: str
    queues: dict[str, FakeQueue] = field(default_factory=dict)
    up: bool = True
    in_topology: bool = True
    last_id: int = 0
    speaks: threading.Event | None = None
    """Whoever asks waits for it; None: nobody waits."""

    def hear(self) -> None:
        """Raises AssertionError for a question that never gets its answer."""
        if self.speaks is not None and not self.speaks.wait(SILENCE_SECONDS):
            raise AssertionError(f"somebody waits for node {self.node_id}")

    def send(self, queue: str, message: CoreMessage | None = None, *, gap: int = 1) -> int:
        self.last_id += gap
        self.queues.setdefault(queue, FakeQueue()).messages[self.last_id] = encode_message(message or CoreMessage())
        return self.last_id


class FakeCluster:
    """Nodes by id; ``connect`` takes the place of :func:`mqspark.broker.broker.connect`."""

    def __init__(self, *node_ids: str) -> None:
        self.nodes = {node_id: FakeNode(node_id) for node_id in node_ids}
        self.has_readers = True
        self.managed = True

    def connect(self, options: Options, node: Node | None = None, **_: Any) -> FakeBroker:
        there = [each for each in self.nodes.values() if each.up] if node is None else [self.nodes[node.node_id]]
        if node is not None:
            there[0].hear()
        if not there or not there[0].up:
            raise BrokerUnreachableError(f"no broker at {'any address' if node is None else node.node_id}")
        return FakeBroker(self, there[0])


class FakeBroker:
    def __init__(self, cluster: FakeCluster, node: FakeNode) -> None:
        self._cluster = cluster
        self._node = node
        self._closed = False

    @property
    def node_id(self) -> str:
        return self._node.node_id

    @property
    def alive(self) -> bool:
        return self._node.up

    @property
    def place(self) -> str:
        return f"place of {self.node_id}"

    @property
    def has_readers(self) -> bool:
        return self._cluster.has_readers

    def members(self) -> list[Node]:
        # They are known without asking.
        if not self._node.up:
            self._check()
        return [Node(each.node_id, ()) for each in self._cluster.nodes.values() if each.in_topology]

    def _check(self) -> None:
        if self._closed:
            raise MqsparkError("the runtime is closed")
        self._node.hear()
        if not self._node.up:
            raise BrokerUnreachableError(f"node {self._node.node_id} cannot be reached")

    def _queue(self, name: str) -> FakeQueue:
        self._check()
        if name not in self._node.queues:
            raise MissingQueueError(f"there is no queue {name}")
        return self._node.queues[name]

    def queue_query(self, queue: str) -> QueueQueryResult:
        self._check()
        found = self._node.queues.get(queue)
        answer: Any = SimpleNamespace(
            exists=found is not None,
            consumer_count=found.consumers if found else 0,
            message_count=len(found.messages) if found else 0,
        )
        result: QueueQueryResult = answer
        return result

    def subscribe_topic(self, topic: str, subscription: str, selector: str | None = None) -> str:
        self._check()
        self._node.queues.setdefault(subscription, FakeQueue())
        return subscription

    def manage(self, resource: str, operation: str, *parameters: object, repeat: bool = False) -> str:
        if not self._cluster.managed:
            raise PermissionDeniedError("you may not manage")
        found = self._queue(str(parameters[0])).readers
        return json.dumps(
            [{"name": name, "epoch": each.epoch, "settled": each.settled, "reserved": each.reserved} for name, each in found.items()]
        )

    def open_reader(self, queue: str, reader: str, start: int = START_OLDEST) -> ReaderState:
        found = self._queue(queue)
        if found.consumers:
            raise ReaderRefusedError(f"queue {queue} has consumers")
        ids = list(found.messages)
        newest = ids[-1] if ids else found.taken
        if reader not in found.readers:
            position = found.taken if start == START_OLDEST else newest if start == START_NEWEST else start
            found.readers[reader] = FakeReader(0, max(position, found.taken), max(position, found.taken))
        state = found.readers[reader]
        state.epoch += 1
        left = sum(each > state.settled for each in ids)
        return ReaderState(self.node_id, state.epoch, state.settled, state.reserved, newest, left, queue)

    reader_state = Broker.reader_state
    handed_out = Broker.handed_out

    def remove_reader(self, queue: str, reader: str) -> None:
        del self._queue(queue).readers[reader]

    def survey(
        self, queue: str, after: int, *, until: int = -1, max_messages: int = -1, max_bytes: int = -1, parts: int = 1
    ) -> ReaderRange:
        found = self._queue(queue)
        ids = [each for each in found.messages if each > after and (until < 0 or each <= until)]
        if max_messages >= 0:
            ids = ids[:max_messages]
        size, taken = 0, 0
        for each in ids:
            if taken and 0 <= max_bytes < size + len(found.messages[each]):
                break
            size += len(found.messages[each])
            taken += 1
        ids = ids[:taken]
        oldest = next(iter(found.messages), 0)
        count = min(parts, len(ids))
        ends = tuple(ids[(number + 1) * len(ids) // count - 1] for number in range(count))
        return ReaderRange(after, ids[-1] if ids else after, len(ids), size, oldest, ends)

    def reserve(self, queue: str, reader: str, epoch: int, after: int, **limits: int) -> ReaderRange:
        state = self._reader(queue, reader, epoch)
        found = self.survey(queue, after, **limits)
        state.reserved = max(state.reserved, found.until)
        return found

    def settle(self, queue: str, reader: str, epoch: int, until: int) -> None:
        state = self._reader(queue, reader, epoch)
        if until > state.reserved:
            raise ReaderRefusedError(f"reader {reader} of queue {queue} has nothing beyond {state.reserved} to settle: {until} is")
        state.settled = max(state.settled, until)
        found = self._queue(queue)
        done = min(each.settled for each in found.readers.values())
        for each in [each for each in found.messages if each <= done]:
            del found.messages[each]
        found.taken = max(found.taken, done)

    def _reader(self, queue: str, reader: str, epoch: int) -> FakeReader:
        state = self._queue(queue).readers.get(reader)
        if state is None:
            raise ReaderRefusedError(f"queue {queue} has no reader {reader}")
        if state.epoch != epoch:
            raise FencedError(f"reader {reader} of queue {queue} was opened by another one: epoch {state.epoch}, yours is {epoch}")
        return state

    def check_selector(self, queue: str, selector: str) -> None:
        self._queue(queue)
        if selector == "nonsense =":
            raise BadOptionError("the option selector: AMQ229020: Invalid filter")

    def blocks(self, queue: str, after: int, until: int, *, selector: str | None = None) -> Iterator[Any]:
        found = self._queue(queue)
        ids = list(found.messages)
        ids = ids[bisect.bisect_right(ids, after) : bisect.bisect_right(ids, until)]
        for number in range(0, len(ids), 3):
            some = ids[number : number + 3]
            block: Any = block_of([found.messages[each] for each in some])
            block.ids = memoryview(b"".join(each.to_bytes(8, "big") for each in some))
            block.lost = after < found.taken
            block.position = some[-1]
            yield block

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
