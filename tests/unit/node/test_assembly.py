"""What a broker is put together of for one activation, and again for the next."""

from __future__ import annotations

from tests.unit.node.test_life import StartCase


class AssemblyTests(StartCase):
    def test_a_broker_alone_is_active_at_once(self) -> None:
        life = self.life()
        self.assertEqual(life.state, "stopped")
        life.start()
        self.assertEqual((life.state, life.live(), life.ready()), ("active", None, None))
        self.assertTrue(self.pages[0].is_open and self.listeners[0].is_open)
        self.stopped(life)
        self.assertFalse(self.pages[0].is_open or self.listeners[0].is_open)

    def test_the_same_broker_becomes_active_again_with_what_it_kept(self) -> None:
        life = self.life()
        life.start()
        self.make_queue(life)
        self.stopped(life)
        life.start()
        self.assertIn("q", life.active.messaging.core.queues)
        self.stopped(life)
