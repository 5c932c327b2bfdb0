"""A pair of broker processes with one store, which tests may kill."""

from __future__ import annotations

from tests.integration.ha.processes import ProcessesCase

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>{name}</name>
<security-enabled>false</security-enabled>
{store}
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
FOLDERS = """<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
"""
PRIMARY, BACKUP = "primary", "backup"


class SharedPairCase(ProcessesCase):
    """The primary is active, and the backup has announced itself."""

    names = (PRIMARY, BACKUP)
    options = "<failover-on-shutdown>false</failover-on-shutdown>"
    """Elements of the policy of both."""

    def setUp(self) -> None:
        super().setUp()
        self.primary = self.start(PRIMARY)
        self.backup = self.start(BACKUP, "AMQ221109")
        self.backup.wait_for("AMQ221031")

    def configuration(self, name: str) -> str:
        other = BACKUP if name == PRIMARY else PRIMARY
        return CONFIGURATION.format(
            name=name,
            store=self.store(name),
            policy=f"<{name}>{self.options}</{name}>",
            port=self.ports[name],
            other=self.ports[other],
        )

    def store(self, name: str) -> str:
        """The elements that say where the messages of both are."""
        return FOLDERS.format(folder=self.folder / "data")
