"""Who cancels ``create_session`` leaves nothing behind, on the broker or in the client."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.factories.factory import SessionFactory
from mqclient.errors import SecurityError
from mqclient.wire.packets import CreateSession, CreateSessionResponse, CreateSessionV2, ExceptionResponse, SessionClose
from tests.support.network import ScriptedBroker, World, pending
from tests.unit.mqclient.test_asyncio import AsyncioTests


class RepeatedTests(SynchronousTestCase):
    """The connection fails before the answer has come: the broker may have the session, and not know that its client has lost it."""

    def names(self, **arguments: Any) -> list[str]:
        """Those of the attempts."""
        broker = ScriptedBroker()
        world = World(broker, reconnect_attempts=-1, retry_interval=50)
        factory: SessionFactory = world.factory()
        world.session(factory)  # from here on the requests are CREATESESSION_V2
        broker.silent.add(CreateSessionV2)
        call = factory.create_session(**arguments)
        world.network.stir()
        first = broker.got(CreateSession)[-1].name
        world.network.links[-1].cut()
        broker.silent.clear()
        world.advance(1)
        world.finish(call)
        return [first, broker.got(CreateSession)[-1].name]

    def test_each_attempt_has_a_name_of_its_own(self) -> None:
        names = self.names()
        self.assertEqual((len(names), len(set(names)), "" in names), (2, 2, False))

    def test_the_name_that_was_asked_for_is_kept(self) -> None:
        self.assertEqual(self.names(name="mine"), ["mine", "mine"])


class CancelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, reconnect_attempts=-1, retry_interval=50)
        self.factory: SessionFactory = self.world.factory()
        self.world.session(self.factory)  # from here on the requests are CREATESESSION_V2
        self.broker.silent.add(CreateSessionV2)

    def cancelled(self, call: Any) -> None:
        call.cancel()
        self.failureResultOf(call, CancelledError)

    def answer(self) -> None:
        self.broker.silent.clear()
        self.broker.deliver(1, CreateSessionResponse(self.broker.version))

    def test_in_flight(self) -> None:
        call = self.factory.create_session()
        self.world.network.stir()
        self.cancelled(call)
        self.assertEqual(self.broker.got(SessionClose), [])
        self.answer()
        self.assertEqual(len(self.broker.got(SessionClose)), 1)
        self.assertEqual(len(self.factory.sessions), 1)

    def test_the_next_one_is_not_disturbed(self) -> None:
        first, second = self.factory.create_session(), self.factory.create_session()
        self.world.network.stir()
        self.cancelled(first)
        self.assertTrue(pending(second))
        self.answer()
        session = self.world.finish(second)
        self.assertEqual(self.factory.sessions[-1], session)
        self.assertEqual((len(self.broker.got(SessionClose)), len(self.factory.sessions)), (1, 2))
        self.world.finish(session.close())

    def test_before_its_turn(self) -> None:
        first, second = self.factory.create_session(), self.factory.create_session()
        self.world.network.stir()
        self.cancelled(second)
        self.answer()
        self.world.finish(first)
        self.assertEqual((len(self.broker.got(CreateSessionV2)), len(self.broker.got(SessionClose))), (2, 0))

    def test_while_the_connection_is_away(self) -> None:
        self.world.network.brokers.clear()
        self.world.network.link.cut()
        call = self.factory.create_session()
        self.cancelled(call)
        self.world.network.brokers["61616"] = self.broker
        self.broker.silent.clear()
        self.world.advance(3)
        self.assertEqual(len(self.factory.sessions), 1)

    def test_a_refusal_that_nobody_waits_for(self) -> None:
        call = self.factory.create_session()
        self.world.network.stir()
        self.cancelled(call)
        self.broker.silent.clear()
        self.broker.deliver(1, ExceptionResponse(105, "no"))
        self.broker.answers[CreateSessionV2] = lambda _: ExceptionResponse(105, "no")
        self.assertRaises(SecurityError, self.world.finish, self.factory.create_session())
        self.flushLoggedErrors()
        self.assertEqual(len(self.factory.sessions), 1)

    def test_the_connection_fails_after_it(self) -> None:
        call = self.factory.create_session()
        self.world.network.stir()
        self.cancelled(call)
        self.broker.silent.clear()
        self.world.network.link.cut()
        self.world.advance(3)
        self.assertEqual(len(self.factory.sessions), 1)


class AsyncioCancelTests(unittest.IsolatedAsyncioTestCase):
    asyncSetUp = AsyncioTests.asyncSetUp
    finish = AsyncioTests.finish
    open = AsyncioTests.open

    async def turns(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)
            self.network.stir()  # type: ignore[attr-defined]

    async def test_at_every_turn_of_the_loop(self) -> None:
        for turns in range(12):
            await AsyncioTests.asyncSetUp(self)  # type: ignore[arg-type]
            session = await self.open()  # type: ignore[misc]
            call = asyncio.ensure_future(session.factory.create_session())
            for _ in range(turns):
                await asyncio.sleep(0)
                self.network.stir()  # type: ignore[attr-defined]
            cancelled = call.cancel()
            await self.turns()
            made = len(self.broker.got(CreateSessionV2))  # type: ignore[attr-defined]
            closed = len(self.broker.got(SessionClose))  # type: ignore[attr-defined]
            self.assertEqual((len(session.factory.sessions), made - closed), (1, 1) if cancelled else (2, 2), f"after {turns} turns")
