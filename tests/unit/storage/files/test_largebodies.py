"""Bodies of large messages: bounded while they come in, durable before they are named, gone when nobody needs them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest import TestCase
from unittest.mock import patch

from mqbroker.messaging.message.message import Message
from mqbroker.storage.files.largebodies import IN_FLIGHT_MAX, OPEN_FILES_MAX, FileLargeBody
from mqclient.wire.message import CoreMessage
from tests.support.disk import SimulatedFile
from tests.unit.storage.support import LARGE, Rig, ids


class LargeBodyTests(TestCase):
    def setUp(self) -> None:
        self.rig = Rig()
        self.rig.start()
        self.queue = self.rig.queue()
        self.rig.settle()

    def body(self, *chunks: bytes) -> FileLargeBody:
        body = self.rig.store.create_large_body(self.rig.store.next_id())
        for chunk in chunks:
            body.append(chunk)
        body.complete()
        return body

    def message(self, body: FileLargeBody) -> Message:
        return Message.of(CoreMessage(message_id=self.rig.store.next_id(), address="a", durable=True), body)

    def store(self, *messages: Message) -> None:
        batch = self.rig.store.begin()
        for message in messages:
            batch.add_message(message, [self.queue])
        self.rig.store.commit(batch)

    def test_it_survives_a_crash_once_acknowledged(self) -> None:
        message = self.message(self.body(b"a" * 5000, b"b" * 5000))
        self.store(message)
        self.rig.settle()
        recovered = self.rig.crash()
        self.assertEqual(ids(recovered), [message.message_id])
        body = recovered.messages[0][0].large
        assert body is not None
        self.assertEqual(body.read(0, 20_000), b"a" * 5000 + b"b" * 5000)
        self.assertEqual(body.size, 10_000)

    def test_an_empty_body_survives(self) -> None:
        message = self.message(self.body())
        self.store(message)
        recovered = self.rig.restart()
        body = recovered.messages[0][0].large
        assert body is not None
        self.assertEqual((body.size, body.read(0, 10)), (0, b""))

    def test_it_goes_with_its_message(self) -> None:
        body = self.body(b"x")
        message = self.message(body)
        self.store(message)
        self.rig.settle()
        self.rig.acknowledge(self.queue, message)
        body.release()
        self.assertEqual(len(self.rig.disk.list(LARGE)), 1)
        self.rig.settle()
        self.assertEqual(self.rig.disk.list(LARGE), [])

    def test_it_stays_until_the_acknowledgement_is_durable(self) -> None:
        """Whichever comes first, the release or the commit: a crash before the sync must find the message with its body."""
        for release_first in (True, False):
            body = self.body(b"x" * 100)
            message = self.message(body)
            self.store(message)
            self.rig.settle()
            if release_first:
                body.release()
                self.rig.settle()
                self.assertEqual(len(self.rig.disk.list(LARGE)), 1)
            self.rig.acknowledge(self.queue, message)
            if not release_first:
                body.release()
            self.rig.clock.run_due()
            self.assertEqual(len(self.rig.disk.list(LARGE)), 1)
            self.rig.settle()
            self.assertEqual(self.rig.disk.list(LARGE), [])

    def test_copies_share_it(self) -> None:
        body = self.body(b"shared")
        message, copy = self.message(body), self.message(body)
        body.hold()
        self.store(message, copy)
        self.rig.acknowledge(self.queue, message)
        body.release()
        recovered = self.rig.restart()
        self.assertEqual(ids(recovered), [copy.message_id])
        body = recovered.messages[0][0].large  # type: ignore[assignment]
        self.assertEqual(body.read(0, 10), b"shared")
        self.rig.acknowledge(self.queue, recovered.messages[0][0])
        body.release()
        self.rig.settle()
        self.assertEqual(self.rig.disk.list(LARGE), [])

    def test_recovered_copies_share_it(self) -> None:
        body = self.body(b"shared")
        messages = [self.message(body), self.message(body)]
        body.hold()
        self.store(*messages)
        recovered = self.rig.restart()
        (first, _), (second, _) = recovered.messages
        self.assertIs(first.large, second.large)
        for message in (first, second):
            self.assertEqual(len(self.rig.disk.list(LARGE)), 1)
            self.rig.acknowledge(self.queue, message)
            assert message.large is not None
            message.large.release()
            self.rig.settle()
        self.assertEqual(self.rig.disk.list(LARGE), [])

    def test_one_that_no_message_used_goes_at_once(self) -> None:
        """An upload that was given up, finished or not."""
        body = self.rig.store.create_large_body(self.rig.store.next_id())
        body.append(b"half")
        body.release()
        self.body(b"whole").release()
        self.rig.settle()
        self.assertEqual((self.rig.disk.list(LARGE), self.rig.disk.open_files), ([], 2))

    def test_an_unfinished_upload_leaves_no_open_file_after_the_end(self) -> None:
        for end in ("stop", "abort"):
            self.rig.store.create_large_body(self.rig.store.next_id()).append(b"half")
            if end == "stop":
                self.rig.stop()
            else:
                self.rig.store.abort()
                self.rig.settle()
            self.assertEqual(self.rig.disk.open_files, 0)
            self.rig.start()

    def test_unfinished_uploads_hold_few_open_files(self) -> None:
        """However many clients begin one and send no more: a process that has no descriptor left cannot write its journal either."""
        bodies = [self.rig.store.create_large_body(self.rig.store.next_id()) for _ in range(3 * OPEN_FILES_MAX)]
        for piece in (b"half ", b"of it"):
            for body in bodies:
                body.append(piece)
                self.rig.writer.run_one()
                self.assertLessEqual(self.rig.disk.open_files, OPEN_FILES_MAX + 2)
        self.rig.settle()
        self.assertEqual({body.read(0, 20) for body in bodies}, {b"half of it"})
        for body in bodies:
            body.complete()
        self.rig.settle()
        self.assertEqual(self.rig.disk.open_files, 2)

    def test_one_that_is_not_on_the_disk_yet_can_be_read(self) -> None:
        body = self.rig.store.create_large_body(self.rig.store.next_id())
        body.append(b"half ")
        body.append(b"of it")
        self.assertEqual((body.read(0, 20), body.read(3, 4)), (b"half of it", b"f of"))

    def test_orphans_go_at_the_start(self) -> None:
        self.body(b"never named")
        self.rig.settle()
        self.rig.disk.open(f"{LARGE}/readme.txt").close()
        self.rig.crash()
        self.assertNotIn(".msg", "".join(self.rig.disk.list(LARGE)))

    def test_foreign_files_are_left_alone(self) -> None:
        self.rig.disk.open(f"{LARGE}/readme.txt").close()
        self.rig.disk.sync_directory(LARGE)
        self.rig.restart()
        self.assertEqual(self.rig.disk.list(LARGE), ["readme.txt"])

    def test_what_waits_for_the_disk_is_bounded(self) -> None:
        """A stalled disk writer: beyond the bound chunks go to the file at once, and all can be read all the time."""
        body = self.rig.store.create_large_body(self.rig.store.next_id())
        chunk = bytes(range(256)) * 4096
        count = IN_FLIGHT_MAX // len(chunk) + 4
        for _ in range(count):
            body.append(chunk)
        self.assertLessEqual(self.rig.store.backlog, IN_FLIGHT_MAX)
        self.assertGreater(self.rig.store.backlog, IN_FLIGHT_MAX // 2)
        self.assertEqual(body.read((count - 2) * len(chunk), len(chunk)), chunk)
        self.assertEqual(body.read(len(chunk) // 2, len(chunk)), chunk[len(chunk) // 2 :] + chunk[: len(chunk) // 2])
        self.rig.settle()
        self.assertEqual(self.rig.store.backlog, 0)
        self.assertEqual(body.read(0, body.size), chunk * count)

    def test_a_damaged_file_is_told(self) -> None:
        body = self.body(b"x" * 100)
        self.store(self.message(body))
        self.rig.settle()
        self.rig.stop()
        path = f"{LARGE}/{self.rig.disk.list(LARGE)[0]}"
        self.rig.disk.remove(path)
        self.rig.disk.open(path).write(0, b"x" * 99)
        recovered = self.rig.start()
        large = recovered.messages[0][0].large
        assert large is not None
        self.assertEqual(large.read(0, 99), b"x" * 99)
        with self.assertRaisesRegex(OSError, "1 bytes too early"):
            large.read(0, 100)

    def test_a_chunk_that_cannot_be_written_ends_the_store(self) -> None:
        """And no record of a message with that body is written after it, although it was committed before the failure was known."""
        self.rig.disk.fail("write", OSError(errno.ENOSPC, "full"))
        body = self.body(b"x" * 100)
        message = self.message(body)
        self.store(message)
        self.rig.store.flush()
        self.rig.settle()
        self.assertTrue(self.rig.store.failed)
        self.assertEqual(len(self.rig.failures), 1)
        self.assertEqual(ids(self.rig.crash()), [])

    def test_chunks_that_a_failed_write_has_kept_back_are_missing_too(self) -> None:
        """They were to be written together with one that fails: no record names their body, whether bodies are synced or not."""
        for sync in (True, False):
            for operation in (SimulatedFile.write, SimulatedFile.close):
                self.rig = Rig(journal_datasync=sync)
                self.rig.start()
                self.queue = self.rig.queue()
                self.rig.settle()
                self.body(b"the disk writer is busy with this one")
                self.body(b"that fails")
                self.store(self.message(self.body(b"that is not tried")))
                with patch.object(SimulatedFile, operation.__name__, _second_fails(operation)):
                    self.rig.settle()
                self.assertTrue(self.rig.store.failed)
                self.assertEqual(len(self.rig.failures), 1)
                self.rig.disk.end_process()
                self.assertEqual(ids(self.rig.start()), [])

    def test_a_chunk_that_cannot_be_written_at_once_ends_the_store(self) -> None:
        body = self.rig.store.create_large_body(self.rig.store.next_id())
        body.append(bytes(IN_FLIGHT_MAX))
        self.rig.disk.fail("write", OSError(errno.ENOSPC, "full"))
        body.append(b"one too many")
        self.assertTrue(self.rig.store.failed)

    def test_nothing_can_be_added_to_a_complete_one(self) -> None:
        body = self.body(b"x")
        with self.assertRaises(ValueError):
            body.append(b"y")


def _second_fails(operation: Callable[..., object]) -> Callable[..., object]:
    """The same operation of files, which fails when it is called for the second time."""
    calls = count(1)

    def failing(*args: Any) -> object:
        if next(calls) == 2:
            raise OSError(errno.ENOSPC, "full")
        return operation(*args)

    return failing
