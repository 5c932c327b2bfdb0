"""Two broker processes of one cluster, which tests may kill."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from unittest import TestCase

from mqclient.jms import ConnectionFactory
from mqclient.jms.connection import Connection
from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>node-{own}</name>
<security-enabled>false</security-enabled>
<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<acceptors><acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<connectors>
<connector name="own">tcp://127.0.0.1:{port}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector>
</connectors>
<cluster-connections><cluster-connection name="cluster">
<connector-ref>own</connector-ref>
<retry-interval>50</retry-interval><max-retry-interval>100</max-retry-interval>
<static-connectors><connector-ref>other</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
<addresses><address name="topic"><multicast/></address></addresses>
</core></configuration>
"""


class ProcessTestCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-killed-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.reserved = [ReservedPort(), ReservedPort()]
        self.ports = [port.number for port in self.reserved]
        self.brokers = [self.start(number) for number in range(2)]
        self.connections: list[Connection] = []

    def tearDown(self) -> None:
        for connection in self.connections:
            connection.close()
        for broker in self.brokers:
            broker.stop()
        for port in self.reserved:
            port.close()

    def start(self, number: int) -> Broker:
        folder = self.folder / f"node-{number}"
        folder.mkdir(exist_ok=True)
        (folder / "broker.xml").write_text(self.configuration(number))
        twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        return Broker([*twistd, "mqbroker", "--config", str(folder / "broker.xml")], folder)

    def configuration(self, number: int) -> str:
        ports = self.ports
        return CONFIGURATION.format(own=number, folder=self.folder / f"node-{number}" / "data", port=ports[number], other=ports[1 - number])

    def connect(self, number: int, client_id: str | None = None) -> Connection:
        connection = ConnectionFactory(f"tcp://127.0.0.1:{self.ports[number]}?useTopologyForLoadBalancing=false").create_connection()
        if client_id is not None:
            connection.client_id = client_id
        connection.start()
        self.connections.append(connection)
        return connection

    def close(self) -> None:
        while self.connections:
            self.connections.pop().close()
