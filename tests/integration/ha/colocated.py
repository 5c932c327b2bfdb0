"""Broker processes that host the backups of each other."""

from __future__ import annotations

from collections.abc import Sequence

from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort
from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.pair import CONFIGURATION, FOLDERS
from tests.integration.ha.processes import ProcessesCase
from tests.integration.ha.replicated_pair import COPIED

HEAD = CONFIGURATION.partition("<ha-policy>")[0].replace("{store}", FOLDERS)
"""Name, folders and password, as pairs have them."""
TAIL = """<acceptors><acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<connectors>{connectors}</connectors>
<cluster-connections><cluster-connection name="cluster">
<connector-ref>{name}</connector-ref>
<check-period>2000</check-period><connection-ttl>6000</connection-ttl>
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
    asking: Sequence[str] = (A, B, C, D)
    """Those that have a backup of their own."""
    excludes_own = False
    """Is a hosted backup announced at the place of its host?"""
    ready = "AMQ221031"
    """Written by a host whose backup may take over."""
    activating = "AMQ221050"
    """Written by a broker that begins to host a backup."""

    def setUp(self) -> None:
        super().setUp()
        for name in self.names:
            reserved = ReservedPort()
            self.addCleanup(reserved.close)
            self.ports[name], self.ports[hosted_by(name)] = sorted((self.ports[name], reserved.number))

    def both(self) -> tuple[Broker, Broker]:
        """Each hosts the backup of the other one."""
        first, second, *_ = self.start_all(A, B, *self.voters)
        for broker in (first, second):
            broker.wait_for(HOSTED)
            broker.wait_for(self.ready)
        return first, second

    def fail_over(self, name: str) -> None:
        """Let management stop an active broker."""
        session = self.connect(name).create_session()
        request = session.create_text_message("[]")
        request.set_string_property("_AMQ_ResourceName", "broker")
        request.set_string_property("_AMQ_OperationName", "forceFailover")
        session.create_producer("queue://activemq.management").send(request)

    def colocated_of(self, name: str) -> str:
        """Further elements of ``colocated``."""
        return ""

    def policy(self, name: str) -> str:
        if name in self.voters:
            return "<primary-only/>"
        excludes = "".join(f"<connector-ref>{other}</connector-ref>" for other in self.names if other != name or self.excludes_own)
        inside = (
            f"<request-backup>{str(name in self.asking).lower()}</request-backup>"
            f"<backup-request-retry-interval>300</backup-request-retry-interval>{self.colocated_of(name)}"
            f"<backup-port-offset>{self.ports[hosted_by(name)] - self.ports[name]}</backup-port-offset><excludes>{excludes}</excludes>"
            f"<primary>{self.primary}</primary><backup>{self.backup}</backup>"
        )
        return f"<{self.store}><colocated>{inside}</colocated></{self.store}>"

    def configuration(self, name: str) -> str:
        ports = {each: self.ports[each] for each in self.names}
        connectors = "".join(f'<connector name="{each}">tcp://127.0.0.1:{port}</connector>' for each, port in ports.items())
        others = "".join(f"<connector-ref>{other}</connector-ref>" for other in self.names if other != name)
        return (HEAD + "<ha-policy>{policy}</ha-policy>" + TAIL).format(
            name=name, folder=self.folder / name, policy=self.policy(name), port=self.ports[name], connectors=connectors, others=others
        )


class ReplicatedCase(ColocatedCase):
    """Two more brokers vote: neither of the two others could go on without a third one that is not lost with it."""

    names = (A, B, C, D)
    voters = (C, D)
    store = "replication"
    primary = "<retry-replication-wait>200</retry-replication-wait>"
    backup = "<retry-replication-wait>200</retry-replication-wait><allow-failback>true</allow-failback>"
    ready = COPIED
    activating = "AMQ221049"
