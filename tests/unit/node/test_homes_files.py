"""A home broker that is an instance of Open Message Queue: its files are read again, and its record is backed up and restored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.instance import ImqStart
from mqbroker.node.life import BrokerLife
from mqbroker.node.parts import StartError
from mqbroker.server.management.registry import ManagementError
from mqbroker.storage.memorystore import MemoryStore
from mqclient.protocol.topology import place
from mqclient.wire import packets as wire
from tests.support.broker import Peer, World
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import MemoryRuntime
from tests.unit.config.imq.support import PROPERTIES, Files, Made
from tests.unit.node.test_life_network import NetworkCase

TEXT = "imq.cluster.brokerlist=here,b\nimq.cluster.masterbroker="
RECORD = "/record"


class InstanceCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.lines: list[str] = []
        lines = self.lines

        def observe(event: Any) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.files = Files({})

    def start(self, master: str = "here", with_files: bool = True, **start: Any) -> World:
        """The instance of :data:`TEXT`, joined to its cluster."""
        text = TEXT + master
        made = Made(text)
        assert made.instance is not None
        made.configuration.security_enabled = False
        self.files.files[PROPERTIES] = text
        clock = FakeClock()
        self.world = World(
            made.configuration,
            clock=clock,
            store=MemoryStore(lambda size: bytes(range(size))),
            imq=replace(made.instance, start=ImqStart(**start)) if with_files else None,
            make_runtime=lambda: MemoryRuntime(clock),
            read_file=self.files.read,
            write_file=lambda path, data: self.files.files.update({path: data.decode("latin-1")}),
        )
        self.world.broker.others.join()
        return self.world

    def homes(self) -> Any:
        clustering = self.world.broker.others.clustering
        assert clustering is not None
        return clustering.homes


class ReloadTests(InstanceCase):
    def test_members_are_those_of_the_changed_file(self) -> None:
        world = self.start()
        self.files.files[PROPERTIES] = TEXT.replace("here,b", "here,c:1") + "here"
        self.successResultOf(self.homes().reload())
        clustering = world.broker.others.clustering
        assert clustering is not None
        self.assertEqual([place(each) for each in clustering.connection_of_homes.places()], [("c", "1")])
        listed = json.loads(world.registry.invoke("imq.broker", "listBrokers", []))["brokers"]
        self.assertEqual([row["address"] for row in listed], ["here:7676", "c:1"])

    def test_without_files_there_is_nothing_to_read(self) -> None:
        self.start(with_files=False)
        self.failureResultOf(self.homes().reload(), ManagementError)


class RecordTests(InstanceCase):
    def test_the_master_backs_its_record_up_and_restores_it(self) -> None:
        self.start(backup=RECORD)
        self.assertIn(RECORD, self.files.files)
        self.files.files[RECORD] = self.files.files[RECORD]
        self.start(restore=RECORD)
        self.assertTrue(any("the change record was restored from /record" in line for line in self.lines), self.lines)

    def test_another_broker_only_says_that_it_is_not_the_master(self) -> None:
        self.start(master="b", backup=RECORD)
        self.assertNotIn(RECORD, self.files.files)
        self.assertTrue(any(line.startswith("-backup /record: ") for line in self.lines), self.lines)

    def test_what_cannot_be_restored_stops_the_start(self) -> None:
        self.assertRaises(StartError, self.start, restore=RECORD)
        self.files.files[RECORD] = "nonsense"
        self.assertRaises(StartError, self.start, restore=RECORD)
        self.files.files[RECORD] = ""
        error = self.assertRaises(StartError, self.start, master="b", restore=RECORD)
        self.assertIn("-restore /record: ", str(error))


class OnceTests(NetworkCase):
    """Resets and backups that a start was told of are not done again when the process becomes active a second time."""

    def started_as(self, **start: Any) -> BrokerLife:
        made = Made(TEXT + "here")
        assert made.instance is not None
        self.configuration = made.configuration
        self.configuration.security_enabled = False
        self.files = Files({})
        life = self.life(
            network=self.network,
            make_runtime=lambda: MemoryRuntime(self.clock),
            read_file=self.files.read,
            write_file=lambda path, data: self.files.files.update({path: data.decode("latin-1")}),
        )
        life.settings.imq = replace(made.instance, start=ImqStart(**start))
        life.start()
        self.settle()
        return life

    def leave_and_return(self, life: BrokerLife) -> None:
        self.cut()
        self.assertEqual(life.state, "stopped")
        self.restore()
        self.assertEqual(life.state, "active")

    def test_messages_are_forgotten_at_the_start_alone(self) -> None:
        life = self.started_as(resets=("messages",))
        session = Peer(self.listeners[-1]).open()  # type: ignore[arg-type]
        session.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        self.settle()
        session.publish()
        self.settle()
        self.assertEqual(self.counts(life), {"q": 1})
        self.leave_and_return(life)
        self.assertEqual(self.counts(life), {"q": 1})
        self.stopped(life)

    def counts(self, life: BrokerLife) -> dict[str, int]:
        return {name: queue.message_count for name, queue in life.active.messaging.core.queues.items() if name == "q"}

    def test_the_record_is_backed_up_at_the_start_alone(self) -> None:
        life = self.started_as(backup=RECORD)
        self.assertIn(RECORD, self.files.files)
        self.files.files.clear()
        self.leave_and_return(life)
        self.assertEqual(self.files.files, {})
        self.stopped(life)
