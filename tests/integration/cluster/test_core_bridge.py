"""A core bridge from one broker to another over loopback, through a restart of the target."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.core_bridge import CoreBridges
from mqbroker.config.model.cluster import BridgeConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.embedded import EmbeddedBroker
from mqclient.blocking import get_runner
from mqclient.jms import ConnectionFactory, JMSContext
from mqclient.twisted import TwistedRuntime
from mqclient.wire.primitives import TransportConfiguration
from tests.integration.cluster.nodes import ReservedPort

WAIT_SECONDS = 20.0


def connector(port: int) -> TransportConfiguration:
    return TransportConfiguration("target", "netty", (("host", "127.0.0.1"), ("port", str(port))))


class BridgedBrokers:
    """A broker with the bridge ``bridge`` from its queue ``source`` to ``address`` of the broker at ``port``."""

    def __init__(self, port: int, address: str, **options: object) -> None:
        self.broker = EmbeddedBroker().start()
        with ConnectionFactory(self.broker.url).create_context() as context:
            context.create_consumer(context.create_queue("source")).close()
            context.create_producer().send(context.create_queue("source"), "kept for the bridge")
        self._runner = get_runner()
        server = self.broker.broker.server
        self.bridges = CoreBridges(server, TwistedRuntime(self._runner.reactor), {"target": connector(port)}, lambda name: None)
        configuration = BridgeConfiguration(
            "bridge",
            "source",
            forwarding_address=address,
            static_connectors=("target",),
            retry_interval=100,
            max_retry_interval=100,
            **options,  # type: ignore[arg-type]
        )
        self._runner.call(lambda: self.bridges.create(configuration))

    def send(self, *bodies: str | bytes) -> None:
        with ConnectionFactory(self.broker.url).create_context() as context:
            producer = context.create_producer()
            for body in bodies:
                producer.send(context.create_queue("source"), body)

    def stop(self) -> None:
        self._runner.call(self.bridges.stop)
        self.broker.stop()


def received(context: JMSContext, queue: str, count: int) -> list[object]:
    consumer = context.create_consumer(context.create_queue(queue))
    found: list[object] = []
    while len(found) < count and (message := consumer.receive(10_000)) is not None:
        found.append(message.body)
    extra = consumer.receive(200)
    consumer.close()
    return found if extra is None else [*found, extra.body]


def wait_until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"not so within {WAIT_SECONDS} s")
        time.sleep(0.02)


class CoreBridgeTests(SynchronousTestCase):
    def test_messages_arrive_once_and_in_order_through_a_restart_of_the_target(self) -> None:
        self.bridge_through_a_restart()

    def test_also_without_a_confirmation_window(self) -> None:
        self.bridge_through_a_restart(confirmation_window_size=-1)

    def bridge_through_a_restart(self, **options: object) -> None:
        reserved = ReservedPort()  # for the time without a target, too
        self.addCleanup(reserved.close)
        port = reserved.number
        with tempfile.TemporaryDirectory() as folder:
            target = EmbeddedBroker(acceptor=f"tcp://127.0.0.1:{port}", data=folder).start()
            bridged = BridgedBrokers(port, "arrived", **options)
            try:
                first = [f"{number}" for number in range(300)]
                bridged.send(*first)
                target.stop()
                bridged.send("in between", bytes(1_000_000))
                configuration = Configuration(security_enabled=False, persistence_enabled=True)
                target = EmbeddedBroker(configuration, acceptor=f"tcp://127.0.0.1:{port}", data=folder).start()
                bridged.send("at the end")
                with ConnectionFactory(target.url).create_context() as context:
                    expected = ["kept for the bridge", *first, "in between", bytes(1_000_000), "at the end"]
                    self.assertEqual(received(context, "arrived", len(expected)), expected)
                bridge = bridged.bridges.find("bridge")
                assert bridge is not None
                wait_until(lambda: bridge.messages_acknowledged >= len(expected) and not bridge.messages_pending)
            finally:
                bridged.stop()
                target.stop()
