"""A replicated pair of processes, and a third broker that votes: the active one is killed or stopped, and clients follow."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from pathlib import Path
from queue import SimpleQueue

from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort
from tests.integration.ha.following_clients import WAIT_MS, FollowingClients

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>{name}</name>
<security-enabled>false</security-enabled>
<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<ha-policy>{policy}</ha-policy>
<acceptors><acceptor name="artemis">tcp://127.0.0.1:{ports[0]}?protocols=CORE</acceptor></acceptors>
<connectors>
<connector name="own">tcp://127.0.0.1:{ports[0]}</connector>
<connector name="second">tcp://127.0.0.1:{ports[1]}</connector>
<connector name="third">tcp://127.0.0.1:{ports[2]}</connector>
</connectors>
<cluster-connections><cluster-connection name="cluster">
<connector-ref>own</connector-ref>
<check-period>1000</check-period><connection-ttl>2000</connection-ttl>
<retry-interval>100</retry-interval>
<static-connectors><connector-ref>second</connector-ref><connector-ref>third</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
<addresses><address name="q"><anycast><queue name="q"/></anycast></address></addresses>
</core></configuration>
"""
POLICIES = {
    "primary": "<replication><primary><retry-replication-wait>200</retry-replication-wait></primary></replication>",
    "backup": "<replication><backup><retry-replication-wait>200</retry-replication-wait>{options}</backup></replication>",
    "voter": "<primary-only/>",
}
START = (
    "from mqbroker.config.broker_xml import cluster_assembly; cluster_assembly.REPLICATION_REFUSED = ''; "
    "from twisted.scripts.twistd import run; run()"
)
IN_SYNC = "AMQ221024"


class ReplicationTests(FollowingClients):
    options = ""
    """Elements of the backup's policy."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-replicated-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.ports = {}
        for name in POLICIES:
            reserved = ReservedPort()
            self.addCleanup(reserved.close)
            self.ports[name] = reserved.number

    def start(self, name: str, line: str = "AMQ221007") -> Broker:
        """Start one, and wait until it has written ``line``."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        ports = [self.ports[name], *(port for other, port in self.ports.items() if other != name)]
        policy = POLICIES[name].format(options=self.options)
        (folder / "broker.xml").write_text(CONFIGURATION.format(name=name, folder=folder, policy=policy, ports=ports))
        command = [sys.executable, "-c", START, "-n", "--pidfile=", "mqbroker", "--config", str(folder / "broker.xml")]
        broker = Broker(command, folder, line)
        self.addCleanup(broker.stop)
        return broker

    def test_a_primary_is_killed_under_load_and_comes_back(self) -> None:
        self.options = "<allow-failback>true</allow-failback>"
        self.start("voter")
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        done = threading.Event()
        acknowledged: SimpleQueue[str] = SimpleQueue()
        kept: set[str] = set()

        def go_on(count: int = 50) -> None:
            for _ in range(count):
                kept.add(acknowledged.get(timeout=WAIT_MS / 1000))

        sender = threading.Thread(target=self.send, args=(self.connect("primary"), acknowledged, done), daemon=True)
        sender.start()
        go_on()
        primary.kill()
        backup.wait_for("AMQ221010")
        go_on(acknowledged.qsize() + 50)
        self.start("primary", "AMQ221007")
        backup.wait_for(IN_SYNC, times=2)
        go_on(acknowledged.qsize() + 50)
        done.set()
        sender.join(WAIT_MS / 1000)
        self.assertFalse(sender.is_alive())
        go_on(acknowledged.qsize())
        self.assertEqual(kept - set(self.received("primary")), set())

    def test_an_orderly_stop_of_a_pair_alone_lets_the_backup_go_on(self) -> None:
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        session = self.connect("primary").create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        primary.stop()
        backup.wait_for("AMQ221010")
        self.assertEqual(self.received("backup"), ["kept"])
