"""Questions are asked in sessions of their own, until the broker can answer."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from mqclient.core.once.questions import Questions
from mqclient.errors import IllegalStateError, MQError, QueueDoesNotExistError
from mqclient.wire.packets import QueueQuery
from tests.support.network import pending
from tests.unit.mqclient.core.once.broker import OnceTestCase

PATIENCE = 10.0


class QuestionTests(OnceTestCase):
    def ask(self, function: Any) -> Any:
        async def open_session(transacted: bool) -> Any:
            return await self.factory.create_session(auto_commit_sends=not transacted)

        return Deferred.fromCoroutine(Questions(self.session.channel, open_session, PATIENCE).ask(function))

    def refuse(self, *errors: MQError) -> Any:
        """A question that is refused with these errors, one after the other, and then answered."""
        self.asked = 0
        left = list(errors)

        async def function(session: Any) -> str:
            self.asked += 1
            if left:
                raise left.pop(0)
            return "answered"

        return self.ask(function)

    def test_a_question_is_asked_again_when_its_answer_is_lost(self) -> None:
        self.start()
        self.broker.lost_answers.append(QueueQuery)
        found = self.ask(lambda session: session.queue_query("q"))
        self.world.advance(2)
        self.assertEqual(self.world.finish(found).name, "q")
        self.assertEqual(len(self.factory.sessions), 1)

    def test_an_error_of_the_broker_is_raised_and_the_session_closed(self) -> None:
        self.start()
        self.failure(QueueDoesNotExistError, self.refuse(QueueDoesNotExistError("no")))
        self.assertEqual((self.asked, len(self.factory.sessions)), (1, 1))

    def test_a_broker_that_cannot_answer_now_is_asked_again(self) -> None:
        self.start()
        found = self.refuse(IllegalStateError("the database is away"), IllegalStateError("the database is away"))
        self.world.advance(2)
        self.assertEqual(self.world.finish(found), "answered")
        self.assertEqual((self.asked, len(self.factory.sessions)), (3, 1))

    def test_but_not_for_ever(self) -> None:
        self.start()
        found = self.refuse(*[IllegalStateError("the database is away")] * 1000)
        self.world.advance(PATIENCE - 0.1)
        self.assertTrue(pending(found))
        self.world.advance(1)
        self.failure(IllegalStateError, found)

    def test_the_time_without_a_connection_does_not_count(self) -> None:
        self.start()
        found = self.refuse(IllegalStateError("away"), *[IllegalStateError("away")] * 15)
        self.world.advance(1)
        self.away()
        self.world.advance(100, step=1)
        self.back()
        self.world.advance(9)
        self.assertEqual(self.world.finish(found), "answered")

    def test_nobody_asks_for_a_session_that_is_over(self) -> None:
        self.start()
        found = self.refuse(*[IllegalStateError("away")] * 1000)
        self.world.advance(1)
        self.world.finish(self.session.close())
        self.world.advance(1)
        self.failure(IllegalStateError, found)
