"""The store on this machine's file system and with its thread."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import shutil
import struct
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import TestCase, mock

from twisted.internet import defer, reactor
from twisted.trial.unittest import TestCase as TrialTestCase
from zope.interface.interface import InterfaceClass

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import QueueRecord, Recovered
from mqbroker.process import threads
from mqbroker.process.clocks import ReactorClock
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.process.threads import ThreadedDiskWriter
from mqbroker.storage.errors import StoreLockedError
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.settings import StoreSettings
from mqclient.wire.message import CoreMessage, encode_message


class Folder:
    """A folder that goes with the test."""

    addCleanup: Any

    def folder(self) -> str:
        path = tempfile.mkdtemp(prefix="mqbroker-test-")
        self.addCleanup(shutil.rmtree, path, True)
        return path


class LocalFileSystemTests(Folder, TestCase):
    def setUp(self) -> None:
        self.root = self.folder()
        self.files = LocalFileSystem()

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def test_what_is_written_is_read(self) -> None:
        file = self.files.open(self.path("a"))
        file.write(3, b"def")
        file.write(0, b"abc")
        file.sync()
        file.close()
        self.assertEqual(self.files.read(self.path("a")), b"abcdef")
        self.assertEqual(self.files.read(self.path("a"), 2, 3), b"cde")
        self.assertEqual(self.files.read(self.path("a"), 9, 3), b"")
        self.assertEqual(self.files.size(self.path("a")), 6)

    def test_a_write_that_comes_soon_is_a_step_that_writes_and_syncs(self) -> None:
        file = self.files.open(self.path("a"))
        self.addCleanup(file.close)
        step = file.write_soon(2, b"abc")
        self.assertEqual(self.files.size(self.path("a")), 0)
        with mock.patch("os.fdatasync") as fdatasync:
            step()
        self.assertEqual((self.files.read(self.path("a")), fdatasync.call_count), (b"\0\0abc", 1))

    def test_opening_again_keeps_the_content(self) -> None:
        for text in (b"one", b"two"):
            file = self.files.open(self.path("a"))
            file.write(self.files.size(self.path("a")), text)
            file.close()
        self.assertEqual(self.files.read(self.path("a")), b"onetwo")

    def test_allocated_room_reads_as_zeros(self) -> None:
        file = self.files.open(self.path("a"))
        file.write(0, b"x")
        file.allocate(10_000)
        file.close()
        self.assertEqual(self.files.read(self.path("a")), b"x" + bytes(9999))

    def test_names(self) -> None:
        self.assertEqual(self.files.list(self.path("none")), [])
        self.files.make_directory(self.path("d/e"))
        self.files.make_directory(self.path("d/e"))
        for name in ("b", "a"):
            self.files.open(self.path(f"d/{name}")).close()
        self.files.rename(self.path("d/b"), self.path("d/c"))
        self.files.sync_directory(self.path("d"))
        self.assertEqual(self.files.list(self.path("d")), ["a", "c", "e"])
        self.files.remove(self.path("d/c"))
        self.assertFalse(self.files.exists(self.path("d/c")))
        self.assertTrue(self.files.exists(self.path("d")))
        with self.assertRaises(FileNotFoundError):
            self.files.remove(self.path("d/c"))

    def test_a_full_device_is_told(self) -> None:
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        file = self.files.open("/dev/full")
        self.addCleanup(file.close)
        with self.assertRaises(OSError) as caught:
            file.write(0, b"x")
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertEqual(caught.exception.filename, "/dev/full")
        self.assertRegex(str(caught.exception), r"No space left on device \(\d+ bytes are free, 1 are wanted\): '/dev/full'")

    def test_a_lock_excludes_everybody_until_it_is_released(self) -> None:
        """Others in this process, processes with plain POSIX locks as Java takes them; and closing another descriptor keeps it."""
        lock = self.files.lock(self.path("lock"))
        assert lock is not None
        self.assertIsNone(self.files.lock(self.path("lock")))
        self.files.open(self.path("lock")).close()
        self.assertIsNone(self.files.lock(self.path("lock")))
        with open(self.path("lock"), "r+b") as other, self.assertRaises(OSError):
            fcntl.fcntl(other, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        lock.release()
        again = self.files.lock(self.path("lock"))
        assert again is not None
        again.release()


class ThreadedDiskWriterTests(TestCase):
    def test_batches_run_in_order_with_one_hand_back_each(self) -> None:
        handed: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        writer = ThreadedDiskWriter(lambda function, *args: handed.append((function, args)))
        ran: list[object] = []
        error = OSError("broken")

        def fail() -> None:
            raise error

        done: list[object] = []
        writer.submit([lambda: ran.append(1), lambda: ran.append(threading.current_thread() is threading.main_thread())], done.append)
        writer.submit([fail, lambda: ran.append("never")], done.append)
        writer.submit([lambda: ran.append(3)], done.append)
        self.assertEqual(done, [])
        writer.stop()
        self.assertEqual(ran, [1, False, 3])
        for function, args in handed:
            function(*args)
        self.assertEqual(done, [None, error, None])

    def test_it_is_idle_when_every_step_has_run(self) -> None:
        begun, goes_on = threading.Event(), threading.Event()
        writer = ThreadedDiskWriter(lambda function, *args: None)
        self.assertTrue(writer.idle)
        writer.submit([begun.set, goes_on.wait], lambda _: None)
        begun.wait(30)
        self.assertFalse(writer.idle)
        goes_on.set()
        writer.stop()
        self.assertTrue(writer.idle)

    def test_it_can_start_again(self) -> None:
        ran: list[int] = []
        writer = ThreadedDiskWriter(lambda function, *args: None)
        writer.stop()
        for number in range(3):
            writer.submit([lambda number=number: ran.append(number)], lambda _: None)  # type: ignore[misc]
            writer.stop()
        self.assertEqual(ran, [0, 1, 2])

    def test_the_end_waits_for_work_that_hangs_no_longer_than_a_while(self) -> None:
        """Once a stop waited for ever for a disk that did not answer."""
        goes_on, ran = threading.Event(), []
        writer = ThreadedDiskWriter(lambda function, *args: None, "the one that hangs")
        writer.submit([goes_on.wait, lambda: ran.append("late")], lambda _: None)
        with mock.patch.object(threads, "CLOSE_SECONDS", 0.05):
            self.assertFalse(writer.close())
        hanging = [thread for thread in threading.enumerate() if thread.name == "the one that hangs"]
        goes_on.set()
        for thread in hanging:
            thread.join(30)
        self.assertEqual((len(hanging), ran), (1, ["late"]))

    def test_another_thread_takes_the_place_of_one_that_hangs(self) -> None:
        goes_on, ran = threading.Event(), []
        writer = ThreadedDiskWriter(lambda function, *args: None)
        writer.submit([goes_on.wait], lambda _: None)
        with mock.patch.object(threads, "CLOSE_SECONDS", 0.05):
            writer.stop()
        writer.submit([lambda: ran.append("next")], lambda _: None)
        writer.stop()
        self.assertEqual(ran, ["next"])
        goes_on.set()


class ReactorDiskWriterTests(TrialTestCase):
    """The writer on the loop of a reactor, with its own descriptor there."""

    @defer.inlineCallbacks
    def check(self) -> Any:
        batches = 50
        called: list[object] = []
        finished: defer.Deferred[None] = defer.Deferred()
        broken = OSError("broken")

        def run(done: Callable[..., object], *args: object) -> None:
            self.assertIs(threading.current_thread(), threading.main_thread())
            done(*args)

        def fail() -> None:
            raise broken

        def done(number: int, error: object) -> None:
            called.append((number, error))
            if number == batches:
                finished.callback(None)
            if number == 1:
                raise ValueError("the next ones are called all the same")

        writer = ThreadedDiskWriter.of_reactor(reactor, run)
        self.addCleanup(writer.close)
        for number in range(1, batches + 1):
            writer.submit([fail] if number == 2 else [], partial(done, number))
        self.assertEqual(called, [])
        yield finished
        self.assertEqual(called, [(number, broken if number == 2 else None) for number in range(1, batches + 1)])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_batches_come_back_in_order_on_the_loop(self) -> defer.Deferred[None]:
        result: defer.Deferred[None] = self.check()
        return result

    def test_the_same_without_eventfd(self) -> defer.Deferred[None]:
        if hasattr(os, "eventfd"):
            eventfd = os.eventfd
            del os.eventfd
            self.addCleanup(setattr, os, "eventfd", eventfd)
        result: defer.Deferred[None] = self.check()
        return result

    def test_the_same_on_a_reactor_that_takes_no_descriptors(self) -> defer.Deferred[None]:
        self.patch(threads, "IReactorFDSet", InterfaceClass("nothing"))
        result: defer.Deferred[None] = self.check()
        return result

    @defer.inlineCallbacks
    def test_what_has_not_come_back_when_it_closes_is_called_later(self) -> Any:
        finished: defer.Deferred[object] = defer.Deferred()
        writer = ThreadedDiskWriter.of_reactor(reactor, lambda done, error: done(error))
        writer.submit([], finished.callback)
        writer.close()
        writer.close()
        self.assertFalse(finished.called)
        self.assertIsNone((yield finished))


class FileStoreOnDiskTests(Folder, TrialTestCase):
    """The whole store under a real reactor."""

    def setUp(self) -> None:
        self.root = self.folder()
        self.writer = ThreadedDiskWriter.of_reactor(reactor, lambda done, error: done(error))
        self.addCleanup(self.writer.close)

    def make(self) -> FileStore:
        settings = StoreSettings(f"{self.root}/journal", f"{self.root}/bindings", f"{self.root}/large", journal_file_size=64 * 1024)
        return FileStore(settings, LocalFileSystem(), self.writer, ReactorClock(reactor), os.urandom)

    def start(self) -> tuple[FileStore, Recovered]:
        store = self.make()
        store.open()
        return store, store.load()

    async def stop(self, store: FileStore) -> None:
        stopped: defer.Deferred[None] = defer.Deferred()
        store.stop(lambda: stopped.callback(None))
        await stopped

    def test_messages_survive_restarts(self) -> defer.Deferred[None]:
        return defer.ensureDeferred(self._messages_survive_restarts())

    async def _messages_survive_restarts(self) -> None:
        store, recovered = self.start()
        node_id = store.node_id
        queue_id = store.next_id()
        batch = store.begin()
        batch.put_queue(QueueRecord(queue_id, "q", "a", 1))
        store.commit(batch)
        messages = []
        for number in range(500):
            encoded = encode_message(CoreMessage(address="a", durable=True, body=b"%d" % number * 300))
            messages.append(Message.received(encoded, store.next_id()))
            batch = store.begin()
            batch.add_message(messages[-1], [queue_id])
            store.commit(batch)
        body = store.create_large_body(store.next_id())
        for _ in range(50):
            body.append(bytes(100_000))
        body.complete()
        large = Message.of(CoreMessage(message_id=store.next_id(), address="a", durable=True), body)
        batch = store.begin()
        batch.add_message(large, [queue_id])
        synced: defer.Deferred[None] = defer.Deferred()
        store.when_synced(store.commit(batch), synced.callback, None)
        await synced
        with self.assertRaises(StoreLockedError):
            self.make().open()
        await self.stop(store)
        store, recovered = self.start()
        self.assertEqual(store.node_id, node_id)
        self.assertEqual([message.buffer for message, _ in recovered.messages], [each.buffer for each in (*messages, large)])
        recovered_body = recovered.messages[-1][0].large
        assert recovered_body is not None
        self.assertEqual(recovered_body.read(0, 1 << 30), bytes(5_000_000))
        batch = store.begin()
        for message, references in recovered.messages:
            batch.acknowledge(references[0].queue_id, message)
        store.commit(batch)
        recovered_body.release()
        await self.stop(store)
        store, recovered = self.start()
        self.assertEqual(recovered.messages, [])
        await self.stop(store)
        self.assertLessEqual(len(list(pathlib.Path(self.root, "journal").glob("*.mqj"))), 3)
        self.assertEqual(os.listdir(f"{self.root}/large"), [])

    def test_a_failing_disk_is_told_on_the_loop(self) -> defer.Deferred[None]:
        return defer.ensureDeferred(self._a_failing_disk_is_told_on_the_loop())

    async def _a_failing_disk_is_told_on_the_loop(self) -> None:
        store, _ = self.start()
        failed: defer.Deferred[str] = defer.Deferred()
        store.on_failure = failed.callback
        shutil.rmtree(f"{self.root}/journal")
        for _ in range(3):
            batch = store.begin()
            batch.add_message(Message.received(encode_message(CoreMessage(address="a", body=bytes(50_000))), store.next_id()), [1])
            store.commit(batch)
        store.flush()
        self.assertIn("FileNotFoundError", await failed)
        self.assertTrue(store.failed)
        self.flushLoggedErrors()
        await self.stop(store)
