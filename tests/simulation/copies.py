"""Copies that lose their power: at moments of a run the disks are copied, the machines of the copies stop, and their brokers start.

The run itself goes on as if nothing had happened: all chance comes from a generator of its own.  What a start finds on the copies must be
what clients were told by then, see :mod:`tests.simulation.survival`.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.readers.readers import SETTING
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.errors import StorageError
from mqbroker.storage.files.filestore import FileStore
from mqclient.wire.message import KEY_LARGE_COMPRESSED, KEY_ORIGINAL_QUEUE, KEY_SCHEDULED_DELIVERY
from tests.simulation import diverting
from tests.simulation.broker import BrokerNode
from tests.simulation.cluster.bridging import OUT
from tests.simulation.model import Copy, Ledger
from tests.simulation.policies import DIVERT
from tests.simulation.survival import Found, Kept, judge
from tests.simulation.workload import IDENTITY
from tests.simulation.world import World

OF_CONFIRMATIONS, OF_EVENTS = 0.5, 0.003
"""The parts of them after which copies are made, while there is one broker."""
MOMENTS_MAX = 100
AGAIN = 0.2
"""The part of the copies that lose their power once more right after their start."""
INTERNAL = "$.artemis.internal.sf."
"""How the queues begin in which messages wait for other brokers."""


class Copies:
    """Makes the copies of a run, and reports what is wrong with them.  ``moments`` is how often it has."""

    def __init__(self, world: World, ledger: Ledger, nodes: Sequence[BrokerNode]) -> None:
        self._world = world
        self._ledger = ledger
        self._nodes = nodes
        self._rng = world.generator("copies")
        self.moments = 0
        ledger.on_confirmed = self._confirmed
        world.watch(self._after_event)

    def _confirmed(self) -> None:
        if self._rng.random() < OF_CONFIRMATIONS / len(self._nodes):
            self.look()

    def _after_event(self) -> int:
        self.look()
        return 1 + int(self._rng.expovariate(OF_EVENTS / len(self._nodes)))

    def look(self) -> None:
        """Copy what is on the disks now, let all copies crash and start, and compare."""
        judged = not self._world.violations and all(node.node_id and not node.in_damage for node in self._nodes)
        if not judged or self.moments == MOMENTS_MAX:
            return
        self.moments += 1
        kept = Kept()
        for node in self._nodes:
            problem = self._start(node, kept)
            if problem is not None:
                self._world.violation(f"after a loss of power {node.name} would not start: {problem}")
                return
        self.all_read(kept)
        for text in judge(self._ledger, kept, self._world.now):
            self._world.violation(f"after a loss of power {text}")

    def all_read(self, kept: Kept) -> None:
        """All copies have started: what one of them decides for another may follow."""

    def _start(self, node: BrokerNode, kept: Kept) -> str | None:
        """Add what a copy of the broker finds; returns why it does not start."""
        disk = node.disk.copy(self._rng)
        disk.crash()
        try:
            store, recovered = load_copy(node, disk, self._rng)
            if self._rng.random() < AGAIN:
                disk.crash()
                store, recovered = load_copy(node, disk, self._rng)
            self.read(node, store, recovered, kept)
        except (StorageError, OSError) as error:
            return str(error)
        return None

    def read(self, node: BrokerNode, store: FileStore, recovered: Recovered, kept: Kept) -> None:
        names = {queue.queue_id: queue.name for queue in recovered.queues}
        kept.queues.update(names.values())
        kept.settled.update({(node.name, queue): settled for queue, settled in settled_by_readers(recovered).items()})
        kept.remembered.update(entry.duplicate_id.decode("utf-16-le", "replace") for entry in recovered.duplicate_ids)
        if node.plan.redelivery_delay:
            kept.delayed.add("jobs")
        kept.next_ids[node.name] = store.next_id()
        for branch in recovered.branches:
            for message, _ in branch.messages:
                kept.undecided.add(str(message.property(IDENTITY)))
        for message, queue_id, scheduled, count in stored_messages(store, recovered):
            queue = names.get(queue_id)
            if message.property(IDENTITY) is None or queue is None:
                continue
            copy = copy_in(message, queue)
            if queue.startswith(INTERNAL) or queue == OUT or copy[0].startswith(INTERNAL) or copy in node.moving:
                kept.moving.add(copy[1])
                continue
            found = Found(queue, node.name, message.message_id, scheduled, count, self.body_of(message))
            kept.copies.setdefault(copy, []).append(found)

    def body_of(self, message: Message) -> bytes:
        """The body that a client would read."""
        return body_in(message)


def load_copy(node: BrokerNode, disk: FileSystem, rng: random.Random) -> tuple[FileStore, Recovered]:
    """What a broker finds on a copy of the disk of ``node``.  Raises StorageError and OSError when it does not start."""
    idle = _Idle(node)

    def failed(reason: str) -> None:
        raise StorageError(reason)

    store = node.store_class(node.store_settings, disk, idle, idle, rng.randbytes, failed)
    store.open()
    recovered = store.load()
    if store.node_id != node.node_id:
        raise StorageError(f"the node id would be {store.node_id} and not {node.node_id}")
    return store, recovered


def settled_by_readers(recovered: Recovered) -> dict[str, int]:
    """By queue: up to where its readers have settled.  A broker removes that after the answer, or after its next start."""
    found: dict[str, int] = {}
    for (kind, _), text in recovered.settings.items():
        if kind == SETTING:
            position = json.loads(text)
            settled = position["settled"] if position["settled"] > position["begin"] else 0
            found[position["queue"]] = min(settled, found.get(position["queue"], settled))
    return found


def copy_in(message: Message, queue: str) -> Copy:
    """Which copy a message in this queue of a broker is, also as a dead letter."""
    origin = message.property(KEY_ORIGINAL_QUEUE)
    if origin is None or origin == DIVERT or origin in diverting.NAMES:
        origin = queue
    return str(origin), str(message.property(IDENTITY))


def stored_messages(store: FileStore, recovered: Recovered) -> Iterator[tuple[Message, int, int, int]]:
    """Message, queue id, schedule (ms, 0 = at once), delivery count: those of the journal, and those in pages."""
    for message, references in recovered.messages:
        for reference in references:
            yield message, reference.queue_id, reference.scheduled, reference.delivery_count
    for folder in store.pager.folders() if store.pager is not None else ():
        for queue_id in sorted(folder.queue_ids()):
            reader = folder.reader(queue_id)
            while (piece := reader.read()) is not None:
                for paged in piece:
                    due = paged.scheduled
                    if due is None:
                        due = int(str(paged.message.property(KEY_SCHEDULED_DELIVERY) or 0))
                    yield paged.message, queue_id, due, paged.delivery_count


def body_in(message: Message) -> bytes:
    """The body that a client would read; nothing when it cannot be decompressed."""
    large = message.large
    body = bytes(message.decoded().body) if large is None else large.read(0, large.size)
    if not message.property(KEY_LARGE_COMPRESSED):
        return body
    try:
        return zlib.decompress(body)
    except zlib.error:
        return b""


class _Idle:
    """Clock and disk writer of a broker that starts, and does nothing after that."""

    def __init__(self, node: BrokerNode) -> None:
        self.monotonic = node.process.monotonic
        self.wall_ms = node.process.wall_ms

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> _Idle:
        return self

    def cancel(self) -> None:
        pass

    @property
    def idle(self) -> bool:
        return True

    def submit(self, steps: Sequence[Any], done: Callable[..., object]) -> None:
        pass
