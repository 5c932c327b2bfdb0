"""Enhanced clusters on a real PostgreSQL: a member frozen in the middle of a transaction, and a server that is started again."""

from __future__ import annotations

import threading
import time
from typing import ClassVar

from mqbroker.process.postgresql import PostgresqlDatabase
from mqbroker.storage.shared.brokers import State
from mqclient.jms import JMSException
from tests.integration.imq.enhanced import EnhancedMembers, EnhancedProcesses
from tests.support.postgresql import PostgresqlServer, common_server

COUNT = 30
AWAY_SECONDS = 2.0


class PostgresqlTests(EnhancedMembers):
    count = 2
    server: ClassVar[PostgresqlServer]
    database: ClassVar[PostgresqlDatabase]

    @classmethod
    def make_cluster(cls) -> EnhancedProcesses:
        cls.server = common_server()
        cls.database = cls.server.database()
        return EnhancedProcesses(cls.count, f"jdbc:{cls.database.name}", cls.database)

    def filled(self, number: int) -> None:
        context = self.context(number)
        producer, queue = context.create_producer(), context.create_queue("orders")
        for each in range(COUNT):
            producer.send(queue, f"m{each}")

    def test_a_member_that_is_frozen_in_a_transaction_holds_nobody_up(self) -> None:
        self.filled(0)
        held = self.database.connect()
        self.addCleanup(held.close)
        held.begin()
        held.run("LOCK TABLE mqbroker_message IN SHARE MODE")
        sender = threading.Thread(target=self._send_in_vain, daemon=True)
        sender.start()
        waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE ?"
        watch = self.database.connect()
        self.addCleanup(watch.close)
        self.until(lambda: watch.rows(waiting, ("%mqbroker_message%",))[0][0] > 0, "its transaction waits in the middle")
        frozen = self.members.running[0]
        frozen.hold_up()
        held.rollback()
        self.taken_over(0)
        at_taker = self.context(1)
        consumer = at_taker.create_consumer(at_taker.create_queue("orders"))
        self.assertEqual(self.texts(consumer, COUNT), [f"m{each}" for each in range(COUNT)])
        frozen.go_on()
        self.wait_for(0, "ends its clients, and starts again")
        self.until(lambda: self.enhanced.state(0) is State.OPERATING, "the frozen one is back")

    def _send_in_vain(self) -> None:
        try:
            context = self.context(0, options="&reconnectAttempts=0")
            context.create_producer().send(context.create_queue("orders"), "in vain")
        except JMSException:
            return

    def test_nobody_is_taken_over_because_the_server_was_started_again(self) -> None:
        self.filled(0)
        before = {number: (row.owner, row.node_id) for number, row in self.enhanced.rows().items()}
        self.server.stop("fast")
        time.sleep(AWAY_SECONDS)
        self.server.start()
        time.sleep(2 * AWAY_SECONDS + 3)
        rows = self.enhanced.rows()
        self.assertEqual({row.state for row in rows.values()}, {State.OPERATING})
        self.assertEqual({number: (row.owner, row.node_id) for number, row in rows.items()}, before)
        context = self.contexts[0]
        consumer = context.create_consumer(context.create_queue("orders"))
        self.assertEqual(self.texts(consumer, COUNT), [f"m{each}" for each in range(COUNT)])

    def test_a_kill(self) -> None:
        self.filled(0)
        self.members.kill(0)
        self.taken_over(0)
        at_taker = self.context(1)
        consumer = at_taker.create_consumer(at_taker.create_queue("orders"))
        self.assertEqual(self.texts(consumer, COUNT), [f"m{each}" for each in range(COUNT)])
