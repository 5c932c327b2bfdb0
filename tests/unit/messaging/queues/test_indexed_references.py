"""The index of a queue that is read by message id, built in pieces, and the places that are kept for readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import TestCase, mock

from hypothesis import given, settings
from hypothesis import strategies as st

from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.queues import indexed_references
from mqbroker.messaging.queues.indexed_references import IndexedReferences
from mqbroker.messaging.queues.references import Reference, ReferenceList
from mqbroker.messaging.readers import reading
from mqbroker.messaging.readers.ranges import Range
from mqbroker.messaging.readers.readers import LOG_IDLE_SECONDS
from mqbroker.messaging.turns import steps
from tests.unit.messaging.paging_support import numbered
from tests.unit.messaging.queues.test_references import _reference
from tests.unit.messaging.readers.stored import StoredBroker, filled

actions = st.sampled_from(("step", "step", "step", "append", "remove", "take", "return"))


def ids(references: list[Reference]) -> list[int]:
    return [reference.message.message_id for reference in references]


class BuildTests(TestCase):
    @given(
        st.lists(st.sampled_from((4, 4, 4, 4, 9, 0)), max_size=40),
        st.lists(st.tuples(actions, st.integers(0, 50)), max_size=60),
        st.booleans(),
    )
    @settings(max_examples=300, deadline=None)
    def test_it_ends_as_if_nothing_had_happened_meanwhile(self, given: list[int], happening: list[tuple[str, int]], odd: bool) -> None:
        plain = ReferenceList()
        number = 0
        out: list[Reference] = []
        for priority in given:
            number += 1
            plain.append(_reference(priority, number))
        index = IndexedReferences(plain, self.fail)
        with (
            mock.patch.object(indexed_references, "INDEXED_AT_ONCE", 3),
            mock.patch.object(indexed_references, "RUNS_MERGED", 1 if odd else 64),
        ):
            building = index.build()
            for action, choice in happening:
                there = list(index)
                if action == "step":
                    next(building, None)
                elif action == "append":
                    number += 1
                    index.append(_reference(choice % 10, number))
                elif action == "remove" and there:
                    out.append(there[choice % len(there)])
                    index.remove(out[-1])
                elif action == "take" and (taken := index.take_head()) is not None:
                    out.append(taken)
                elif action == "return" and out:
                    index.insert(out.pop(choice % len(out)))
            for _ in building:
                pass
        self.assertFalse(index.building)
        expected = sorted(ids(list(index)))
        self.assertEqual(ids(index.between(0, number, 1000)), expected)
        self.assertEqual((index.first_id, index.last_id), (expected[0], expected[-1]) if expected else (0, 0))
        for reference in list(index):
            self.assertIs(index.find(reference.message.message_id), reference)
            index.remove(reference)
        self.assertEqual(index.between(0, number, 1000), [])

    def test_a_queue_that_is_left_while_its_index_is_built(self) -> None:
        plain = ReferenceList()
        for number in range(20):
            plain.append(_reference(4, number))
        with mock.patch.object(indexed_references, "INDEXED_AT_ONCE", 3):
            for steps_done in range(12):
                index = IndexedReferences(plain, self.fail)
                building = index.build()
                for _ in range(steps_done):
                    next(building, None)
                plain = index.plain()
                self.assertEqual(list(building), [])
        self.assertEqual(ids(list(plain)), list(range(20)))


class TurnTests(TestCase):
    def setUp(self) -> None:
        for module, name, value in (
            (reading, "BUILT_AT_ONCE", 10),
            (indexed_references, "INDEXED_AT_ONCE", 10),
            (steps, "SCANNED_MAX", 10),
        ):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def deep(self) -> StoredBroker:
        return filled(200, {})

    def test_who_opens_a_reader_waits(self) -> None:
        broker = self.deep()
        opened: list[Any] = []
        turns = mock.Mock(wraps=broker.rig.clock.call_later)
        broker.rig.clock.call_later = turns  # type: ignore[method-assign]
        broker.messaging.readers.open(broker.q, "r", -1, lambda *found: opened.append(found), print)
        self.assertTrue(broker.q.log is not None and broker.q.log.index.building)
        broker.settle()
        self.assertGreater(turns.call_count, 20)
        reader = opened[0][0]
        found = broker.reserve(reader, 0)
        self.assertEqual(broker.bodies(0, found.until), numbered(200))

    def test_who_reads_without_asking_first_goes_on_from_nothing(self) -> None:
        broker = self.deep()
        last = broker.rig.store.next_id()
        block = broker.messaging.readers.read(broker.q, 0, last, 1 << 20, None)
        self.assertEqual((block.rows.ids, block.position, block.end), ([], 0, False))
        broker.settle()
        self.assertEqual(broker.bodies(0, last), numbered(200))

    def range_that_takes_long(self, indexed: bool) -> None:
        """Other work in steps comes first, for longer than an idle queue stays indexed."""
        broker = self.deep()
        core = broker.messaging.core
        if indexed:
            broker.reserve(None, 0)
        there: list[Callable[[], object]] = []
        core.steps.start(_waiting(core, NotYet(there.append)), lambda result, failure: None)
        found: list[Range] = []
        broker.messaging.readers.reserve(broker.q, None, 0, 0, -1, (-1, -1, 1), lambda told, ticket: found.append(told), self.fail)
        for _ in range(2):
            broker.advance(LOG_IDLE_SECONDS + 1)
        broker.q.take(reference := next(iter(broker.q.references)))
        broker.messaging.settlement.acknowledge((reference,))
        (go_on,) = there
        go_on()
        broker.settle()
        self.assertEqual([each.messages for each in found], [199])
        for _ in range(2):
            broker.advance(LOG_IDLE_SECONDS + 1)
        self.assertIsNone(broker.q.log)

    def test_who_asks_for_a_range_without_a_reader_gets_all_of_it_however_long_that_takes(self) -> None:
        self.range_that_takes_long(indexed=False)

    def test_so_does_who_asks_for_one_of_a_queue_that_is_indexed_already(self) -> None:
        self.range_that_takes_long(indexed=True)

    def test_a_survey_and_a_settlement_wait(self) -> None:
        broker = self.deep()
        reader = broker.open()
        found = broker.reserve(reader, 0, messages=50)
        broker.crash()
        done: list[int] = []
        self.assertTrue(broker.q.log is not None)
        reader = broker.open()
        broker.messaging.readers.settle(broker.q, "r", reader.epoch, found.until, done.append, print)
        broker.settle()
        self.assertEqual((len(done), broker.q.message_count), (1, 150))
        self.assertEqual(broker.reserve(None, 0).messages, 150)


def _waiting(core: MessagingCore, pending: NotYet) -> steps.Steps[None]:
    """Work that waits for a page."""
    core.steps.wait_for(pending)
    yield 0
