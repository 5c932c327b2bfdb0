"""An enhanced cluster of processes on one database: whoever is killed or frozen is taken over, with its messages and its clients."""

from __future__ import annotations

import signal
import sys
import threading
import time

from mqbroker.storage.shared.brokers import State
from mqbroker.storage.sql.database import Connection
from mqclient.jms import AcknowledgeMode, JMSContext, JMSException
from tests.integration.brokers import ACTIVE, Broker
from tests.integration.cluster.nodes import ReservedPort
from tests.integration.imq.enhanced import EnhancedMembers
from tests.integration.imq.enhanced_member import HELD_UP_SECONDS

COUNT = 30


class EnhancedTests(EnhancedMembers):
    def test_clients_and_messages_are_at_the_taker_after_a_kill(self) -> None:
        context = self.context(0, AcknowledgeMode.CLIENT_ACKNOWLEDGE, "&clientID=me")
        queue, topic = context.create_queue("orders"), context.create_topic("news")
        subscription = context.create_durable_consumer(topic, "sub")
        producer = context.create_producer()
        for number in range(COUNT):
            producer.send(queue, f"m{number}")
            producer.send(topic, f"n{number}")
        taker = self.enhanced.following(0)
        self.members.kill(0)
        self.taken_over(0)
        self.assertEqual(self.enhanced.rows()[0].taker, f"b{taker}")
        self.until(lambda: self._sends(producer, queue, "after"), "the client goes on")
        consumer = context.create_consumer(queue)
        self.assertEqual(self.texts(consumer, COUNT + 1), [*(f"m{number}" for number in range(COUNT)), "after"])
        self.assertEqual(self.texts(subscription, COUNT), [f"n{number}" for number in range(COUNT)])
        context.acknowledge()
        # It comes back with a new node id and no messages; what it had stays where it is.
        self.members.restart(0)
        self.until(lambda: self.enhanced.state(0) is State.OPERATING, "its row says that it serves clients")
        self.assertEqual(self.enhanced.rows()[0].taker, "")
        again = self.context(0)
        again.create_producer().send(queue, "new")
        self.assertEqual(self.texts(consumer, 1), ["new"])

    def test_work_with_exactly_once_is_done_once_through_a_takeover(self) -> None:
        context = self.context(0, options="&exactlyOnce=true")
        producer, queue = context.create_producer(), context.create_queue("once")
        for number in range(COUNT):
            producer.send(queue, f"m{number}")
            if number == COUNT // 2:
                killing = threading.Thread(target=self.members.kill, args=(0,))
                killing.start()
                self.addCleanup(killing.join)
        consumer = context.create_consumer(queue)
        self.assertEqual(self.texts(consumer, COUNT), [f"m{number}" for number in range(COUNT)])
        self.assertIsNone(consumer.receive(300))
        self.taken_over(0)

    def _sends(self, producer, queue, text):  # type: ignore[no-untyped-def]
        try:
            producer.send(queue, text)
        except Exception:  # the outcome of what was under way is not known
            return False
        return True

    def test_each_of_three_is_killed_and_the_last_has_everything(self) -> None:
        for number in range(3):
            context = self.context(number)
            context.create_producer().send(context.create_queue("all"), f"from {number}")
        first, second = 0, self.enhanced.following(0)
        for number in (first, second):
            self.members.kill(number)
            self.taken_over(number)
        last = 3 - first - second
        consumer = self.context(last).create_consumer(self.contexts[last].create_queue("all"))
        self.assertEqual(sorted(self.texts(consumer, 3)), ["from 0", "from 1", "from 2"])  # type: ignore[type-var]

    def test_a_frozen_member_is_taken_over_and_comes_back_without_messages(self) -> None:
        context = self.context(0)
        producer, queue = context.create_producer(), context.create_queue("frozen")
        for number in range(COUNT):
            producer.send(queue, f"m{number}")
        taker = self.enhanced.following(0)
        frozen = self.enhanced.freeze(0)
        self.taken_over(0)
        self.abandon(context)
        at_taker = self.context(taker)
        consumer = at_taker.create_consumer(at_taker.create_queue("frozen"))
        self.assertEqual(self.texts(consumer, COUNT), [f"m{number}" for number in range(COUNT)])
        frozen.go_on()
        self.wait_for(0, "ends its clients, and starts again")
        self.until(lambda: self.enhanced.state(0) is State.OPERATING, "the frozen one is back")
        # The thread that writes the row may be quicker than the loop that writes this.
        self.assertEqual(self.wait_for(0, ACTIVE).count(ACTIVE), 1)

    def test_one_damaged_row_stops_no_takeover_of_several_sessions(self) -> None:
        """It once ended the takeover of 29 sessions (openmq 294)."""
        for number in range(2):
            context = self.context(number)
            producer, queue = context.create_producer(), context.create_queue("damaged")
            for each in range(COUNT):
                producer.send(queue, f"{number}-{each}")
        self.members.kill(0)
        self.taken_over(0)
        first = self.enhanced.taker(0)
        damaged = self.enhanced.ask(self._damage)
        self.members.kill(first)
        self.taken_over(first)
        last = self.enhanced.taker(first)
        consumer = self.context(last).create_consumer(self.contexts[-1].create_queue("damaged"))
        expected = [f"{number}-{each}" for number in range(2) for each in range(COUNT) if (number, each) != (0, 3)]
        self.assertEqual(sorted(self.texts(consumer, len(expected))), sorted(expected))  # type: ignore[type-var]
        self.assertIsNone(consumer.receive(500))
        self.members.running[last].wait_for(f"the row {damaged} of session")
        aside = "SELECT place FROM mqbroker_message WHERE session < 0"
        self.until(lambda: self.enhanced.ask(lambda connection: connection.rows(aside)) == [(damaged,)], "the row is set aside")

    @staticmethod
    def _damage(connection: Connection) -> int:
        """Damage the fourth message of the session that was taken over.  Returns its place."""
        inherited = "SELECT session FROM mqbroker_session WHERE current = 0"
        [(place,)] = connection.rows(
            f"SELECT place FROM mqbroker_message WHERE session IN ({inherited}) AND folder = 'damaged' ORDER BY place LIMIT 1 OFFSET 3"
        )
        connection.run("UPDATE mqbroker_message SET buffer = X'0102' WHERE place = ?", (place,))
        return int(place)

    def test_what_a_former_owner_still_wants_to_write_changes_nothing_that_was_taken(self) -> None:
        """In a window of time it once wrote over the references of its taker (openmq 221)."""
        context = self.context(0, AcknowledgeMode.CLIENT_ACKNOWLEDGE, "&reconnectAttempts=0")
        producer, queue = context.create_producer(), context.create_queue("former")
        for number in range(COUNT):
            producer.send(queue, f"m{number}")
        self.texts(context.create_consumer(queue), COUNT)
        frozen = self.enhanced.freeze(0)
        self.abandon(context)
        # It finds this, and the end of a delivery, when it goes on.
        threading.Thread(target=self._acknowledges, args=(context,), daemon=True).start()
        self.taken_over(0)
        taker = self.enhanced.taker(0)
        at_taker = self.context(taker, AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        consumer = at_taker.create_consumer(queue)
        self.assertEqual(self.texts(consumer, COUNT // 2), [f"m{number}" for number in range(COUNT // 2)])
        at_taker.acknowledge()
        frozen.go_on()
        self.wait_for(0, "ends its clients, and starts again")
        self.until(lambda: self.enhanced.state(0) is State.OPERATING, "the frozen one is back")
        at_taker.close()
        self.abandon(at_taker)
        # Nothing that the taker has in its memory counts now.
        self.members.kill(taker)
        self.taken_over(taker)
        again = self.context(self.enhanced.taker(taker))
        consumer = again.create_consumer(queue)
        self.assertEqual(self.texts(consumer, COUNT - COUNT // 2), [f"m{number}" for number in range(COUNT // 2, COUNT)])
        self.assertIsNone(consumer.receive(500))

    def _acknowledges(self, context: JMSContext) -> None:
        try:
            context.acknowledge()
        except JMSException:
            return

    def test_nobody_who_is_only_slow_to_answer_is_taken_over_and_a_second_broker_of_one_id_is_refused(self) -> None:
        """A member whose loop stands still for longer than the detection stamps its row all the same (openmq 69)."""
        self.members.running[0].send_signal(signal.SIGUSR1)
        until = time.monotonic() + HELD_UP_SECONDS + 1
        other = self.enhanced.folder / "other"
        other.mkdir()
        before = self.enhanced.rows()[1].owner
        port = ReservedPort()
        self.addCleanup(port.close)
        with self.assertRaisesRegex(AssertionError, "a broker of this id runs at"):
            Broker([sys.executable, "-m", *self.enhanced.program(1, str(other)), *(str(port.number) for _ in range(2))], other)
        self.assertEqual(self.enhanced.rows()[1].owner, before)
        time.sleep(max(until - time.monotonic(), 0))
        self.assertEqual({self.enhanced.state(number) for number in range(3)}, {State.OPERATING})
        self.wait_for(0, "is linked")
