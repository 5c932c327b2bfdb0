"""Two machines: an active store whose changes go to a replica, over a network that delivers bytes in pieces, whenever it likes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import QueueRecord, Recovered
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.journal.journal import LATE_WRITE_SECONDS
from mqbroker.storage.files.recover import read_folder
from mqbroker.storage.mirror.changes import Buffer
from mqbroker.storage.mirror.feed import ReplicaFeed
from mqbroker.storage.mirror.former import empty_folders
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from mqbroker.storage.mirror.replica_folder import ReplicaFolder
from mqbroker.storage.mirror.roots import Roots
from mqclient.wire.message import CoreMessage
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedCrash, SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.support import make_message, settings

PIECES = (1, 7, 100, 5_000, 100_000)


class Machine:
    """A disk, and whatever process uses it."""

    def __init__(self, rng: random.Random) -> None:
        self.disk = SimulatedDisk(rng)
        self.writer = SimulatedDiskWriter()

    def crash(self) -> None:
        """The power fails."""
        self.disk.forget_failures()
        self.disk.crash()
        self.writer = SimulatedDiskWriter()

    def end_process(self) -> None:
        self.disk.forget_failures()
        self.disk.end_process()
        self.writer = SimulatedDiskWriter()


@dataclass
class Known:
    """A message that was committed.  ``ticket`` is that of its batch, ``gone`` that of its acknowledgement; 0 = since the start."""

    body: bytes
    ticket: int
    gone: int | None = None


@dataclass
class Work:
    """What was committed since the last start, and whether anybody was told that it is durable."""

    messages: dict[int, Known] = field(default_factory=dict)
    together: list[list[int]] = field(default_factory=list)
    """Messages of one batch."""
    queues: dict[int, int] = field(default_factory=dict)
    """Tickets of queues."""
    told: int = 0
    """The highest ticket of which somebody was told that it is durable."""


class Pair:
    """``active`` and ``replica`` change their roles with each failover."""

    feed_class = ReplicaFeed
    folder_class = ReplicaFolder

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.active, self.replica = Machine(self.rng), Machine(self.rng)
        self.settings = settings(
            journal_file_size=2048,
            bindings_file_size=1024,
            journal_compact_min_files=2,
            journal_compact_percentage=60,
            purge_page_folders=self.rng.random() < 0.5,
        )
        self.roots = Roots.of(self.settings)
        self.work = Work()
        self.failures: list[str] = []
        self.lost: list[str] = []
        self.feed: ReplicaFeed | None = None
        self.folder: ReplicaFolder | None = None
        self.pipe = bytearray()
        self.answers: deque[int] = deque()
        self.in_sync = False
        self.sent = 0
        self.mark: int | None = None
        self.start()

    # The life of both.

    def start(self) -> None:
        """Let the active machine's process start on its disk, as it is."""
        self.clock = FakeClock()
        self.mirrored = MirroredFileSystem(self.active.disk, self.roots, nullcontext())
        self.store = FileStore(self.settings, self.mirrored, self.active.writer, self.clock, self.rng.randbytes, self.failures.append)
        self.store.open()
        recovered = self.store.load()
        self.adopt(recovered)

    def adopt(self, recovered: Recovered) -> None:
        """What is there now is where the next work begins."""
        self.queues = [queue.queue_id for queue in recovered.queues]
        self.live = {message.message_id: (message, [each.queue_id for each in references]) for message, references in recovered.messages}
        self.work = Work({number: Known(body_of(message), 0) for number, (message, _) in self.live.items()})
        assert self.store.pager is not None
        self.readers = {}
        for folder in self.store.pager.folders():
            for queue_id in folder.queue_ids():
                self.readers[queue_id] = folder.reader(queue_id)
        for queue_id, reader in self.readers.items():
            while (pieces := reader.read()) is not None:
                for paged in pieces:
                    self.live[paged.message.message_id] = (paged.message, [queue_id])
                    self.work.messages[paged.message.message_id] = Known(body_of(paged.message), 0)

    def pair(self) -> None:
        """A replica comes, and a copy begins."""
        self.unpair()
        begin = partial(empty_folders, self.replica.disk, self.roots, self.rng.choice((-1, 0, 1, 2)))
        self.folder = self.folder_class(self.replica.disk, self.roots, self.replica.writer, begin, self.answers.append, self.lost.append)
        self.feed = self.feed_class(
            self.mirrored, self.active.writer, self.store, True, lambda function: function(), self.send, self.copied, self.lost.append
        )
        self.feed.start()

    def unpair(self) -> None:
        """Before anything was demanded: the active one goes on alone."""
        if self.feed is not None:
            self.feed.stop()
        if self.folder is not None:
            self.folder.close(lambda: None)
            self.replica.writer.run()
        self.feed = self.folder = None
        self.pipe.clear()
        self.answers.clear()

    def send(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            self.pipe += buffer
            self.sent += len(buffer)

    def copied(self) -> None:
        assert self.feed is not None
        self.feed.demand()
        self.mark = self.sent
        self.catch_up()

    def catch_up(self) -> None:
        """The replica is in sync once it has answered what was sent when its answers were demanded."""
        if self.feed is not None and self.mark is not None and self.sent - self.feed.behind >= self.mark:
            self.in_sync = True

    # What moves.

    def moves(self) -> list[Callable[[], object]]:
        """What could happen now."""
        moves: list[Callable[[], object]] = []
        if self.clock.due:
            moves.append(self.clock.run_due)
        if self.active.writer.waiting:
            moves.append(self.active.writer.run_one)
        if self.replica.writer.waiting:
            moves.append(self.replica.writer.run_one)
        if self.pipe:
            moves.append(self.deliver)
        if self.answers:
            moves.append(self.answer)
        return moves

    def deliver(self) -> None:
        piece = bytes(self.pipe[: self.rng.choice(PIECES)])
        del self.pipe[: len(piece)]
        if self.folder is not None:
            self.folder.take(piece)

    def answer(self) -> None:
        assert self.feed is not None
        self.feed.answered(self.answers.popleft())
        self.catch_up()

    def move(self) -> bool:
        """Let one thing happen; false when nothing can."""
        moves = self.moves()
        if moves:
            self.rng.choice(moves)()
        elif self.store.synced < self.store.ticket() and self.clock.pending:
            self.clock.advance(LATE_WRITE_SECONDS)
        else:
            return False
        return True

    def settle(self) -> None:
        while self.move():
            pass

    # Work.

    def commit(self, batch: object) -> int:
        work = self.work
        ticket: int = self.store.commit(batch)  # type: ignore[arg-type]
        self.store.when_synced(ticket, self.tell, work, ticket)
        return ticket

    def tell(self, work: Work, ticket: int) -> None:
        work.told = max(work.told, ticket)

    def do_something(self) -> None:
        rng = self.rng
        if not self.queues:
            self.new_queue()
            return
        what = rng.randrange(10)
        if what == 0:
            self.new_queue()
        elif what <= 3:
            self.add([self.small() for _ in range(rng.choice((1, 1, 3)))])
        elif what == 4:
            self.add([self.large()])
        elif what <= 6:
            self.page()
        else:
            self.settle_some()

    def new_queue(self) -> None:
        """With a first message, so that both journals have a part of it."""
        queue_id = self.store.next_id()
        message = self.small()
        batch = self.store.begin()
        batch.put_queue(QueueRecord(queue_id, f"q{queue_id}", "a", 1))
        batch.add_message(message, [queue_id])
        ticket = self.commit(batch)
        self.queues.append(queue_id)
        self.work.queues[queue_id] = ticket
        self.keep([message], queue_id, ticket)

    def small(self) -> Message:
        return make_message(self.store, self.rng.randbytes(self.rng.choice((0, 50, 400, 3000))))

    def large(self) -> Message:
        body = self.store.create_large_body(self.store.next_id())
        for _ in range(self.rng.randrange(1, 5)):
            body.append(self.rng.randbytes(self.rng.choice((1, 900, 5000))))
            if self.rng.random() < 0.5:
                self.move()
        body.complete()
        return Message.of(CoreMessage(message_id=self.store.next_id(), address="a", durable=True), body)

    def add(self, messages: list[Message]) -> None:
        queue_id = self.rng.choice(self.queues)
        batch = self.store.begin()
        for message in messages:
            batch.add_message(message, [queue_id])
        self.keep(messages, queue_id, self.commit(batch))

    def page(self) -> None:
        pager = self.store.pager
        assert pager is not None
        queue_id = self.rng.choice(self.queues)
        folder = pager.folder(f"address {queue_id % 3}")
        messages = [self.large() if self.rng.random() < 0.1 else self.small() for _ in range(self.rng.randint(1, 6))]
        batch = self.store.begin()
        for message in messages:
            batch.add_paged(folder, message, [queue_id], [queue_id], 2000)
        ticket = self.commit(batch)
        self.know(messages, ticket)
        for message in messages:
            if message.large is not None:
                message.large.release()

    def keep(self, messages: list[Message], queue_id: int, ticket: int) -> None:
        self.know(messages, ticket)
        for message in messages:
            self.live[message.message_id] = (message, [queue_id])

    def know(self, messages: list[Message], ticket: int) -> None:
        for message in messages:
            self.work.messages[message.message_id] = Known(body_of(message), ticket)
        self.work.together.append([message.message_id for message in messages])

    def settle_some(self) -> None:
        """Acknowledge some messages, of memory and of pages."""
        rng, pager = self.rng, self.store.pager
        assert pager is not None
        for folder in pager.folders():
            for queue_id in list(folder.queue_ids()):
                reader = self.readers.get(queue_id)
                if reader is None or folder.listener is None:
                    reader = self.readers.setdefault(queue_id, folder.reader(queue_id))
                for paged in reader.read() or []:
                    self.live[paged.message.message_id] = (paged.message, [queue_id])
        some = rng.sample(sorted(self.live), min(len(self.live), rng.randint(1, 12)))
        batch = self.store.begin()
        gone = []
        for number in some:
            message, queue_ids = self.live.pop(number)
            gone.append(message)
            for queue_id in queue_ids:
                batch.acknowledge(queue_id, message)
        if some:
            ticket = self.commit(batch)
            for message in gone:
                self.work.messages[message.message_id].gone = ticket
                if message.large is not None:
                    message.large.release()

    # The end of a machine.

    def fail_over(self) -> None:
        """The replica takes the place of the active machine, with what its disk has; the other one is its replica then."""
        self.active, self.replica = self.replica, self.active
        self.go_on()

    def go_on(self) -> None:
        self.feed = self.folder = None
        self.in_sync = False
        self.sent, self.mark = 0, None
        self.pipe.clear()
        self.answers.clear()
        told = self.work
        found = read_folder(self.active.disk, self.settings)
        self.check(found, told)
        self.start()

    def check(self, found: Recovered, work: Work) -> None:
        """Is everything there that somebody was told of, and nothing back that was acknowledged?"""
        messages = {message.message_id: message for message, _ in found.messages}
        queues = {queue.queue_id for queue in found.queues}
        for queue_id, ticket in work.queues.items():
            assert queue_id in queues or ticket > work.told, f"queue {queue_id} is lost"
        for number, known in work.messages.items():
            if known.ticket <= work.told and known.gone is None:
                assert number in messages, f"message {number} of ticket {known.ticket} is lost, {work.told} was told"
            if known.gone is not None and known.gone <= work.told:
                assert number not in messages, f"message {number} is back, although it was acknowledged"
        for number, message in messages.items():
            assert number in work.messages, f"nobody has sent message {number}"
            assert body_of(message) == work.messages[number].body
        for batch in work.together:
            left = [number for number in batch if work.messages[number].gone is None]
            assert not left or len({number in messages for number in left}) == 1, f"{batch} is there by half"
        for _, references in found.messages:
            assert all(reference.queue_id in queues for reference in references), "a message without its queue"


def body_of(message: Message) -> bytes:
    return message.buffer if message.large is None else message.large.read(0, message.large.size)


def crashes(function: Callable[[], object]) -> bool:
    """Call it; does the machine stop on the way?"""
    try:
        function()
    except SimulatedCrash:
        return True
    return False
