"""Connections to a process that stands still: its kernel accepts them, and the process sees them when it goes on."""

from __future__ import annotations

import unittest
from typing import Any

from tests.simulation.cluster.fabric import HostProcess
from tests.simulation.ha.fabric import GroupFabric
from tests.simulation.network import BrokerTransport
from tests.simulation.world import World


class End:
    """One end of a connection, which keeps what it is told."""

    def __init__(self) -> None:
        self.data = b""
        self.reason = ""

    def received(self, data: bytes) -> None:
        self.data += data

    def lost(self, reason: str) -> None:
        self.reason = reason

    def pause_output(self) -> None: ...

    def resume_output(self) -> None: ...

    data_received = received
    link_lost = lost
    link_paused = pause_output
    link_resumed = resume_output


class FabricTests(unittest.TestCase):
    def setUp(self) -> None:
        self.world = World(1)
        self.fabric = GroupFabric(self.world)
        self.fabric.kernels_accept = True
        self.network = self.fabric.add("broker")
        self.broker, self.client = self.process("broker"), self.process("client")
        self.accepted: list[End] = []
        self.network.listen(self.broker, self.accept)
        self.broker.pause(5.0)
        self.end = End()
        self.links: list[Any] = []
        connecting: Any = self.network.connect(self.client, self.end, 2.0)
        connecting.addCallback(self.links.append)
        self.world.run(1.0)

    def process(self, name: str) -> HostProcess:
        return HostProcess(self.world, name, self.world.generator(name), name, 0)

    def accept(self, transport: BrokerTransport, remote: str) -> End:
        self.accepted.append(End())
        return self.accepted[-1]

    def test_the_kernel_accepts_and_the_process_reads_later(self) -> None:
        (link,) = self.links
        link.write(b"hello")
        self.world.run(3.5)
        self.assertEqual(self.accepted, [])
        self.world.run(1.5)
        (end,) = self.accepted
        self.assertEqual(end.data, b"hello")

    def test_whoever_listens_no_more_when_it_goes_on_ends_the_connection(self) -> None:
        self.network.stop_listening()
        self.world.run(6.0)
        self.assertEqual(self.accepted, [])
        self.assertNotEqual(self.end.reason, "")

    def test_a_process_that_dies_meanwhile_takes_the_connection_with_it(self) -> None:
        self.broker.end()
        self.fabric.process_died(self.broker, False)
        self.network.broker_died(self.broker, False)
        self.world.run(6.0)
        self.assertEqual(self.accepted, [])
        self.assertNotEqual(self.end.reason, "")
