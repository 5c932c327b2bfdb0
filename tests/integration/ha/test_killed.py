"""Broker processes of which one gives its messages to the other: killed on the way, told to stop once more, or asked by management."""

from __future__ import annotations

import json
import signal
import time

from mqclient.jms.connection import Connection
from tests.integration.brokers import Broker
from tests.integration.cluster.processes import ProcessTestCase

COUNT = 1_500
WAIT_MS = 15_000
LEAVE_SECONDS = 180.0
"""Two messages at a time, with two writes to a slow disk each time."""
SCALE_DOWN = """<ha-policy><primary-only><scale-down>
<commit-interval>2</commit-interval><connectors><connector-ref>other</connector-ref></connectors>
</scale-down></primary-only></ha-policy>
</core>"""


class LeavingTestCase(ProcessTestCase):
    scale_down = SCALE_DOWN

    def configuration(self, number: int) -> str:
        text = super().configuration(number)
        return text.replace("</core>", self.scale_down) if number == 0 else text

    def fill(self) -> list[str]:
        session = self.connect(0).create_session(transacted=True)
        producer = session.create_producer(session.create_queue("q"))
        texts = [f"m{number:04}" for number in range(COUNT)]
        for text in texts:
            producer.send(session.create_text_message(text))
        session.commit()
        self.close()
        return texts

    def taken(self) -> list[str]:
        session = self.connect(1).create_session()
        consumer = session.create_consumer(session.create_queue("q"))
        found = []
        while (message := consumer.receive(WAIT_MS if len(found) < COUNT else 300)) is not None:
            found.append(str(message.text))  # type: ignore[attr-defined]
        return found

    def begin_to_leave(self) -> None:
        """Returns when messages are on their way."""
        broker: Broker = self.brokers[0]
        broker._process.terminate()
        session = self.connect(1).create_session()
        browser = session.create_browser(session.create_queue("q"))
        deadline = time.monotonic() + 30
        while not any(True for _ in browser):
            assert time.monotonic() < deadline, "no message has come to the other broker"
            time.sleep(0.02)
        self.close()

    def leave(self) -> None:
        """The broker gives away the rest, however long that takes."""
        self.brokers[0].send_signal(signal.SIGTERM)
        self.brokers[0]._process.wait(LEAVE_SECONDS)

    def told(self) -> str:
        """What the broker that leaves has written."""
        return (self.folder / "node-0" / "output.log").read_text("utf-8", "replace")


class KilledTests(LeavingTestCase):
    def test_the_one_that_leaves_is_killed_on_the_way(self) -> None:
        texts = self.fill()
        self.begin_to_leave()
        self.brokers[0].kill()
        self.brokers[0] = self.start(0)
        self.leave()
        self.assertEqual(self.taken(), texts)

    def test_the_target_is_killed_on_the_way(self) -> None:
        texts = self.fill()
        self.begin_to_leave()
        self.brokers[1].kill()
        self.brokers[1] = self.start(1)
        self.brokers[0]._process.wait(LEAVE_SECONDS)
        self.assertEqual(self.taken(), texts)


class SignalTests(LeavingTestCase):
    # So that the second signal comes on the way, also a second or two later than it should.
    scale_down = SCALE_DOWN.replace("<commit-interval>2<", "<commit-interval>1<")

    def test_a_second_signal_ends_the_moving_and_the_rest_stays(self) -> None:
        texts = self.fill()
        self.begin_to_leave()
        self.brokers[0]._process.send_signal(signal.SIGTERM)
        self.brokers[0]._process.wait(20)
        for text in ("scale-down was cut short", "not complete, ", "AMQ221002"):
            self.assertIn(text, self.told())
        self.brokers[0] = self.start(0)
        self.leave()
        self.assertEqual(self.taken(), texts)


class ManagementTests(LeavingTestCase):
    scale_down = "</core>"

    def ask(self, connection: Connection, *parameters: str | None) -> tuple[bool, object]:
        """Ask for the scale-down; whether it is done, and the result."""
        session = connection.create_session()
        replies = session.create_temporary_queue()
        consumer = session.create_consumer(replies)
        request = session.create_text_message(json.dumps(parameters))
        request.reply_to = replies
        request.properties["_AMQ_ResourceName"] = "broker"
        request.properties["_AMQ_OperationName"] = "scaleDown"
        session.create_producer("queue://activemq.management").send(request)
        reply = consumer.receive(WAIT_MS)
        assert reply is not None
        text = reply.text  # type: ignore[attr-defined]
        return reply.properties["_AMQ_OperationSucceeded"] is True, json.loads(text)[0] if text else None

    def test_a_broker_without_a_policy_gives_its_messages_away_and_stops(self) -> None:
        texts = self.fill()
        connection = self.connect(0)
        done, problem = self.ask(connection, "nowhere")
        self.assertFalse(done)
        self.assertIn("there is no connector nowhere", str(problem))
        self.assertEqual(self.ask(connection, "other"), (True, None))
        self.brokers[0]._process.wait(LEAVE_SECONDS)
        self.assertIn("; complete", self.told())
        self.assertEqual(self.taken(), texts)

    def test_without_a_connector_the_cluster_says_where(self) -> None:
        texts = self.fill()
        self.assertEqual(self.ask(self.connect(0), None), (True, None))
        self.brokers[0]._process.wait(LEAVE_SECONDS)
        self.assertEqual(self.taken(), texts)
