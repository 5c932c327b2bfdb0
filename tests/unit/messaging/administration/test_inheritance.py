"""A broker that serves takes over the queues, messages and branches of another one, on one database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from unittest import TestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.administration.registrar import Ended
from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.node.messaging import messaging_of
from mqbroker.storage.sql.rows import PIECE_ROWS
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import BYTES, STRING
from tests.unit.messaging.support import Bench, Collector
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.sql.taken import switch

XID = Xid(1, b"branch", b"global")


class SqlBench(Bench):
    """Messaging on a store in a database."""

    def __init__(self, rig: SqlRig) -> None:
        self.rig = rig
        self.begin(rig.start())

    def begin(self, recovered: Recovered) -> None:
        self.clock, self.store = self.rig.clock, self.rig.store  # type: ignore[assignment]
        self.messaging = messaging_of(Configuration(), self.rig.store, recovered, self.clock, lambda: 0.5)
        self.context = OperationContext(self.rig.store)
        self.settle()

    def settle(self) -> None:
        """Everything happens that needs no time."""
        clock = self.rig.clock
        while clock.run_due() or self.rig.writer.run_one() or self.rig.reading.run_one():
            pass

    def crash(self) -> None:
        self.messaging.stop()
        self.begin(self.rig.kill())

    def consume(self, name: str) -> Collector:
        consumer = Collector(self, self.core.queues[name])
        self.settle()
        return consumer

    def acknowledge(self, consumer: Collector) -> None:
        references, consumer.references = consumer.references, []
        self.messaging.settlement.acknowledge(references)
        self.turn()
        self.settle()

    def prepare(self, *bodies: bytes, acknowledge: Collector | None = None, properties: Any = None) -> None:
        """A prepared branch that sends, and acknowledges what a consumer has."""
        branch = self.messaging.branches.start(XID, "connection")
        for body in bodies:
            self.send(body, transaction=branch.transaction, properties=properties)
        for reference in () if acknowledge is None else acknowledge.references:
            branch.transaction.acknowledged.append(reference)
        self.messaging.branches.prepare(XID)
        self.turn()
        self.settle()


class InheritanceTests(TestCase):
    def setUp(self) -> None:
        rig = SqlRig(self.addCleanup, 1, broker_id="b1")
        self.other = SqlBench(rig)
        self.bench = SqlBench(SqlRig(self.addCleanup, 2, database=rig.database, broker_id="b2"))
        for bench in (self.other, self.bench):
            bench.queue("q")
        self.addCleanup(self.other.messaging.stop)
        self.addCleanup(self.stop)

    def stop(self) -> None:
        self.bench.messaging.stop()

    def take_over(self) -> None:
        self.other.settle()
        sessions = switch(self.other.rig, self.bench.rig)

        def done(recovered: Recovered | None, error: Exception | None) -> None:
            assert recovered is not None, error
            self.assertTrue(self.bench.core.turn.active)
            self.bench.messaging.adopt(recovered)

        self.bench.rig.store.inherit(sessions, done)
        self.bench.settle()

    def count(self, name: str = "message") -> int:
        [(number,)] = self.bench.rig.ask(f"SELECT COUNT(*) FROM mqbroker_{name}")
        assert isinstance(number, int)
        return number

    def sessions(self) -> int:
        return self.count("session")

    def test_what_came_is_consumed_before_what_is_sent_later(self) -> None:
        self.bench.send(b"before")
        for number in range(150):
            self.other.send(b"%d" % number)
        self.take_over()
        self.bench.send(b"after")
        queue = self.bench.core.queues["q"]
        self.bench.settle()
        self.assertEqual((queue.message_count, queue.paged), (152, 151))
        consumer = self.bench.consume("q")
        self.assertEqual(consumer.bodies, [b"before", *(b"%d" % number for number in range(150)), b"after"])
        self.bench.acknowledge(consumer)
        self.assertEqual((self.count(), self.sessions(), queue.message_count), (0, 1, 0))
        self.assertEqual(self.bench.core.paging.addresses, {})

    def test_a_consumer_that_waits_gets_what_comes(self) -> None:
        consumer = self.bench.consume("q")
        self.other.send(b"1")
        self.take_over()
        self.assertEqual(consumer.bodies, [b"1"])
        self.bench.send(b"2")
        self.bench.settle()
        self.assertEqual(consumer.bodies, [b"1", b"2"])

    def test_missing_addresses_and_queues_are_made_as_they_were(self) -> None:
        self.other.messaging.administration.create_address("empty", (0,), auto_created=True)
        self.other.queue("t.1", "t", 0, filter_string="a = 1", auto_created=True, exclusive=True)
        self.other.send(b"1", "t", routing_type=0, properties={"a": (STRING, "1")})
        self.take_over()
        core = self.bench.core
        self.assertEqual((core.addresses["empty"].routing_types, core.addresses["empty"].auto_created), (frozenset({0}), True))
        self.assertEqual(core.queues["t.1"].definition, self.other.core.queues["t.1"].definition)
        self.bench.crash()
        self.assertEqual(self.bench.core.queues["t.1"].definition, self.other.core.queues["t.1"].definition)
        self.assertIn("empty", self.bench.core.addresses)

    def test_a_start_goes_on_with_what_an_earlier_process_has_taken(self) -> None:
        self.other.send(b"1")
        self.other.send(b"2")
        self.other.settle()
        switch(self.other.rig, self.bench.rig)
        self.bench.crash()
        consumer = self.bench.consume("q")
        self.assertEqual(consumer.bodies, [b"1", b"2"])
        self.bench.acknowledge(consumer)
        self.assertEqual(self.sessions(), 1)

    def test_a_queue_that_is_deleted_does_not_come_back(self) -> None:
        self.other.queue("gone")
        self.other.send(b"1", "gone")
        self.take_over()
        administration = self.bench.messaging.administration
        administration.delete_queue(self.bench.core.queues["gone"])
        self.bench.settle()
        self.bench.crash()
        self.assertEqual((self.count(), "gone" in self.bench.core.queues), (0, False))

    def end(self, *queues: str, addresses: Collection[str] = ()) -> None:
        """These queues were deleted while the other broker was away, as the registrar says."""

        def ended(found: Recovered, core: MessagingCore, kept: Mapping[tuple[str, str], str] | None) -> Ended:
            return Ended({record.queue_id for record in found.queues if record.name in queues}, addresses)

        registrar: Any = self.bench.messaging.registrar
        registrar.ended = ended

    def test_what_was_deleted_meanwhile_does_not_come(self) -> None:
        """Once its messages were those of the next queue of that name."""
        self.other.queue("gone")
        for name in ("q", "gone"):
            self.other.send(b"former", name)
        self.end("q", "gone", addresses=("gone",))
        self.take_over()
        self.bench.send(b"own")
        self.assertEqual(self.bench.consume("q").bodies, [b"own"])
        self.assertEqual(("gone" in self.bench.core.queues, "gone" in self.bench.core.addresses), (False, False))
        self.assertEqual((self.count(), self.sessions()), (1, 1))

    def test_a_branch_has_nothing_of_a_queue_that_was_deleted(self) -> None:
        self.other.queue("gone")
        for name in ("q", "gone"):
            self.other.send(b"consumed", name)
        consumer = self.other.consume("gone")
        self.other.prepare(b"sent", acknowledge=consumer)
        self.end("gone")
        self.take_over()
        self.bench.messaging.branches.commit(XID, False, self.bench.context)
        self.bench.turn()
        self.bench.settle()
        self.assertEqual(self.bench.consume("q").bodies, [b"consumed", b"sent"])
        self.assertEqual(self.count(), 2)

    def test_a_prepared_branch_is_committed_by_the_taker(self) -> None:
        for number in range(3):
            self.other.send(b"%d" % number)
        consumer = Collector(self.other, self.other.core.queues["q"], room=1)
        self.other.settle()
        self.other.prepare(b"sent", acknowledge=consumer)
        self.take_over()
        self.assertEqual([branch.xid for branch in self.bench.messaging.branches.prepared()], [XID])
        self.bench.messaging.branches.commit(XID, False, self.bench.context)
        self.bench.turn()
        self.bench.settle()
        collected = self.bench.consume("q")
        self.assertEqual(collected.bodies, [b"1", b"2", b"sent"])
        self.bench.acknowledge(collected)
        self.assertEqual((self.count(), self.count("branch"), self.sessions()), (0, 0, 1))

    def test_a_prepared_branch_is_rolled_back_by_the_next_process_of_the_taker(self) -> None:
        self.other.send(b"1")
        consumer = self.other.consume("q")
        self.other.prepare(b"sent", acknowledge=consumer)
        self.take_over()
        self.bench.crash()
        self.assertEqual(self.bench.consume("q").bodies, [])
        self.bench.messaging.branches.rollback(XID)
        self.bench.turn()
        self.bench.settle()
        self.assertEqual(self.bench.core.queues["q"].message_count, 1)
        self.assertEqual(self.count("branch"), 0)

    def test_a_branch_has_nothing_of_a_message_that_does_not_survive(self) -> None:
        """Once it was counted among those that do: the last one of them was not read before the next start."""
        self.bench.send(b"first")
        self.bench.crash()
        self.bench.send(b"transient", durable=False)
        bodies = [b"%d" % number for number in range(PIECE_ROWS)]
        for body in bodies:
            self.bench.send(body)
        self.bench.settle()
        consumer = Collector(self.bench, self.bench.core.queues["q"], room=2)
        self.bench.settle()
        self.assertEqual(consumer.bodies, [b"first", b"transient"])
        self.bench.prepare(acknowledge=consumer)
        self.bench.crash()
        consumer = self.bench.consume("q")
        self.assertEqual(consumer.bodies, bodies)
        self.bench.acknowledge(consumer)
        self.bench.messaging.branches.commit(XID, False, self.bench.context)
        self.bench.turn()
        self.bench.settle()
        self.assertEqual((self.count(), self.bench.core.queues["q"].message_count), (0, 0))

    def test_a_branch_of_the_takers_own_holds_what_was_inherited(self) -> None:
        self.other.send(b"1")
        self.other.send(b"2")
        self.take_over()
        consumer = Collector(self.bench, self.bench.core.queues["q"], room=1)
        self.bench.settle()
        self.bench.prepare(b"sent", acknowledge=consumer)
        self.bench.crash()
        self.assertEqual(self.bench.consume("q").bodies, [b"2"])
        self.bench.messaging.branches.commit(XID, False, self.bench.context)
        self.bench.turn()
        self.bench.settle()
        self.assertEqual(self.count(), 2)

    def test_a_branch_of_an_xid_that_is_here_waits(self) -> None:
        self.other.prepare(b"theirs")
        self.bench.prepare(b"ours")
        self.take_over()
        self.bench.messaging.branches.rollback(XID)
        self.bench.turn()
        self.bench.settle()
        self.assertEqual(self.bench.messaging.branches.prepared(), [])
        self.bench.crash()
        self.bench.messaging.branches.commit(XID, False, self.bench.context)
        self.bench.turn()
        self.bench.settle()
        self.assertEqual(self.bench.consume("q").bodies, [b"theirs"])

    def test_a_scheduled_message_is_delivered_when_its_time_has_come(self) -> None:
        queue = self.other.core.queues["q"]
        message = self.other.message(b"later")
        batch = self.other.rig.store.begin()
        batch.add_message(message, [queue.queue_id])
        batch.schedule(queue.queue_id, message, self.bench.clock.wall_ms() + 5000)
        self.other.rig.store.commit(batch)
        self.take_over()
        consumer = self.bench.consume("q")
        self.assertEqual(consumer.bodies, [])
        self.bench.clock.advance(6)
        self.bench.settle()
        self.assertEqual(consumer.bodies, [b"later"])
        self.bench.acknowledge(consumer)
        self.assertEqual((self.count(), self.sessions()), (0, 1))

    def test_a_duplicate_of_what_the_other_broker_had_is_refused(self) -> None:
        one, two = ({KEY_DUPLICATE_ID: (BYTES, each)} for each in (b"one", b"two"))
        self.other.send(b"1", properties=one)
        self.other.send(b"2", properties=two)
        self.bench.send(b"1", properties=one)
        self.take_over()
        self.bench.send(b"2 again", properties=two)
        self.bench.settle()
        self.assertEqual(sorted(self.bench.consume("q").bodies), [b"1", b"1", b"2"])
        cache = self.bench.core.duplicate_ids("q")
        self.assertEqual((sorted(cache.ids()), self.count("duplicate")), ([b"one", b"two"], 2))

    def roll_back_and_send_again(self) -> None:
        """The branch is rolled back, and its message sent again."""
        self.bench.messaging.branches.rollback(XID)
        self.bench.turn()
        self.bench.settle()
        self.bench.send(b"again", properties={KEY_DUPLICATE_ID: (BYTES, b"id")})
        self.bench.settle()
        self.assertEqual(self.bench.consume("q").bodies, [b"again"])

    def test_the_duplicate_ids_of_a_branch_go_with_its_rollback(self) -> None:
        self.other.prepare(b"sent", properties={KEY_DUPLICATE_ID: (BYTES, b"id")})
        self.take_over()
        self.roll_back_and_send_again()

    def test_the_duplicate_ids_of_a_branch_go_with_its_rollback_after_a_start_of_the_taker(self) -> None:
        """Once the message that was sent again counted as a duplicate, and was lost: the ids had become the taker's own."""
        self.other.prepare(b"sent", properties={KEY_DUPLICATE_ID: (BYTES, b"id")})
        self.take_over()
        self.bench.crash()
        self.roll_back_and_send_again()

    def test_the_duplicate_ids_of_a_branch_go_with_its_rollback_at_the_taker_of_the_taker(self) -> None:
        self.other.prepare(b"sent", properties={KEY_DUPLICATE_ID: (BYTES, b"id")})
        self.take_over()
        last = SqlBench(SqlRig(self.addCleanup, 3, database=self.bench.rig.database, broker_id="b3"))
        self.bench.messaging.stop()
        self.other, self.bench = self.bench, last
        self.take_over()
        self.roll_back_and_send_again()

    def test_a_queue_that_was_not_durable_here_becomes_so(self) -> None:
        self.other.queue("mixed")
        self.bench.queue("mixed", durable=False)
        self.other.send(b"1", "mixed")
        self.take_over()
        self.assertTrue(self.bench.core.queues["mixed"].definition.durable)
        self.bench.crash()
        self.assertEqual(self.bench.consume("mixed").bodies, [b"1"])

    def test_what_was_in_a_queue_that_was_not_durable(self) -> None:
        """A message that another queue has, too, is stored for that one alone."""
        self.other.queue("mixed", "both", routing_type=0)
        self.bench.queue("mixed", "both", routing_type=0, durable=False)
        self.bench.queue("kept", "both", routing_type=0)
        self.bench.send(b"0", "both", routing_type=0)
        self.bench.settle()
        self.take_over()
        consumer = self.bench.consume("mixed")
        self.assertEqual(consumer.bodies, [b"0"])
        self.bench.acknowledge(consumer)
        self.bench.crash()
        self.assertEqual(self.bench.consume("kept").bodies, [b"0"])

    def test_a_queue_on_another_address_gets_the_messages_of_its_name(self) -> None:
        self.other.queue("same", "theirs")
        self.bench.queue("same", "ours")
        self.other.send(b"1", "theirs")
        self.take_over()
        self.assertEqual(self.bench.consume("same").bodies, [b"1"])

    def test_a_damaged_message_is_left_out_of_the_count(self) -> None:
        self.other.send(b"1")
        self.other.send(b"2")
        self.other.settle()
        connection = self.bench.rig.database.connect()
        connection.run("UPDATE mqbroker_message SET buffer = X'00' WHERE place = (SELECT MIN(place) FROM mqbroker_message)")
        connection.close()
        self.take_over()
        consumer = self.bench.consume("q")
        self.assertEqual((consumer.bodies, self.bench.core.queues["q"].message_count), ([b"2"], 1))
        self.bench.acknowledge(consumer)
        self.assertEqual((self.bench.core.queues["q"].message_count, self.sessions()), (0, 1))
