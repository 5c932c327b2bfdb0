"""A store and its replica on this machine's file system, each with a disk thread of its own."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.internet import defer, reactor
from twisted.trial.unittest import TestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import QueueRecord
from mqbroker.process.clocks import ReactorClock
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.process.threads import ThreadedDiskWriter
from mqbroker.storage.files import largebodies
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.recover import read_folder
from mqbroker.storage.mirror.changes import Buffer
from mqbroker.storage.mirror.feed import ReplicaFeed
from mqbroker.storage.mirror.former import empty_folders
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from mqbroker.storage.mirror.replica_folder import ReplicaFolder
from mqbroker.storage.mirror.roots import Roots
from mqbroker.storage.settings import StoreSettings
from mqclient.wire.message import CoreMessage, encode_message

any_reactor: Any = reactor


def settings_below(folder: str) -> StoreSettings:
    names = ("journal", "bindings", "large", "paging")
    return StoreSettings(*(f"{folder}/{name}" for name in names), journal_file_size=200_000, journal_compact_min_files=3)


class ThreadTests(TestCase):
    def setUp(self) -> None:
        self.root = tempfile.mkdtemp(prefix="mqbroker-test-")
        self.addCleanup(shutil.rmtree, self.root, True)
        self.settings, self.replica_settings = settings_below(f"{self.root}/a"), settings_below(f"{self.root}/b")
        self.writer, self.replica_writer = (ThreadedDiskWriter.of_reactor(reactor, _call) for _ in range(2))
        for writer in (self.writer, self.replica_writer):
            self.addCleanup(writer.close)
        files = LocalFileSystem()
        self.mirrored = MirroredFileSystem(files, Roots.of(self.settings), threading.Lock())
        self.failures: list[str] = []
        self.store = FileStore(self.settings, self.mirrored, self.writer, ReactorClock(reactor), os.urandom, self.failures.append)
        self.store.open()
        self.store.load()
        roots = Roots.of(self.replica_settings)
        begin = partial(empty_folders, files, roots, 1)
        self.folder = ReplicaFolder(files, roots, self.replica_writer, begin, self.answer, self.failures.append)
        self.copied: defer.Deferred[None] = defer.Deferred()
        self.feed = ReplicaFeed(
            self.mirrored,
            self.writer,
            self.store,
            True,
            any_reactor.callFromThread,
            self.send,
            partial(self.copied.callback, None),
            self.failures.append,
        )

    def send(self, buffers: Sequence[Buffer]) -> None:
        any_reactor.callLater(0, self.folder.take, b"".join(map(bytes, buffers)))

    def answer(self, number: int) -> None:
        any_reactor.callLater(0, self.feed.answered, number)

    def test_what_was_acknowledged_is_on_the_replica(self) -> defer.Deferred[None]:
        return defer.ensureDeferred(self._what_was_acknowledged_is_on_the_replica())

    async def _what_was_acknowledged_is_on_the_replica(self) -> None:
        """Also the chunks that the loop writes itself when the disk is slow."""
        store = self.store
        queue_id = store.next_id()
        batch = store.begin()
        batch.put_queue(QueueRecord(queue_id, "q", "a", 1))
        store.commit(batch)
        messages = [self.commit(queue_id) for _ in range(300)]
        self.patch(largebodies, "IN_FLIGHT_MAX", 50_000)
        self.feed.start()
        for number in range(1500):
            messages.append(self.commit(queue_id, number % 100 == 0))
            if number % 3 == 0:
                batch = store.begin()
                batch.acknowledge(queue_id, messages.pop(0))
                store.commit(batch)
            if number % 20 == 0:
                await self.turn()
        await self.copied
        self.feed.demand()
        for number in range(300):
            messages.append(self.commit(queue_id, number % 50 == 0))
            if number % 20 == 0:
                await self.turn()
        synced: defer.Deferred[None] = defer.Deferred()
        store.when_synced(store.ticket(), synced.callback, None)
        await synced
        self.assertEqual(self.failures, [])
        self.assertEqual(self.feed.progress.done, self.feed.progress.all)
        self.assertGreater(len(list(Path(self.root, "a/journal").glob("*.mqj"))), 3)
        await self.closed(store.stop)
        self.feed._flush()
        while self.feed.behind:
            await self.turn()
        await self.closed(self.folder.close)
        self.compare()
        found = read_folder(LocalFileSystem(), self.replica_settings)
        self.assertEqual([message.buffer for message, _ in found.messages], [message.buffer for message in messages])

    def commit(self, queue_id: int, large: bool = False) -> Message:
        store = self.store
        if large:
            body = store.create_large_body(store.next_id())
            for _ in range(20):
                body.append(os.urandom(10_000))
            body.complete()
            message = Message.of(CoreMessage(message_id=store.next_id(), address="a", durable=True), body)
        else:
            message = Message.received(encode_message(CoreMessage(address="a", durable=True, body=os.urandom(1000))), store.next_id())
        batch = store.begin()
        batch.add_message(message, [queue_id])
        store.commit(batch)
        return message

    def compare(self) -> None:
        """Everything is the same but what belongs to the broker alone."""
        sides = []
        for name in "ab":
            top = Path(self.root, name)
            files = {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}
            sides.append({path: content for path, content in files.items() if "/server" not in path})
        self.assertEqual(set(sides[0]), set(sides[1]))
        self.assertEqual([path for path in sides[0] if sides[0][path] != sides[1][path]], [])

    def closed(self, close: Callable[[Callable[[], object]], object]) -> defer.Deferred[None]:
        done: defer.Deferred[None] = defer.Deferred()
        close(partial(done.callback, None))
        return done

    def turn(self) -> defer.Deferred[None]:
        done: defer.Deferred[None] = defer.Deferred()
        any_reactor.callLater(0, done.callback, None)
        return done

    def test_folders_of_others_are_left_out(self) -> defer.Deferred[None]:
        return defer.ensureDeferred(self._folders_of_others_are_left_out())

    async def _folders_of_others_are_left_out(self) -> None:
        Path(self.root, "a/journal/lost+found").mkdir()
        Path(self.root, "a/paging/note.txt").write_text("of somebody else")
        with mock.patch.object(self.feed, "_lost") as lost:
            self.feed.start()
            await self.copied
            lost.assert_not_called()
        self.assertFalse(Path(self.root, "b/journal/lost+found").exists())
        self.feed.stop()
        await self.closed(self.store.stop)
        await self.closed(self.folder.close)


def _call(function: Callable[..., object], *args: object) -> object:
    return function(*args)
