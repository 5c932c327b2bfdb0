"""``async with`` on everything that is closed."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire.packets import ConsumerClose, CreateProducer, RemoveProducer, SessionClose
from tests.support.network import ScriptedBroker, World

LAST = (CreateProducer, RemoveProducer, ConsumerClose, SessionClose)


class ClosingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker)
        self.made: list[Any] = []

    async def work(self, error: Exception | None) -> None:
        async with (
            self.world.locator as locator,
            await locator.create_session_factory() as factory,
            await factory.create_session("user", "password") as session,
            await session.create_consumer("q") as consumer,
            await session.create_producer("q") as producer,
        ):
            self.made = [producer, consumer, session, factory]
            self.assertEqual([one.closed for one in self.made], [False] * 4)
            if error is not None:
                raise error

    def test_everything_is_closed_from_the_inside_out(self) -> None:
        self.world.finish(self.world.runtime.spawn(self.work(None)))
        self.assertEqual([one.closed for one in self.made], [True] * 4)
        self.assertEqual([packet.NAME for packet in self.broker.got(*LAST)][1:], [kind.NAME for kind in LAST[1:]])
        self.assertTrue(self.world.network.link.closed_by_client)

    def test_an_error_inside_closes_too_and_goes_on(self) -> None:
        with self.assertRaises(KeyError):
            self.world.finish(self.world.runtime.spawn(self.work(KeyError("inside"))))
        self.assertEqual([one.closed for one in self.made], [True] * 4)

    def test_also_when_the_connection_is_gone(self) -> None:
        async def cut() -> None:
            async with (
                self.world.locator as locator,
                await locator.create_session_factory() as factory,
                await factory.create_session() as session,
                await session.create_producer("q"),
            ):
                self.world.network.link.cut()

        self.world.finish(self.world.runtime.spawn(cut()))
        self.assertEqual(self.world.runtime.failures, [])
