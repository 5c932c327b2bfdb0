"""Broker processes that host the backups of each other."""

from __future__ import annotations

from collections.abc import Sequence

from tests.integration.cluster.nodes import ReservedPort
from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.processes import ProcessesCase

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>{name}</name>
<security-enabled>false</security-enabled>
<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<ha-policy>{policy}</ha-policy>
<acceptors><acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<connectors>{connectors}</connectors>
<cluster-connections><cluster-connection name="cluster">
<connector-ref>{name}</connector-ref>
<check-period>1000</check-period><connection-ttl>2000</connection-ttl>
<retry-interval>100</retry-interval>
<message-load-balancing>OFF</message-load-balancing>
<static-connectors>{others}</static-connectors>
</cluster-connection></cluster-connections>
<addresses><address name="q"><anycast><queue name="q"/></anycast></address></addresses>
</core></configuration>
"""
A, B, C, D = "a", "b", "c", "d"
HOSTED = "hosts the backup of this one\n"
HOSTED_NO_LONGER = "hosts the backup of this one no longer"


def hosted_by(name: str) -> str:
    """Stands for the first backup that the broker hosts, in the names of ports."""
    return f"hosted by {name}"


class ColocatedCase(FollowingClients, ProcessesCase):
    """No broker runs yet.  Each may ask each for a backup."""

    names = (A, B)
    store = "shared-store"
    primary = ""
    backup = ""
    """Elements of the policies."""
    voters: Sequence[str] = ()
    """Brokers that only vote."""

    def setUp(self) -> None:
        super().setUp()
        for name in self.names:
            reserved = ReservedPort()
            self.addCleanup(reserved.close)
            self.ports[name], self.ports[hosted_by(name)] = sorted((self.ports[name], reserved.number))

    def colocated_of(self, name: str) -> str:
        """Further elements of ``colocated``."""
        return ""

    def policy(self, name: str) -> str:
        if name in self.voters:
            return "<primary-only/>"
        excludes = "".join(f"<connector-ref>{other}</connector-ref>" for other in self.names if other != name)
        inside = (
            f"<request-backup>true</request-backup><backup-request-retry-interval>300</backup-request-retry-interval>{self.colocated_of(name)}"
            f"<backup-port-offset>{self.ports[hosted_by(name)] - self.ports[name]}</backup-port-offset><excludes>{excludes}</excludes>"
            f"<primary>{self.primary}</primary><backup>{self.backup}</backup>"
        )
        return f"<{self.store}><colocated>{inside}</colocated></{self.store}>"

    def configuration(self, name: str) -> str:
        ports = {each: self.ports[each] for each in self.names}
        connectors = "".join(f'<connector name="{each}">tcp://127.0.0.1:{port}</connector>' for each, port in ports.items())
        others = "".join(f"<connector-ref>{other}</connector-ref>" for other in self.names if other != name)
        return CONFIGURATION.format(
            name=name, folder=self.folder / name, policy=self.policy(name), port=self.ports[name], connectors=connectors, others=others
        )
