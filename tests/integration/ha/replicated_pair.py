"""A replicated pair of broker processes and a third broker that votes, which tests may kill."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.integration.ha.pair import BACKUP, PRIMARY
from tests.integration.ha.processes import ProcessesCase

# A busy machine that stands still for some seconds is no reason to take over.
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
<check-period>2000</check-period><connection-ttl>6000</connection-ttl>
<retry-interval>100</retry-interval>
<static-connectors><connector-ref>second</connector-ref><connector-ref>third</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
<addresses><address name="q"><anycast><queue name="q"/></anycast></address></addresses>
</core></configuration>
"""
VOTER = "voter"
POLICIES = {
    PRIMARY: "<replication><primary><retry-replication-wait>200</retry-replication-wait></primary></replication>",
    BACKUP: "<replication><backup><retry-replication-wait>200</retry-replication-wait>{options}</backup></replication>",
    VOTER: "<primary-only/>",
}
IN_SYNC = "AMQ221024"
"""Written by both brokers of the pair."""
COPIED = "AMQ221024: this replica is in sync"
TAKEN_OVER = "AMQ221010"
FAIL_BACK = "<allow-failback>true</allow-failback>"


class ReplicatedPairCase(ProcessesCase):
    """No broker runs yet."""

    names = tuple(POLICIES)
    options = ""
    """Elements of the backup's policy."""

    def configuration(self, name: str) -> str:
        ports = [self.ports[name], *(port for other, port in self.ports.items() if other != name)]
        policy = POLICIES[name].format(options=self.options)
        return CONFIGURATION.format(name=name, folder=self.folder / name, policy=policy, ports=ports)


class EventfulPairCase(ReplicatedPairCase):
    """The primary is active, its replica in sync, and a third broker votes.  Each event makes the other broker the active one."""

    options = FAIL_BACK

    def setUp(self) -> None:
        super().setUp()
        self.start(VOTER)
        self.primary = self.start(PRIMARY)
        self.backup = self.start(BACKUP, COPIED)

    @property
    def events(self) -> Sequence[Callable[[], None]]:
        """In this order."""
        return self.kill, self.bring_back, self.stand_still, self.stop

    def kill(self) -> None:
        self.primary.kill()
        self.backup.wait_for(TAKEN_OVER)

    def bring_back(self) -> None:
        self.primary = self.start(PRIMARY)
        self.backup.wait_for(COPIED, times=2)

    def stand_still(self) -> None:
        """No connection of the primary ends, and it says nothing, until the backup is active.  Then it gives way, and comes back.

        Java clients stay with such a broker as long as its machine accepts connections.
        """
        self.primary.hold_up()
        self.backup.wait_for(TAKEN_OVER, times=2)
        self.primary.go_on()
        self.primary.wait_for("AMQ221007", times=2)
        self.backup.wait_for(COPIED, times=3)

    def stop(self) -> None:
        self.primary.stop()
        self.backup.wait_for(TAKEN_OVER, times=3)
