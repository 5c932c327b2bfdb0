"""Changes between the thread that makes them and the loop."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.mirror import changes
from mqbroker.storage.mirror.changes import Begin, ChangeDecoder, Open, Remove, Sync, SyncDirectory, Write
from mqbroker.storage.mirror.outgoing import TOGETHER_MAX, Outgoing


class OutgoingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self.ready = 0
        self.outgoing = Outgoing(self.calls.append, self.is_ready)
        self.outgoing.put(Begin())
        self.outgoing.put(Open(1, "journal/a"))

    def is_ready(self) -> None:
        self.ready += 1

    def test_the_loop_is_called_once_for_each_sync(self) -> None:
        self.assertEqual(self.outgoing.put(Write(1, 0, b"x")), 3)
        self.outgoing.put(Remove("journal/b"))
        self.assertEqual(self.calls, [])
        self.outgoing.put(Sync(1))
        self.outgoing.put(SyncDirectory("journal"))
        self.assertEqual(len(self.calls), 1)
        self.calls.pop()()
        self.assertEqual(self.ready, 1)
        self.outgoing.put(Sync(1))
        self.assertEqual(len(self.calls), 1)

    def test_much_is_not_kept_until_a_sync(self) -> None:
        for _ in range(3):
            self.outgoing.put(Write(1, 0, bytes(TOGETHER_MAX // 2)))
        self.assertEqual(len(self.calls), 1)

    def test_what_is_taken_are_all_changes_in_their_order(self) -> None:
        self.outgoing.put(Write(1, 0, b"x"))
        self.assertEqual((self.outgoing.taken, self.outgoing.number), (0, 3))
        raw = b"".join(map(bytes, self.outgoing.take()))
        self.assertEqual(list(ChangeDecoder().feed(raw)), [Begin(), Open(1, "journal/a"), Write(1, 0, b"x")])
        self.assertEqual((self.outgoing.taken, self.outgoing.take()), (3, []))

    def test_a_long_write_is_told_in_parts(self) -> None:
        self.patch(changes, "WRITE_MAX", 4)
        self.patch(__import__("mqbroker.storage.mirror.outgoing", fromlist=["x"]), "WRITE_MAX", 4)
        self.assertEqual(self.outgoing.put(Write(1, 10, b"abcdefghi")), 5)
        raw = b"".join(map(bytes, self.outgoing.take()))
        self.assertEqual(list(ChangeDecoder().feed(raw))[2:], [Write(1, 10, b"abcd"), Write(1, 14, b"efgh"), Write(1, 18, b"i")])
        self.assertEqual(self.outgoing.taken, 5)

    def test_the_loop_itself_needs_no_call(self) -> None:
        self.assertEqual(self.outgoing.put_all((Write(1, 0, b"x"), Sync(1))), 4)
        self.assertEqual((self.calls, self.ready), ([], 0))
        self.outgoing.flush()
        self.assertEqual((self.calls, self.ready), ([], 1))
        raw = b"".join(map(bytes, self.outgoing.take()))
        self.assertEqual(list(ChangeDecoder().feed(raw))[2:], [Write(1, 0, b"x"), Sync(1)])

    def test_it_knows_the_last_sync_that_has_ended_here(self) -> None:
        number = self.outgoing.put(Sync(1))
        self.assertEqual(self.outgoing.synced, 0)
        self.outgoing.sync_ended(number)
        self.assertEqual(self.outgoing.synced, number)
