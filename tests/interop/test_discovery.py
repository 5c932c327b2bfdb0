"""Discovery by UDP between unchanged Java and Python, on the loopback interface."""

from __future__ import annotations

from pathlib import Path

from mqbroker.cluster.membership.broadcast import BroadcastGroup
from mqbroker.config.model.cluster import BroadcastGroupConfiguration
from mqclient.blocking import get_runner
from mqclient.core.api import TransportConfiguration
from mqclient.core.connection.configuration import NETTY_CONNECTOR
from mqclient.jms import ConnectionFactory
from mqclient.protocol.discovery import UdpEndpoint
from tests.interop import instance
from tests.interop.artemis import ArtemisBroker
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.processes import free_port
from tests.interop.puppet import Puppet

GROUP = "239.255.77.20"
GROUPS = """
      <connectors><connector name="self">tcp://127.0.0.1:{port}</connector></connectors>
      <broadcast-groups>
         <broadcast-group name="bg">
            <local-bind-address>127.0.0.1</local-bind-address>
            <group-address>{group}</group-address>
            <group-port>{group_port}</group-port>
            <broadcast-period>500</broadcast-period>
            <connector-ref>self</connector-ref>
         </broadcast-group>
      </broadcast-groups>
"""


def test_a_java_client_finds_the_broker(java: None, tmp_path: Path) -> None:
    group_port = free_port()
    broker = MqbrokerProcess(tmp_path)
    broker.start()
    runner = get_runner()
    try:
        # Another connector first in the datagram, where nobody is: Java takes the last, which is the first one here.
        connectors = [
            TransportConfiguration(name, NETTY_CONNECTOR, (("port", str(port)), ("host", "127.0.0.1")))
            for name, port in (("self", broker.port), ("other", free_port()))
        ]
        configuration = BroadcastGroupConfiguration("bg", UdpEndpoint(GROUP, group_port, "127.0.0.1"), 500)
        group = BroadcastGroup(configuration, connectors, runner.runtime, "5b2ad6f7-e529-11f1-85f0-02fc00000001")
        runner.call(group.start)
        try:
            with Puppet() as client:
                reached = client.connect("c", f"udp://{GROUP}:{group_port}?localBindAddress=127.0.0.1")
                assert str(broker.port) in reached
        finally:
            runner.call(group.stop)
    finally:
        broker.stop()


def test_mqclient_finds_artemis(java: None, tmp_path: Path) -> None:
    group_port, port = free_port(), free_port()
    core = GROUPS.format(group=GROUP, group_port=group_port, port=port)
    broker = ArtemisBroker(tmp_path / "artemis", instance.Additions(core=core), port)
    broker.start()
    try:
        url = f"udp://{GROUP}:{group_port}?localBindAddress=127.0.0.1"
        with ConnectionFactory(url, user=instance.USER, password=instance.PASSWORD) as factory, factory.create_context() as context:
            context.create_producer().send(context.create_queue("found"), "by discovery")
            assert context.create_consumer(context.create_queue("found")).receive_body(20_000) == "by discovery"
    finally:
        broker.stop()
