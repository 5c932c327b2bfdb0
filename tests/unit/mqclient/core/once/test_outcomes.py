"""Questions in sessions of their own; what becomes of commits is in ``session/test_commits``."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from mqclient.core.once.ids import COMMITS_ADDRESS
from mqclient.core.once.outcomes import in_session
from mqclient.errors import QueueDoesNotExistError
from mqclient.wire.packets import CreateQueueV2, QueueQuery
from tests.unit.mqclient.core.once.broker import OnceTestCase


class OutcomeTests(OnceTestCase):
    def ask(self, function: Any) -> Any:
        return Deferred.fromCoroutine(in_session(self.factory.create_session, function))

    def test_a_question_is_asked_again_when_its_answer_is_lost(self) -> None:
        self.start()
        self.broker.lost_answers.append(QueueQuery)
        found = self.ask(lambda session: session.queue_query("q"))
        self.world.advance(2)
        self.assertEqual(self.world.finish(found).name, "q")
        self.assertEqual(len(self.factory.sessions), 1)

    def test_an_error_of_the_broker_is_raised_and_the_session_closed(self) -> None:
        self.start()

        async def fail(session: Any) -> None:
            raise QueueDoesNotExistError("no")

        self.failure(QueueDoesNotExistError, self.ask(fail))
        self.assertEqual(len(self.factory.sessions), 1)

    def test_the_queue_of_commits_is_made_once_and_takes_nothing(self) -> None:
        self.start(transacted=True)
        self.broker.queue_info = {"exists": False}
        for body in (b"one", b"two"):
            self.world.finish(self.send(body))
            self.world.finish(self.session.commit())
        [made] = self.broker.got(CreateQueueV2)
        self.assertEqual((made.queue_name, made.address, made.filter_string), (COMMITS_ADDRESS, COMMITS_ADDRESS, "AMQPriority < 0"))
        self.assertTrue(made.durable)
