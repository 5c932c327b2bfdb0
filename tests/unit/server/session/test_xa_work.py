"""The work of XA branches: in two phases, in one, in doubt, and failed."""

from __future__ import annotations

from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from mqclient.wire.properties import STRING
from tests.unit.server.xa import NOTA, PROTO, StateCase, XASession, xid


class TwoPhaseTests(StateCase):
    def test_two_phases(self) -> None:
        self.session.sends("t", b"one", b"two")
        self.assertEqual((self.visible(), self.queue.arriving, self.queue.message_count), ([], 2, 0))
        self.assertEqual(self.session.prepare("t"), 0)
        self.assertEqual((self.visible(), self.queue.arriving, self.queue.message_count), ([], 2, 0))
        self.assertEqual(self.session.commit("t"), 0)
        self.assertEqual((self.visible(), self.queue.arriving, self.queue.message_count), ([b"one", b"two"], 0, 2))
        self.assertEqual(self.session.commit("t"), NOTA)

    def test_one_phase(self) -> None:
        self.session.sends("t", b"one")
        self.assertEqual(self.session.commit("t", one_phase=True), 0)
        self.assertEqual(self.visible(), [b"one"])

    def test_the_wrong_number_of_phases(self) -> None:
        self.session.sends("t", b"one")
        self.assertEqual(self.session.commit("t"), PROTO)
        self.assertEqual(self.session.prepare("t"), 0)
        self.assertEqual(self.session.commit("t", one_phase=True), PROTO)
        self.assertEqual(self.session.commit("t"), 0)

    def test_prepare_is_accepted_twice(self) -> None:
        self.session.sends("t", b"one", prepare=True)
        self.assertEqual(self.other.prepare("t"), 0)
        self.assertEqual(self.other.commit("t"), 0)
        self.assertEqual(self.visible(), [b"one"])

    def test_rollback_of_sends(self) -> None:
        size = self.queue.address.memory.size
        for prepare in (False, True):
            self.session.sends("t", b"one", prepare=prepare)
            self.assertGreater(self.queue.address.memory.size, size)
            self.assertEqual(self.session.rollback("t"), 0)
            self.assertEqual((self.visible(), self.queue.arriving, self.queue.address.memory.size), ([], 0, size))
            self.assertEqual(self.session.rollback("t"), NOTA)

    def test_rollback_of_acknowledgements(self) -> None:
        """In their order, with their counts; what was merely delivered to the session comes again as if it had not been."""
        for body in (b"one", b"two", b"three"):
            self.plain.publish(body)
        self.session.session.consume()
        for count, prepare in ((1, False), (2, True)):
            self.session.takes("t", 2, prepare=prepare)
            self.assertEqual((self.queue.delivering, self.visible()), (3, []))
            self.assertEqual(self.session.rollback("t"), 0)
            found = self.session.session.received()
            self.assertEqual([decode_message(each.message).body for each in found], [b"one", b"two", b"three"])
            self.assertEqual([each.delivery_count for each in found], [count + 1, count + 1, 1])
            self.session.session.peer.inbox += [(self.session.session.channel, each) for each in found]

    def test_a_committed_acknowledgement(self) -> None:
        self.plain.publish(b"one")
        self.session.session.consume()
        self.session.takes("t", prepare=True)
        self.assertEqual(self.queue.message_count, 1)
        self.assertEqual(self.other.commit("t"), 0)
        self.assertEqual((self.queue.message_count, self.queue.messages_acknowledged, self.queue.address.memory.size), (0, 1, 0))

    def test_a_message_in_doubt_is_nobodys(self) -> None:
        """Other consumers, browsers, management and the expiry scan leave it alone."""
        self.plain.publish(b"one", expiration=self.world.clock.wall_ms() + 1000)
        self.session.session.consume()
        self.session.takes("t", prepare=True)
        self.session.session.peer.lose()
        self.plain.consume()
        self.plain.consume(consumer=1, browse_only=True)
        self.world.clock.advance(31)
        self.assertEqual(self.plain.received(), [])
        self.assertEqual(self.world.registry.invoke("queue.q", "removeAllMessages", []), 0)
        self.assertEqual((self.queue.delivering, self.queue.messages_expired), (1, 0))
        self.assertEqual(self.world.registry.attribute("queue.q", "PreparedTransactionMessageCount"), 1)
        back = XASession(self.world.peer())
        self.assertEqual(back.rollback("t"), 0)
        self.assertEqual((self.plain.received(), self.queue.messages_expired, self.queue.message_count), ([], 1, 0))

    def test_a_prepared_send_that_expires_meanwhile(self) -> None:
        self.session.sends("t", b"one", prepare=True, expiration=self.world.clock.wall_ms() + 1000)
        self.world.clock.advance(31)
        self.assertEqual(self.session.commit("t"), 0)
        self.plain.consume()
        self.assertEqual((self.plain.received(), self.queue.messages_expired), ([], 1))

    def test_a_poisoned_message_goes_to_the_dead_letter_address(self) -> None:
        self.plain.create_queue("DLQ")
        self.world.messaging.core.settings.set("q", {"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
        self.world.messaging.core.apply_settings()
        self.plain.publish(b"one")
        self.session.session.consume()
        self.session.takes("t", prepare=True)
        self.assertEqual(self.session.rollback("t"), 0)
        self.assertEqual((self.queue.message_count, self.world.queue("DLQ").message_count), (0, 1))

    def test_a_queue_that_is_deleted_meanwhile(self) -> None:
        for commit in (True, False):
            self.plain.create_queue("x")
            self.plain.publish(b"taken", "x")
            self.session.session.consume("x", consumer=5)
            self.session.takes("taken", prepare=True)
            self.session.sends("sent", b"sent", prepare=True, address="x")
            queue = self.world.queue("x")
            self.world.messaging.administration.delete_queue(queue, remove_consumers=True, keep_address=True)
            for name in ("taken", "sent"):
                self.assertEqual(self.session.commit(name) if commit else self.session.rollback(name), 0)
            self.assertEqual((queue.arriving, queue.delivering, queue.address.memory.size), (0, 0, 0))
            self.session.session.take()
            self.session.session.ok(wire.ConsumerClose(5))

    def test_large_messages(self) -> None:
        bodies = self.world.store.bodies
        for outcome, holders in ((self.session.commit, 1), (self.session.rollback, 0)):
            self.assertEqual(self.session.start("t"), 0)
            self.session.session.begin_large()
            self.session.session.chunk(b"x" * 1000)
            self.session.session.chunk(b"y" * 1000, 2000)
            self.assertEqual(self.session.end("t"), 0)
            self.assertEqual(self.session.prepare("t"), 0)
            body = bodies[max(bodies)]
            self.assertEqual(body.holders, 1)
            self.assertEqual(outcome("t"), 0)
            self.assertEqual(body.holders, holders)
        self.assertEqual(self.queue.message_count, 1)

    def test_duplicate_ids_are_known_from_the_prepare_on(self) -> None:
        properties = {"_AMQ_DUPL_ID": (STRING, "once")}
        self.session.sends("t", b"one", prepare=True, properties=properties)
        self.plain.publish(b"again", properties=properties)
        self.assertEqual(self.visible(), [])
        self.assertEqual(self.session.rollback("t"), 0)
        self.plain.publish(b"now", properties=properties)
        self.assertEqual(self.visible(), [b"now"])
        self.session.sends("u", b"late", properties=properties)
        answer = self.session.session.call(wire.XaPrepare(xid("u")))
        self.assertEqual(getattr(answer, "error_code", None), 113)

    def test_outside_of_a_branch_nothing_waits_for_a_commit(self) -> None:
        self.session.session.publish(b"one")
        self.assertEqual(self.visible(), [b"one"])
        self.session.session.consume()
        self.session.acknowledge(self.session.session.received()[0])
        self.assertEqual(self.queue.message_count, 0)
        self.session.session.ok(wire.Commit(5), wire.Rollback(False))

    def test_a_local_commit_does_not_end_a_branch(self) -> None:
        self.session.start("t")
        self.session.session.publish(b"one")
        self.assertEqual(self.session.session.error(wire.Commit(5)), 104)
        self.assertEqual((self.session.end("t"), self.visible()), (0, []))


class FailedWorkTests(StateCase):
    settings = {"address_settings": {"full": {"address_full_policy": "FAIL", "max_size_bytes": 1000}}}

    def setUp(self) -> None:
        super().setUp()
        self.plain.create_queue("full")
        self.plain.publish(b"x" * 2000, "full")

    def fill(self, name: str) -> None:
        """A branch in which one of two sends has failed."""
        self.assertEqual(self.session.start(name), 0)
        self.session.session.publish(b"one")
        self.session.session.publish(b"two", "full")
        self.assertEqual(self.session.end(name), 0)

    def test_prepare_tells_the_reason(self) -> None:
        """As often as it is asked; the transaction manager then rolls back a branch that is known."""
        self.fill("t")
        for _ in range(2):
            self.assertEqual(self.session.session.error(wire.XaPrepare(xid("t"))), 210)
            self.assertEqual((self.visible(), self.queue.arriving, self.session.in_doubt()), ([], 0, []))
        self.assertEqual(self.session.commit("t"), PROTO)
        self.assertEqual(self.session.rollback("t"), 0)
        self.assertEqual(self.session.rollback("t"), NOTA)

    def test_so_does_a_commit_in_one_phase(self) -> None:
        self.fill("t")
        self.assertEqual(self.session.session.error(wire.XaCommit(xid("t"), True)), 210)
        self.assertEqual((self.visible(), self.queue.arriving), ([], 0))
        self.assertEqual(self.session.rollback("t"), NOTA)

    def test_the_failure_of_one_branch_does_not_touch_another(self) -> None:
        self.fill("t")
        self.assertEqual(self.session.start("u"), 0)
        self.session.session.publish(b"fine")
        self.assertEqual(self.session.session.error(wire.XaPrepare(xid("t"))), 210)
        self.assertEqual((self.session.end("u"), self.session.prepare("u"), self.session.commit("u")), (0, 0, 0))
        self.assertEqual(self.visible(), [b"fine"])

    def test_what_is_prepared_fills_its_address(self) -> None:
        self.plain.create_queue("full.q", "fullq")
        self.world.messaging.core.settings.set("fullq", {"address_full_policy": "FAIL", "max_size_bytes": 1500})
        self.world.messaging.core.apply_settings()
        self.session.sends("t", b"x" * 2000, prepare=True, address="fullq")
        self.plain.publish(b"refused", "fullq", reply=True)
        self.assertEqual([each.error_code for each in self.plain.take() if isinstance(each, wire.ExceptionResponse)], [210])
        self.assertEqual(self.session.rollback("t"), 0)
        self.plain.publish(b"taken", "fullq", reply=True)
        self.assertEqual([type(each) for each in self.plain.take()], [wire.NullResponse])
