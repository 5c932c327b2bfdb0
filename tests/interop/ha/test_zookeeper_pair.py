"""Brokers of ours whose sequences come from a real ZooKeeper of three, with clients of both kinds under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue

from mqclient.jms import ConnectionFactory
from mqclient.jms.connection import Connection
from tests.integration.brokers import Broker
from tests.integration.ha.following_clients import FOLLOW as FOLLOWING
from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.pair import BACKUP, PRIMARY
from tests.integration.ha.processes import ProcessesCase
from tests.integration.ha.replicated_pair import CONFIGURATION, COPIED, FAIL_BACK, POLICIES
from tests.interop.ha.clients import FOLLOW, Client, JavaClient, PythonClient
from tests.interop.ha.following import follow
from tests.interop.ha.test_replication import NOTICE
from tests.interop.ha.zookeeper import EnsembleCase

SESSION_MS = 4000
ACTIVE = "this broker may be active at sequence"
TAKEN_OVER = "AMQ221010"
WAITS = "this broker may not be active yet"
LOCK_LOST = "the lock of this broker is lost"
SECONDS = 90.0
"""On a busy machine."""
THIRD = '<connector name="third">tcp://127.0.0.1:{}</connector>', "<connector-ref>third</connector-ref>"


class ZooKeeperCase(EnsembleCase, FollowingClients, ProcessesCase):
    def policy(self, name: str) -> str:
        raise NotImplementedError

    def configuration(self, name: str) -> str:
        ports = [self.ports[name], *(port for other, port in self.ports.items() if other != name)]
        ports += [0] * (3 - len(ports))
        policy = self.policy(name).replace("<replication>", f"<replication>{self.manager_xml(SESSION_MS)}")
        text = CONFIGURATION.format(name=name, folder=self.folder / name, policy=policy, ports=ports)
        return text if ports[2] else text.replace(THIRD[0].format(0), "").replace(THIRD[1], "")

    def connect_to_any(self) -> Connection:
        places = ",".join(f"tcp://127.0.0.1:{port}" for port in self.ports.values())
        connection = ConnectionFactory(f"({places})?{FOLLOWING}&initialConnectAttempts=600").create_connection()
        self.addCleanup(connection.close)
        connection.start()
        return connection

    def first_with(self, line: str, brokers: Mapping[str, Broker], times: Mapping[str, int] = {}) -> str:
        """The name of the first broker that has written ``line`` so many times (once, unless ``times`` says more)."""
        deadline = time.monotonic() + SECONDS
        while True:
            for name, broker in brokers.items():
                if broker.written.count(line) >= times.get(name, 1):
                    return name
            self.assertLess(time.monotonic(), deadline, f"no broker writes {line!r}")
            time.sleep(0.1)

    def contents(self) -> set[str]:
        """The texts in the queue of whoever is active; they stay there."""
        connection = self.connect_to_any()
        session = connection.create_session()
        found = {str(message.text) for message in session.create_browser(session.create_queue("q"))}  # type: ignore[attr-defined]
        connection.close()
        return found


class Load:
    """One sender, and what was acknowledged to it."""

    def __init__(self, case: ZooKeeperCase) -> None:
        self.kept: set[str] = set()
        self._acknowledged: SimpleQueue[str] = SimpleQueue()
        self._done = threading.Event()
        arguments = case.connect_to_any(), self._acknowledged, self._done
        self._thread = threading.Thread(target=case.send, args=arguments, daemon=True)
        self._thread.start()
        self.go_on()

    def go_on(self, count: int = 50) -> None:
        """Return when so many more were acknowledged."""
        for _ in range(self._acknowledged.qsize() + count):
            self.kept.add(self._acknowledged.get(timeout=SECONDS))

    def end(self) -> None:
        self._done.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        while not self._acknowledged.empty():
            self.kept.add(self._acknowledged.get())


class PairCase(ZooKeeperCase):
    names = (PRIMARY, BACKUP)
    options = ""

    def policy(self, name: str) -> str:
        return POLICIES[name].format(options=self.options)

    def setUp(self) -> None:
        super().setUp()
        self.primary = self.start(PRIMARY)
        self.backup = self.start(BACKUP, COPIED)


class FollowTests(PairCase):
    options = FAIL_BACK

    def kill(self) -> None:
        self.primary.kill()
        self.backup.wait_for(TAKEN_OVER)

    def bring_back(self) -> None:
        self.primary = self.start(PRIMARY)
        self.backup.wait_for(COPIED, times=2)

    def lose_the_leader(self) -> None:
        """Neither broker minds; then the primary stops in order."""
        self.ensemble.kill_leader()
        self.primary.stop()
        self.backup.wait_for(TAKEN_OVER, times=2)

    def bring_back_and_stand_still(self) -> None:
        """The primary sleeps for longer than its session: when it wakes up it has no lock, and ends."""
        self.primary = self.start(PRIMARY)
        self.backup.wait_for(COPIED, times=3)
        self.primary.hold_up()
        self.backup.wait_for(TAKEN_OVER, times=3)
        self.primary.go_on()
        self.primary.wait_for(LOCK_LOST)
        self.primary.ended()

    def test_clients_follow_to_the_backup_and_back(self) -> None:
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0")]
        for client in clients:
            self.addCleanup(client.close)
        events: tuple[Callable[[], None], ...] = (self.kill, self.bring_back, self.lose_the_leader, self.bring_back_and_stand_still)
        follow(f"tcp://127.0.0.1:{self.ports[PRIMARY]}?{FOLLOW}&{NOTICE}", clients, events)


class EnsembleTests(PairCase):
    def test_an_ensemble_that_is_away_for_longer_than_the_session_under_load(self) -> None:
        load = Load(self)
        self.ensemble.kill()
        self.primary.wait_for(LOCK_LOST)
        self.primary.ended()
        self.backup.wait_for(WAITS)
        again = self.start(PRIMARY, WAITS)
        # Nobody is active, however long it takes.
        self.assertNotIn(TAKEN_OVER, self.backup.written)
        self.ensemble.start()
        brokers = {PRIMARY: again, BACKUP: self.backup}
        self.first_with(ACTIVE, brokers)
        load.go_on()
        self.first_with(COPIED, brokers, {BACKUP: 2})
        load.end()
        self.assertEqual(load.kept - self.contents(), set())


PEER = """<replication><primary><coordination-id>peer-journal-001</coordination-id>
<retry-replication-wait>200</retry-replication-wait></primary></replication>"""
FIRST_LINE = "[mqbroker"


class CompetingTests(ZooKeeperCase):
    names = ("a", "b", "c")

    def policy(self, name: str) -> str:
        return PEER

    def test_after_an_outage_of_all_the_newest_data_go_on_whoever_starts_first(self) -> None:
        brokers = {"a": self.start("a"), "b": self.start("b", COPIED)}
        sent: set[str] = set()
        for order in ("abc", "bca", "cab"):
            load = Load(self)
            load.end()
            sent |= load.kept
            for broker in brokers.values():
                broker.kill()
            brokers = {name: self.start(name, FIRST_LINE) for name in order}
            self.first_with(ACTIVE, brokers)
            self.first_with(COPIED, brokers)
            self.assertEqual(sent - self.contents(), set())
