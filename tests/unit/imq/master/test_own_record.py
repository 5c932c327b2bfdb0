"""The master's record among the settings of its store."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.master import own_record
from mqbroker.imq.master.own_record import OwnRecord
from mqbroker.imq.record.changes import wish_of
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from tests.support.clock import FakeClock
from tests.unit.imq.net import ONE, KeptStore

QUEUE = QueueDefinition("q", "q", ANYCAST)


class OwnRecordTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = KeptStore("node")
        self.ids = iter("ghij")
        self.own = self.again()

    def again(self) -> OwnRecord:
        return OwnRecord(self.store, FakeClock(), ONE, lambda: next(self.ids), self.store.settings)

    def append(self, action: str) -> None:
        self.own.append(wish_of(Change(action, QUEUE)), ONE, self.own.begin().last, False)  # type: ignore[arg-type]

    def test_it_begins_with_a_reset_record(self) -> None:
        self.assertIsNone(self.own.record)
        self.assertEqual(self.own.begin("f").former, ("f",))
        found = self.again().record
        assert found is not None
        self.assertEqual((found.generation, found.former, found.last), ("g", ("f",), 1))

    def test_it_is_kept_and_compressed(self) -> None:
        self.patch(own_record, "SLACK_MAX", 3)
        for _ in range(5):
            self.append("create")
            self.append("delete")
        assert self.own.record is not None
        found = self.again().record
        assert found is not None
        self.assertEqual((found.changes, found.last), (self.own.record.changes, 11))
        self.assertLess(len(found.changes), 8)

    def test_another_one_takes_its_place(self) -> None:
        self.append("create")
        renewed = self.own.renewed()
        self.own.replace(renewed)
        found = self.again().record
        assert found is not None
        self.assertEqual((found.changes, found.generation), (renewed.changes, "h"))
        self.own.replace(None)
        self.assertIsNone(self.again().record)

    def test_a_damaged_one(self) -> None:
        self.append("create")
        self.store.settings[own_record.KIND, "000000000001"] = "x"
        self.assertRaises(ValueError, self.again)
