"""Transactions over several homes, with brokers that are killed between the phases."""

from __future__ import annotations

from mqbroker.cluster.links.connectors import announced_form
from mqclient.blocking import Runner, get_runner
from mqclient.core.factories.locator import Locator
from mqclient.core.session.session import Session
from mqclient.core.settings import LocatorSettings
from mqclient.jms import AcknowledgeMode
from mqclient.urls import parse_transport_uri
from mqclient.xa import Xid
from tests.integration.imq.members import SECONDS, Members

BRANCH = Xid(7, b"global", b"branch")


class TransactionTests(Members):
    def send(self, number: int, text: str, queue: str = "work") -> None:
        context = self.context(number)
        context.create_producer().send(context.create_queue(queue), text)

    def left(self, number: int, queue: str = "work", expected: int = 0) -> list[str]:
        """What a consumer at the member still gets, ``expected`` messages perhaps from other homes."""
        context = self.context(number)
        consumer = context.create_consumer(context.create_queue(queue))
        found: list[str] = []
        while (message := consumer.receive(int(SECONDS * 1000) if len(found) < expected else 1500)) is not None:
            found.append(message.text or "")  # type: ignore[union-attr]
        context.close()
        self.abandon(context)
        return sorted(found)

    def restart(self, number: int) -> None:
        self.members.kill(number)
        self.members.restart(number)

    def test_a_commit_over_three_brokers_survives_a_kill_of_each(self) -> None:
        self.send(0, "from 0")
        self.send(2, "from 2")
        worker = self.context(1, AcknowledgeMode.SESSION_TRANSACTED)
        consumer = worker.create_consumer(worker.create_queue("work"))
        self.assertEqual(sorted(text or "" for text in self.texts(consumer, 2)), ["from 0", "from 2"])
        worker.create_producer().send(worker.create_queue("result"), "done")
        worker.commit()
        worker.close()
        self.abandon(worker)
        for number in range(3):
            self.restart(number)
        self.assertEqual((self.left(0), self.left(1, "result", 1)), ([], ["done"]))

    def test_a_rollback_gives_everything_back(self) -> None:
        self.send(0, "from 0")
        self.send(2, "from 2")
        worker = self.context(1, AcknowledgeMode.SESSION_TRANSACTED)
        consumer = worker.create_consumer(worker.create_queue("work"))
        self.texts(consumer, 2)
        worker.rollback()
        self.assertEqual(sorted(text or "" for text in self.texts(consumer, 2)), ["from 0", "from 2"])
        worker.close()
        self.abandon(worker)
        self.assertEqual(self.left(0, expected=2), ["from 0", "from 2"])

    def prepared(self, runner: Runner) -> None:
        """A client's branch at member 1 that has consumed from both others is prepared."""

        async def work() -> None:
            locator, session = await self.xa_session(runner)
            consumer = await session.create_consumer("work")
            await session.start()
            await session.xa_resource.start(BRANCH)
            for _ in range(2):
                message = await consumer.receive(int(SECONDS * 1000))
                assert message is not None
                await consumer.individual_acknowledge(message)
            await session.xa_resource.end(BRANCH)
            await session.xa_resource.prepare(BRANCH)
            await locator.close()

        runner.call(work)

    async def xa_session(self, runner: Runner) -> tuple[Locator, Session]:
        settings = LocatorSettings(reconnect_attempts=0, use_topology_for_load_balancing=False)
        locator = runner.locator([announced_form(parse_transport_uri(self.url(1), "member"))], settings)
        factory = await locator.create_session_factory()
        return locator, await factory.create_session(xa=True)

    def test_a_branch_that_its_transaction_manager_commits_after_a_kill_of_its_broker(self) -> None:
        self.send(0, "from 0")
        self.send(2, "from 2")
        context = self.context(1)
        context.create_consumer(context.create_queue("work")).close()
        runner = get_runner()
        self.prepared(runner)
        self.restart(1)
        self.restart(0)
        self.members.running[1].wait_for("is linked", 3)
        self.assertEqual(self.left(2), [])

        async def commit() -> None:
            locator, session = await self.xa_session(runner)
            assert BRANCH in await session.xa_resource.recover()
            await session.xa_resource.commit(BRANCH)
            await locator.close()

        runner.call(commit)
        for number in range(3):
            self.restart(number)
        self.assertEqual(self.left(2), [])
