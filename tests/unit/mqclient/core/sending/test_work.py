"""What a session has begun comes before the close that is called after it."""

from __future__ import annotations

from mqclient.errors import ObjectClosedError, TransactionRolledBackError
from mqclient.wire.packets import (
    SessionSend,
)
from tests.support.network import pending
from tests.unit.mqclient.core.session.order import OrderTestCase


class CloseTests(OrderTestCase):
    def test_it_waits_for_what_was_begun(self) -> None:
        for what in ("producer", "session", "session.factory", "world.locator"):
            self.start()
            self.block()
            sends = self.sends(3, durable=False)
            closing = self.close(what)
            self.world.network.stir()
            self.assertTrue(pending(closing))
            self.grant()
            self.world.finish(closing)
            for send in sends:
                self.world.finish(send)
            self.assertEqual(len(self.broker.got(SessionSend)), 3)

    def test_what_is_begun_after_it_is_refused(self) -> None:
        self.start()
        self.block()
        [send] = self.sends(1, durable=False)
        closing = self.session.close()
        self.failure(ObjectClosedError, self.producer.send(self.session.create_message()))
        self.grant()
        self.world.finish(closing)
        self.world.finish(send)

    def test_an_open_transaction_is_not_waited_for(self) -> None:
        self.start(transacted=True)
        self.block()
        sends = self.sends(2)
        commit = self.session.commit()
        self.world.finish(self.session.close())
        for call in (*sends, commit):
            self.assertRaises((ObjectClosedError, TransactionRolledBackError), self.world.finish, call)
        self.assertNotIn("SESS_COMMIT", self.told())

    def test_a_connection_that_is_away_is_not_waited_for(self) -> None:
        self.start(reconnect_attempts=-1)
        self.block()
        [send] = self.sends(1)
        self.world.network.brokers.clear()
        self.world.network.link.cut()
        self.world.finish(self.session.close())
        self.failure(ObjectClosedError, send)

    def test_several_blocked_sessions_are_waited_for_at_once(self) -> None:
        self.start(call_timeout=1000)
        second = self.world.session(self.session.factory)
        producer = self.world.finish(second.create_producer("a"))
        self.block()
        second.flow._addresses["a"].credits.balance = 0
        sends = [*self.sends(1), producer.send(second.create_message())]
        closing = self.world.locator.close()
        self.world.advance(1.1)
        self.world.finish(closing)
        for send in sends:
            self.failure(ObjectClosedError, send)
