"""What can be seen of a broker that is not active."""

from __future__ import annotations

from mqbroker.server.observation.metrics import render
from tests.unit.node.test_life import PassiveCase


class PassiveControlTests(PassiveCase):
    def test_a_passive_broker_shows_health_and_metrics_and_nothing_else(self) -> None:
        life = self.life(activation=self.activation)
        life.start()
        self.assertEqual((life.state, life.live(), life.ready()), ("passive", None, "the broker is passive (in line)"))
        self.assertTrue(self.pages[0].is_open)
        self.assertEqual(self.listeners, [])
        text = b"".join(render(life.figures())).decode()
        self.assertIn('artemis_active{broker="b"} 0\n', text)
        self.assertIn('artemis_passive{broker="b",role="backup",state="passive"} 1\n', text)
        self.stopped(life)
