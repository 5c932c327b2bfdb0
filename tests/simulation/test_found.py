"""What the simulation has found once, asked for directly: the runs of other seeds may miss it when the workload changes."""

from __future__ import annotations

import unittest

from mqclient.core.api import ClientMessage, QueueConfiguration
from tests.simulation.faults import Pause, Schedule, SlowDisk
from tests.simulation.network import TO_BROKER, Cut
from tests.simulation.receivers import TransactedReceiver
from tests.simulation.run import Simulation
from tests.simulation.workload import Actor, AsynchronousSender, BlockingSender
from tests.unit.storage.support import LARGE, Rig, make_message


class ReattachingClient(Simulation):
    """A client that is cut off, and back before the disk has what it sent."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.schedule = Schedule([SlowDisk(0.0, 5.0, 100.0)], [Cut(TO_BROKER, after, False) for after in range(2000, 20000, 4000)])

    def _people(self) -> None:
        self.actors.append(AsynchronousSender(self, "asynchronous0", "orders"))
        self.actors[0].settings.reconnect_attempts = -1
        self.actors[0].settings.retry_interval = 20


class RollingBackReceiver(Simulation):
    """A receiver with a small window that rolls back in the middle of large messages."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.schedule = Schedule()

    def _people(self) -> None:
        for number in range(3):
            sender = BlockingSender(self, f"blocking{number}", "orders")
            sender.large = 0.8
            self.actors.append(sender)
        receiver = TransactedReceiver(self, "orders-receiver0", "orders", True)
        receiver.settings.consumer_window_size = 3000
        self.actors.append(receiver)


class LateClient(Simulation):
    """A client whose first connection falls silent in the handshake, shortly before everything is healed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.schedule = Schedule([], [Cut(TO_BROKER, 10, True)])

    def _people(self) -> None:
        class Late(Actor):
            async def work(self) -> None:
                await self.pause(4.7)
                await self.session()

        self.actors.append(Late(self, "late", connection_ttl=300, client_failure_check_period=100))


class UnansweredClient(Simulation):
    """A client that closes its session while the broker stands still, and takes the connection for whole."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.schedule = Schedule([Pause(1.0, 6.0, -1)])
        self.closed: list[bool] = []

    def _people(self) -> None:
        closed = self.closed

        class Closing(Actor):
            async def work(self) -> None:
                session = await self.session()
                await self.pause(1.5)
                closed.append(await self.close_session(session))

        self.actors.append(Closing(self, "closing", connection_ttl=60_000, client_failure_check_period=30_000))


class EarlyClient(Simulation):
    """A client that notices the silence of its connection before the broker does, and goes on with its temporary queue."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.schedule = Schedule()
        self.got: list[bool] = []

    def _people(self) -> None:
        got = self.got

        class Early(Actor):
            async def work(self) -> None:
                session = await self.session()
                await self.call("create", lambda: session.create_queue(QueueConfiguration(name="replies", durable=False, temporary=True)))
                consumer = await self.consume(session, "replies")
                await self.call("start", session.start)
                producer = await self.call("create producer", lambda: session.create_producer("replies"))
                self.simulation.network.plan([Cut(TO_BROKER, 0, True)])
                while not self.failures:
                    await self.pause(0.1)
                await self.pause(6.0)
                await self.call("send", lambda: producer.send(ClientMessage(durable=False)))
                got.append(await self.call("receive", lambda: consumer.receive(1000)) is not None)

        settings = {"connection_ttl": 5000, "client_failure_check_period": 500, "confirmation_window_size": -1}
        self.actors.append(Early(self, "early", reconnect_attempts=-1, **settings))


class FoundTests(unittest.TestCase):
    def test_what_waits_for_the_disk_is_not_sent_again_by_a_client_that_is_back(self) -> None:
        for seed in range(20):
            result = ReattachingClient(seed).run()
            self.assertEqual(result.violations, [], result.report())

    def test_credits_come_back_for_large_messages_that_were_rolled_back(self) -> None:
        for seed in range(20):
            result = RollingBackReceiver(seed).run()
            self.assertEqual(result.violations, [], result.report())

    def test_the_broker_gives_up_a_client_that_was_cut_off_in_its_handshake(self) -> None:
        for seed in range(5):
            result = LateClient(seed).run()
            self.assertEqual(result.violations, [], result.report())

    def test_a_temporary_queue_outlives_a_connection_that_its_client_misses_first(self) -> None:
        for seed in range(5):
            simulation = EarlyClient(seed)
            got = simulation.got
            result = simulation.run()
            self.assertEqual(result.violations, [], result.report())
            self.assertEqual(got, [True])

    def test_a_session_that_nobody_has_closed_confirms_nothing(self) -> None:
        for seed in range(5):
            simulation = UnansweredClient(seed)
            closed = simulation.closed
            result = simulation.run()
            self.assertEqual(result.violations, [], result.report())
            self.assertEqual(closed, [False])

    def test_a_body_is_there_until_its_acknowledgement_is_durable(self) -> None:
        """The order is that of an acknowledgement: the message lets its body go, and then the batch is committed."""
        rig = Rig()
        rig.start()
        queue = rig.queue()
        body = rig.store.create_large_body(rig.store.next_id())
        body.append(b"x" * 5000)
        body.complete()
        message = make_message(rig.store)
        message.large = body
        batch = rig.store.begin()
        batch.add_message(message, (queue,))
        rig.store.commit(batch)
        rig.settle()
        batch = rig.store.begin()
        batch.acknowledge(queue, message)
        body.release()
        acknowledged = rig.store.commit(batch)
        while rig.disk.list(LARGE):
            self.assertTrue(rig.writer.run_one() or rig.clock.run_due(), "the body is never removed")
        self.assertGreaterEqual(rig.store.synced, acknowledged)
