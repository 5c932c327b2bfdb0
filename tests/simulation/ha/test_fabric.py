"""Connections to a process that stands still: its kernel accepts them, and the process sees them when it goes on."""

from __future__ import annotations

import unittest
from typing import Any

from tests.simulation.cluster.fabric import HostProcess
from tests.simulation.ha.fabric import GroupFabric
from tests.simulation.network import HIGH_WATER, BrokerTransport, Network
from tests.simulation.world import Process, World


class End:
    """One end of a connection, which keeps what it is told."""

    def __init__(self) -> None:
        self.data = b""
        self.reason = ""
        self.waits = False

    def received(self, data: bytes) -> None:
        self.data += data

    def lost(self, reason: str) -> None:
        self.reason = reason

    def pause_output(self) -> None:
        self.waits = True

    def resume_output(self) -> None:
        self.waits = False

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


class InTheMiddleTests(unittest.TestCase):
    """A broker that stands still in the middle of an event hears of nothing before that is over, not even at its last moment."""

    def setUp(self) -> None:
        self.world = World(1)
        self.network = Network(self.world)
        self.broker, self.client = (Process(self.world, name, self.world.generator(name)) for name in ("broker", "client"))
        self.accepted: list[End] = []
        self.network.listen(self.broker, self.accept)
        self.links: list[Any] = []
        self.end = self.connect()
        self.world.run(1.0)
        self.heard: list[Any] = []
        """The knowledge of the broker at the end of the event."""

    def connect(self) -> End:
        end = End()
        connecting: Any = self.network.connect(self.client, end, 5.0)
        connecting.addCallback(self.links.append)
        return end

    def accept(self, transport: BrokerTransport, remote: str) -> End:
        self.transport = transport
        self.accepted.append(End())
        return self.accepted[-1]

    def stand_still(self, seconds: float) -> None:
        """An event of the broker, as long as it lasts."""
        self.broker.pause(seconds)
        self.broker.stand_still(seconds)
        self.heard = [(end.data, end.reason, end.waits) for end in self.accepted]

    def test_bytes_come_when_the_event_is_over(self) -> None:
        self.broker.call_later(0.1, self.stand_still, 0.5)
        self.world.schedule(0.2, self.links[0].write, b"hello")
        self.world.run(1.0)
        self.assertEqual(self.heard, [(b"", "", False)])
        self.assertEqual(self.accepted[0].data, b"hello")

    def test_the_event_lasts_until_those_of_others_are_over(self) -> None:
        other = Process(self.world, "other", self.world.generator("other"))
        self.broker.call_later(0.1, self.stand_still, 0.5)
        other.call_later(0.2, other.stand_still, 2.0)
        self.world.schedule(1.0, self.links[0].write, b"hello")
        self.world.run(5.0)
        self.assertEqual(self.heard, [(b"", "", False)])
        self.assertEqual(self.accepted[0].data, b"hello")

    def test_so_do_connections_and_their_ends(self) -> None:
        self.broker.call_later(0.1, self.stand_still, 0.5)
        self.world.schedule(0.2, self.links[0].abort)
        self.world.schedule(0.2, self.connect)
        self.world.run(1.0)
        self.assertEqual(self.heard, [(b"", "", False)])
        self.assertEqual([end.reason for end in self.accepted], ["reset by the other end", ""])

    def test_so_does_room_for_more(self) -> None:
        def write_much() -> None:
            self.transport.writeSequence([bytes(2 * HIGH_WATER)])
            self.stand_still(3.0)

        self.broker.call_later(0.1, write_much)
        self.world.run(5.0)
        self.assertEqual(self.heard, [(b"", "", True)])
        self.assertEqual(len(self.end.data), 2 * HIGH_WATER)
        self.assertFalse(self.accepted[0].waits)
