"""The queue of commits; what becomes of commits is in ``session/test_commits``."""

from __future__ import annotations

from mqclient.core.once.ids import COMMITS_ADDRESS
from mqclient.wire.packets import CreateQueueV2
from tests.unit.mqclient.core.once.broker import OnceTestCase


class OutcomeTests(OnceTestCase):
    def test_the_queue_of_commits_is_made_once_and_takes_nothing(self) -> None:
        self.start(transacted=True)
        self.broker.queue_info = {"exists": False}
        for body in (b"one", b"two"):
            self.world.finish(self.send(body))
            self.world.finish(self.session.commit())
        [made] = self.broker.got(CreateQueueV2)
        self.assertEqual((made.queue_name, made.address, made.filter_string), (COMMITS_ADDRESS, COMMITS_ADDRESS, "AMQPriority < 0"))
        self.assertTrue(made.durable)
