"""The heart of home brokers: the broker of a consumer is killed while it holds messages, and a consumer elsewhere gets them all."""

from __future__ import annotations

import threading

from mqclient.jms import AcknowledgeMode
from tests.integration.imq.members import Members

COUNT = 200
HELD = 100
ACKNOWLEDGED = 50
HASTY_MS = 3000
"""The time without a sign of life after which the client gives its connection up."""


class WalkTests(Members):
    def test_a_killed_broker_takes_no_message_along(self) -> None:
        sender = self.context(0)
        queue = sender.create_queue("walk")
        producer = sender.create_producer()
        for number in range(COUNT):
            producer.send(queue, f"{number:04d}" + "x" * 500)
        holder = self.context(1, AcknowledgeMode.CLIENT_ACKNOWLEDGE, f"&consumerWindowSize={HELD * 600}&blockOnAcknowledge=true")
        consumer = holder.create_consumer(holder.create_queue("walk"))
        got = self.texts(consumer, ACKNOWLEDGED)
        holder.acknowledge()
        self.assertEqual([text[:4] for text in got if text], [f"{number:04d}" for number in range(ACKNOWLEDGED)])
        self.members.kill(1)
        self.abandon(holder)
        other = self.context(2)
        again = self.texts(other.create_consumer(other.create_queue("walk")), COUNT - ACKNOWLEDGED)
        self.assertEqual([text[:4] for text in again if text], [f"{number:04d}" for number in range(ACKNOWLEDGED, COUNT)])

    def test_a_hasty_client_waits_for_a_home_that_stands_still(self) -> None:
        """Its connection was lost before the link was: what it held went back behind what it was sent over its next one."""
        client = self.context(0, AcknowledgeMode.CLIENT_ACKNOWLEDGE, f"&connectionTTL={HASTY_MS}&clientFailureCheckPeriod=500")
        queue = client.create_queue("hasty")
        consumer = client.create_consumer(queue)
        away = self.context(1)
        away.create_producer().send(queue, "from away")
        self.assertEqual(self.texts(consumer, 1), ["from away"])
        self.members.running[1].hold_up()
        goes_on = threading.Timer(2 * HASTY_MS / 1000, self.members.running[1].go_on)
        goes_on.start()
        self.addCleanup(goes_on.join)
        client.acknowledge()
        client.create_producer().send(queue, "from here")
        self.assertEqual(self.texts(consumer, 1), ["from here"])
