"""The shell for threads and distributed transactions: sends that nobody waits for belong to the branch, and their failures to its end."""

from __future__ import annotations

import os
from typing import Any

from mqclient.blocking import Runner
from mqclient.core.api import LocatorSettings
from mqclient.jms.xa import XAResource
from mqclient.wire.packets import (
    ProducerCredits,
    ProducerFailCredits,
    ProducerRequestCredits,
    SessionSend,
    XaEnd,
    XaResponse,
    XaRollback,
    XaStart,
)
from mqclient.xa import TMSUCCESS, XA_RBOTHER, XAER_RMFAIL, XAError, Xid
from tests.integration.mqclient.test_blocking import ThreadsTestCase

BRANCH = Xid(1, b"transaction", b"branch")


class BranchTests(ThreadsTestCase):
    def begin(self, runner: Runner) -> tuple[Any, Any, Any, Any]:
        """Locator, session, producer and resource, with one message sent in a branch."""
        self.broker.answers.update({kind: lambda _: XaResponse(False, 0) for kind in (XaStart, XaEnd, XaRollback)})
        locator = runner.locator(self.connectors(), LocatorSettings(call_timeout=5000, producer_window_size=2000))
        session = runner.call(runner.call(locator.create_session_factory).create_session, xa=True)
        sender = runner.sender(session)
        resource = XAResource(runner, session.xa_resource, sender)
        producer = sender.create_producer("q")
        resource.start(BRANCH)
        producer.send(session.create_message())
        return locator, session, producer, resource

    async def test_the_end_comes_after_all_sends(self) -> None:
        def work(runner: Runner) -> list[str]:
            locator, session, producer, resource = self.begin(runner)
            for _ in range(50):
                producer.send(session.create_message())
            resource.end(BRANCH)
            names = [packet.NAME for _, packet in self.broker.received_packets if isinstance(packet, (SessionSend, XaEnd))]
            runner.call(locator.close)
            return names

        self.assertEqual(await self.in_thread(work), ["SESS_SEND"] * 51 + ["SESS_XA_END"])

    async def test_the_end_says_that_a_send_has_failed(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session, producer, resource = self.begin(runner)
            self.broker.answers[ProducerRequestCredits] = lambda packet: ProducerFailCredits(packet.credits, packet.address)
            message = session.create_message()
            message.body = bytes(3000)
            with self.held(runner):
                producer._gate(None).allowed += 10_000
                producer.send(message)
            error = self.assertRaises(XAError, resource.end, BRANCH, TMSUCCESS)
            found: list[Any] = [error.error_code, self.broker.got(XaEnd)[0].failed, resource.current]
            found.append(self.assertRaises(XAError, resource.prepare, BRANCH).error_code)
            resource.rollback(BRANCH)
            runner.call(locator.close)
            return found

        self.assertEqual(await self.in_thread(work), [XA_RBOTHER, True, None, XAER_RMFAIL])

    async def test_rollback_drops_what_waits(self) -> None:
        def work(runner: Runner) -> int:
            locator, session, producer, resource = self.begin(runner)
            self.broker.answers[ProducerRequestCredits] = lambda packet: None
            with self.held(runner):
                producer._gate(None).allowed += 100_000
                for _ in range(50):
                    producer.send(session.create_message())
            resource.rollback(BRANCH)
            before = self.broker.sent
            self.broker.answers[ProducerRequestCredits] = lambda packet: ProducerCredits(packet.credits, packet.address)
            runner.call(session.flow.granted, "q", 100_000)
            resource.start(BRANCH)
            resource.end(BRANCH)
            runner.call(locator.close)
            return self.broker.sent - before

        self.assertEqual(await self.in_thread(work), 0)

    async def test_a_reactor_that_has_stopped(self) -> None:
        def work(runner: Runner) -> int:
            _, _, _, resource = self.begin(runner)
            runner.reactor.callFromThread(runner.reactor.stop)
            while runner.usable:
                os.sched_yield()
            return self.assertRaises(XAError, resource.end, BRANCH).error_code

        self.assertEqual(await self.in_thread(work), XAER_RMFAIL)
