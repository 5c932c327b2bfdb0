"""A pair of broker processes with one store, which tests may kill."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from unittest import TestCase

from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>{name}</name>
<security-enabled>false</security-enabled>
<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<ha-policy><shared-store>{policy}</shared-store></ha-policy>
<acceptors><acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<connectors>
<connector name="own">tcp://127.0.0.1:{port}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector>
</connectors>
<cluster-connections><cluster-connection name="cluster">
<connector-ref>own</connector-ref>
<retry-interval>100</retry-interval>
<static-connectors><connector-ref>other</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
<addresses><address name="q"><anycast><queue name="q"/></anycast></address></addresses>
</core></configuration>
"""
PRIMARY, BACKUP = "primary", "backup"


class SharedPairCase(TestCase):
    """The primary is active, and the backup has announced itself."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-shared-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.ports = {}
        for name in (PRIMARY, BACKUP):
            reserved = ReservedPort()
            self.addCleanup(reserved.close)
            self.ports[name] = reserved.number
        self.options = "<failover-on-shutdown>false</failover-on-shutdown>"
        self.primary = self.start(PRIMARY)
        self.backup = self.start(BACKUP, "AMQ221109")
        self.backup.wait_for("AMQ221031")

    def start(self, name: str, line: str = "AMQ221007") -> Broker:
        """Start one, and wait until it has written ``line``."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        other = BACKUP if name == PRIMARY else PRIMARY
        text = CONFIGURATION.format(
            name=name,
            folder=self.folder / "data",
            policy=f"<{name}>{self.options}</{name}>",
            port=self.ports[name],
            other=self.ports[other],
        )
        (folder / "broker.xml").write_text(text)
        twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        broker = Broker([*twistd, "mqbroker", "--config", str(folder / "broker.xml")], folder, line)
        self.addCleanup(broker.stop)
        return broker
