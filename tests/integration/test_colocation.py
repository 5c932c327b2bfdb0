"""The places of hosted backups on a real disk, and what is started there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.app import Broker
from mqbroker.colocation import Colocation
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import (
    ClusterConnectionConfiguration,
    ColocatedConfiguration,
    ReplicationConfiguration,
    ScaleDownConfiguration,
    SharedStoreConfiguration,
)
from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.colocated.hosted_configuration import FOLDERS, Hosted, HostingError, hosted_configuration, hosted_name
from mqbroker.ha.proof.copy_record import RECORD_FILE, CopyRecord, CopyState, OtherCopy
from mqbroker.node.parts import StartError
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.nodelock import NodeLock
from mqclient.urls import parse_transport_uri
from tests.support.clock import FakeClock

NODE, OTHER = "6a3e4b9c-8f0f-4d58-9c3a-1d1a2b3c4d5e", "7a3e4b9c-8f0f-4d58-9c3a-1d1a2b3c4d5e"
COPIED, SHARED = ReplicationConfiguration(True), SharedStoreConfiguration(True)


class PlayedBroker:
    def __init__(self, settings: BrokerSettings, failed: Callable[[str], object], stop_wanted: Callable[[], object]) -> None:
        self.settings, self.failed, self.stop_wanted = settings, failed, stop_wanted
        self.state = "stopped"
        self.scales_down = False
        self.cuts = 0
        self.error: Exception | None = None

    def start(self) -> None:
        if self.settings.configuration.acceptors[0].port == 1 + 100 * 2:
            raise StartError("port 201 is taken")
        self.state = "passive"

    def stop(self) -> Deferred[None]:
        self.state = "stopped"
        return succeed(None)

    def cut_short(self) -> None:
        self.cuts += 1


class ProcessTests(SynchronousTestCase):
    def test_the_brokers_of_a_process_know_each_other_as_voters(self) -> None:
        configuration = Configuration(
            connectors={"own": parse_transport_uri("tcp://127.0.0.1:1", "own")},
            cluster_connections=[ClusterConnectionConfiguration("c", "own")],
            replication=replace(COPIED, backup=False),
            colocated=ColocatedConfiguration(COPIED, None),
        )
        host: Any = Broker(BrokerSettings(configuration, Path()), MemoryReactorClock())
        hosted = BrokerSettings(hosted_configuration(configuration, Hosted(1, OTHER, None), None), Path())
        guest = host._colocation._make_broker(hosted, host._store_failed, host.stop)
        self.assertIs(guest._activation._neighbours, host._activation._neighbours)


class ColocationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-colocation-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.files = LocalFileSystem()

    def colocation(self, backup: Any = COPIED, scale_down: ScaleDownConfiguration | None = None) -> Any:
        shared = backup is SHARED
        configuration = Configuration(
            acceptors=[parse_transport_uri("tcp://127.0.0.1:1", "a")],
            connectors={"own": parse_transport_uri("tcp://127.0.0.1:1", "own")},
            cluster_connections=[ClusterConnectionConfiguration("c", "own")],
            shared_store=replace(SHARED, backup=False) if shared else None,
            replication=None if shared else replace(COPIED, backup=False),
            colocated=ColocatedConfiguration(backup, scale_down),
        )
        settings = BrokerSettings(configuration, self.folder, web=("http://localhost:8161",))
        runtime: Any = None
        made: Any = Colocation(
            settings,
            FakeClock(),
            self.files,
            lambda: runtime,
            maybeDeferred,  # type: ignore[arg-type]
            PlayedBroker,
            lambda number: 7,
        )
        return made

    def journal(self, number: int) -> Path:
        return self.folder / f"data/journal{hosted_name(number)}"

    def copied(self, number: int, node_id: str, state: CopyState = CopyState.COMPLETE) -> None:
        self.journal(number).mkdir(parents=True)
        NodeLock(self.files, str(self.journal(number))).write_node_id(node_id)
        record = CopyRecord("a", state, 1, OtherCopy("b", "[]"))
        (self.journal(number) / RECORD_FILE).write_bytes(record.encode())

    # --- places

    def place(self, node_id: str = NODE, *taken: int) -> int:
        found: Hosted = self.successResultOf(self.colocation().find_place(node_id, None, taken))
        return found.number

    def test_the_first_free_place(self) -> None:
        self.assertEqual(self.place(), 1)
        self.assertEqual(self.place(NODE, 0, 1), 2)

    def test_the_copy_of_another_node_may_be_the_newest_one_and_stays(self) -> None:
        self.copied(1, OTHER)
        self.copied(2, OTHER, CopyState.INCOMPLETE)
        self.assertEqual(self.place(), 2)
        self.assertEqual(self.place(NODE, 2), 3)

    def test_the_own_copy_is_used_again(self) -> None:
        self.copied(1, OTHER, CopyState.INCOMPLETE)
        self.copied(2, NODE)
        self.assertEqual(self.place(), 2)

    def test_a_place_that_cannot_be_read_is_left_alone(self) -> None:
        self.copied(1, NODE)
        (self.journal(1) / RECORD_FILE).write_bytes(b"damaged")
        with capturedLogs() as captured:
            self.assertEqual(self.place(), 2)
        self.assertIn("is left alone", formatEvent(captured[0]))

    def test_a_shared_folder_has_to_be_that_of_the_node(self) -> None:
        colocation, journal = self.colocation(SHARED), self.folder / "theirs"
        folders = dict.fromkeys(FOLDERS, str(journal))
        error = self.failureResultOf(colocation.find_place(NODE, folders, ()), HostingError)
        self.assertIn("(it has no node); is it shared?", error.getErrorMessage())
        journal.mkdir()
        NodeLock(self.files, str(journal)).write_node_id(OTHER)
        error = self.failureResultOf(colocation.find_place(NODE, folders, ()), HostingError)
        self.assertIn(f"(it has {OTHER})", error.getErrorMessage())
        self.assertEqual(self.successResultOf(colocation.find_place(OTHER, folders, (1,))), Hosted(2, OTHER, folders))

    def test_what_was_hosted_before(self) -> None:
        self.copied(1, NODE)
        self.copied(2, OTHER)
        self.copied(3, OTHER)
        self.copied(4, NODE, CopyState.INCOMPLETE)
        self.assertEqual(self.colocation()._find_kept(NODE), [Hosted(2, OTHER, None)])
        self.assertEqual(self.colocation(SHARED)._find_kept(NODE), [])

    def hosted_from_the_start(self, backup: Any = COPIED, scale_down: ScaleDownConfiguration | None = None) -> list[str]:
        colocation = self.colocation(backup, scale_down)
        colocation.begun()
        return [each.node_id for each in colocation.figures.hosted]

    def test_what_was_hosted_does_not_wait_until_the_own_broker_is_active(self) -> None:
        self.copied(1, OTHER)
        self.copied(2, NODE)
        (self.folder / "data/journal").mkdir()
        NodeLock(self.files, str(self.folder / "data/journal")).write_node_id(NODE)
        self.assertEqual(self.hosted_from_the_start(), [OTHER])
        for scale_down in (ScaleDownConfiguration(connectors=("own",)), ScaleDownConfiguration(enabled=False)):
            self.assertEqual(self.hosted_from_the_start(scale_down=scale_down), [OTHER])

    def test_what_waits_for_the_own_broker(self) -> None:
        self.copied(1, OTHER)
        self.assertEqual(self.hosted_from_the_start(scale_down=ScaleDownConfiguration()), [])
        self.assertEqual(self.hosted_from_the_start(SHARED), [])

    def test_who_becomes_active_while_what_it_hosts_ends_hosts_nothing_more(self) -> None:
        """It is about to stop, and would leave behind what it begins now."""
        self.copied(1, OTHER)
        colocation = self.colocation()
        colocation._hosting.resume(colocation._find_kept(NODE))
        ending: Deferred[None] = Deferred()
        self.patch(PlayedBroker, "stop", lambda broker: ending)
        stopped = colocation.stop()
        server: Any = None  # nothing is asked of it
        colocation.activated(server)
        ending.callback(None)
        self.successResultOf(stopped)
        self.assertEqual((colocation.figures.hosted, colocation._search, colocation._side), ([], None, None))

    # --- brokers

    def test_what_is_asked_for(self) -> None:
        asked = self.colocation()._request(NODE, 3)
        self.assertEqual((asked.backup_size, asked.node_id, asked.journal_directory), (3, NODE, None))
        asked = self.colocation(SHARED)._request(NODE, 3)
        names = (asked.journal_directory, asked.bindings_directory, asked.large_messages_directory, asked.paging_directory)
        self.assertEqual(names, tuple(str(self.folder / "data" / name) for name in ("journal", "bindings", "largemessages", "paging")))
        self.assertEqual(asked.node_id, NODE)

    def test_a_hosted_broker_says_why_it_ends(self) -> None:
        left: list[str] = []
        failed: list[str] = []
        broker = self.colocation().start(Hosted(1, NODE, None), left.append, failed.append)
        self.assertEqual(broker.settings.web, ())
        self.assertEqual(broker.settings.configuration.journal_directory, "data/journalcolocated_backup_1")
        broker.failed("the disk is full")
        broker.stop_wanted()
        self.assertEqual((failed, left), (["the disk is full"], ["it has given way, or was stopped"]))

    def test_a_copy_is_kept_unless_it_is_certainly_of_no_use(self) -> None:
        self.copied(1, NODE)
        self.copied(2, NODE, CopyState.INCOMPLETE)
        self.copied(3, NODE)
        (self.journal(3) / RECORD_FILE).write_bytes(b"damaged")
        found = [self.successResultOf(self.colocation().keeps(Hosted(number, NODE, None))) for number in (1, 2, 3, 4)]
        self.assertEqual(found, [True, False, True, False])
        self.assertFalse(self.successResultOf(self.colocation().keeps(Hosted(1, OTHER, None))))
        self.assertTrue(self.successResultOf(self.colocation(SHARED).keeps(Hosted(1, NODE, dict.fromkeys(FOLDERS, "/theirs")))))

    def test_a_start_that_is_refused(self) -> None:
        error = self.assertRaises(HostingError, self.colocation().start, Hosted(2, NODE, None), print, print)
        self.assertEqual(str(error), "port 201 is taken")

    def test_a_scale_down_of_a_hosted_broker_is_cut_short(self) -> None:
        colocation = self.colocation()
        first, second = (colocation.start(Hosted(number, NODE, None), print, print) for number in (1, 3))
        self.assertFalse(colocation.scales_down)
        first.scales_down = True
        self.assertTrue(colocation.scales_down)
        colocation.cut_short()
        self.assertEqual((first.cuts, second.cuts), (1, 0))
