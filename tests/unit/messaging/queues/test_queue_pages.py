"""Everything that is done with pages and large messages, on a store that answers later."""

from __future__ import annotations

from typing import Any
from unittest import TestCase, mock

from mqbroker.messaging.queues.queue_pages import QueuePages
from tests.support.late_store import LateStore
from tests.unit.messaging.paging_support import PagingBroker, Taker, numbered
from tests.unit.messaging.queues import test_paging, test_paging_operations
from tests.unit.messaging.readers import test_reading
from tests.unit.storage.files.journal import test_pages
from tests.unit.storage.files.pages import test_scan
from tests.unit.storage.support import Rig


class Late(TestCase):
    def setUp(self) -> None:
        patch = mock.patch.object(Rig, "store_class", LateStore)
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()


class PagingTests(Late, test_paging.PagingTests):
    pass


class UncommittedBatchTests(Late, test_pages.UncommittedBatchTests):
    pass


class OperationTests(Late, test_paging_operations.OperationTests):
    pass


class ManagementTests(Late, test_paging_operations.ManagementTests):
    pass


class LimitTests(Late, test_paging_operations.LimitTests):
    pass


class BranchTests(Late, test_paging_operations.BranchTests):
    pass


class ReaderTests(Late, test_scan.PageTests):
    pass


class LateReaderTests(Late, test_reading.LateTests):
    pass


class WaitingTests(Late):
    """What happens while a queue waits for a piece of its pages: nothing, until ``come`` is called."""

    def setUp(self) -> None:
        super().setUp()
        self.broker = PagingBroker()
        self.queue = self.broker.make_queue("q")
        for body in numbered(60):
            self.broker.send(body)
        store: Any = self.broker.rig.store
        self.answers = store.answers
        self.asked: list[object] = []
        patch = mock.patch.object(self.answers, "_clock")
        clock = patch.start()
        clock.call_later = lambda seconds, function, key: self.asked.append(key)
        clock.monotonic.return_value = 0.0
        self.addCleanup(patch.stop)

    @property
    def pages(self) -> QueuePages:
        pages: QueuePages = self.queue.pages  # type: ignore[assignment]
        return pages

    def come(self) -> None:
        """Every piece that was asked for is there, also those that are asked for then."""
        while self.asked:
            self.answers._came(self.asked.pop(0))
            self.broker.settle()

    def drained(self, taker: Taker) -> list[bytes]:
        """Everything that comes when each piece comes in the end."""
        bodies: list[bytes] = []
        while self.asked or taker.references:
            self.come()
            bodies += taker.drain()
        return bodies

    def test_a_queue_that_waits_asks_once_and_does_nothing(self) -> None:
        taker = Taker(self.broker, self.queue)
        self.assertEqual((len(self.asked), taker.references, self.pages.waiting), (1, [], True))
        for _ in range(3):
            self.broker.core.turn.mark_queue(self.queue)
            self.broker.settle()
        self.assertEqual((len(self.asked), self.broker.rig.clock.due), (1, False))
        self.assertEqual(self.drained(taker), numbered(60))

    def test_what_comes_while_a_piece_is_waited_for_comes_after_it(self) -> None:
        taker = Taker(self.broker, self.queue)
        self.broker.send(b"last")
        self.assertEqual(self.drained(taker), [*numbered(60), b"last"])

    def test_a_consumer_that_leaves_meanwhile_loses_nothing(self) -> None:
        first = Taker(self.broker, self.queue)
        first.leave()
        self.come()
        self.assertEqual((first.references, self.queue.message_count, self.queue.references.count), ([], 60, 0))
        second = Taker(self.broker, self.queue)
        self.assertEqual(self.drained(second), numbered(60))

    def test_a_queue_that_is_purged_meanwhile_has_nothing(self) -> None:
        taker = Taker(self.broker, self.queue)
        self.assertEqual(self.broker.messaging.removal.purge(self.queue), 60)
        self.broker.settle()
        self.come()
        self.assertEqual((taker.references, self.queue.message_count, self.broker.page_files()), ([], 0, []))

    def test_a_queue_that_is_deleted_meanwhile_is_not_touched(self) -> None:
        Taker(self.broker, self.queue)
        self.broker.messaging.administration.delete_queue(self.queue, remove_consumers=True)
        self.broker.settle()
        self.come()
        self.assertEqual((self.queue.references.count, self.broker.page_files()), (0, []))

    def test_a_store_that_is_fenced_meanwhile_gives_nothing(self) -> None:
        taker = Taker(self.broker, self.queue)
        self.broker.rig.store.fence("epoch 2 has begun")
        self.come()
        self.assertEqual((taker.references, len(self.broker.rig.failures)), ([], 1))

    def test_a_restart_meanwhile_finds_everything(self) -> None:
        Taker(self.broker, self.queue)
        self.broker.restart()
        self.assertEqual(Taker(self.broker, self.broker.core.queues["q"]).drain(), numbered(60))

    def test_the_scan_for_expired_messages_waits_and_goes_on(self) -> None:
        other = self.broker.make_queue("other")
        for body in numbered(20):
            self.broker.send(body, "other", expiration=self.broker.rig.clock.wall_ms() + 1000)
        self.broker.rig.clock.advance(2)
        self.broker.messaging.expiry_reaper.scan()
        self.broker.settle()
        self.assertEqual((other.messages_expired, self.broker.rig.clock.due), (0, False))
        self.come()
        self.assertEqual((other.messages_expired, self.queue.message_count), (20, 60))

    def test_other_work_in_steps_waits_behind_work_that_waits(self) -> None:
        steps, done = self.broker.core.steps, []
        control = test_paging_operations.QueueControl(mock.Mock(messaging=self.broker.messaging), self.queue)
        steps.start(control.count_messages("1 = 1"), lambda count, failure: done.append(count))
        steps.start(iter([1]), lambda result, failure: done.append("second"))  # type: ignore[arg-type]
        self.broker.settle()
        self.assertEqual((done, self.broker.rig.clock.due), ([], False))
        self.come()
        self.assertEqual(done, [60, "second"])
