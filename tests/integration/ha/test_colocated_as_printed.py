"""The typical configuration of scale-down and backups in the manual, as it is printed there."""

from __future__ import annotations

from pathlib import Path

from tests.integration.cluster.nodes import ReservedPort
from tests.integration.examples.samples import free_udp_port
from tests.integration.ha.colocated import HEAD, HOSTED, A, B, ColocatedCase

PRINTED = (Path(__file__).parents[2] / "unit/config/fixtures/chapters/ha/colocated-scale-down.xml").read_text()
OFFSET = 33
"""From the port of a broker to that of the backup that it hosts, as printed."""
ATTEMPTS_MAX = 100
TEXTS = [f"m{number}" for number in range(50)]
TAIL = """{policy}
<acceptors><acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<connectors><connector name="own">tcp://127.0.0.1:{port}</connector></connectors>
<broadcast-groups><broadcast-group name="told">
<local-bind-address>127.0.0.1</local-bind-address>
<group-address>231.7.7.7</group-address><group-port>{udp}</group-port>
<broadcast-period>200</broadcast-period><connector-ref>own</connector-ref>
</broadcast-group></broadcast-groups>
<discovery-groups><discovery-group name="wahey">
<local-bind-address>127.0.0.1</local-bind-address>
<group-address>231.7.7.7</group-address><group-port>{udp}</group-port>
<refresh-timeout>10000</refresh-timeout>
</discovery-group></discovery-groups>
<cluster-connections>{connections}</cluster-connections>
<addresses><address name="q"><anycast><queue name="q"/></anycast></address></addresses>
</core></configuration>
"""
CONNECTION = """<cluster-connection name="{name}"><address>{address}</address>
<connector-ref>own</connector-ref>
<check-period>2000</check-period><connection-ttl>6000</connection-ttl><retry-interval>100</retry-interval>
<message-load-balancing>OFF</message-load-balancing>
<discovery-group-ref discovery-group-name="wahey"/></cluster-connection>"""


class PrintedTests(ColocatedCase):
    """One broker has the policy as printed, and hosts; the other one asks, in the group of the backups that are hosted."""

    def setUp(self) -> None:
        super().setUp()
        self.udp = free_udp_port()
        self.ports[A] = self.port_with_one_behind()

    def port_with_one_behind(self) -> int:
        """A port for a broker, so that nobody else gets that of the backup that it hosts either."""
        for _ in range(ATTEMPTS_MAX):
            own = ReservedPort()
            try:
                hosted = ReservedPort(own.number + OFFSET)
            except (OSError, OverflowError):
                own.close()
                continue
            self.addCleanup(own.close)
            self.addCleanup(hosted.close)
            return own.number
        raise AssertionError("no two free ports were found")

    def configuration(self, name: str) -> str:
        policy = PRINTED
        if name == B:
            policy = policy.replace("<request-backup>false", "<request-backup>true").replace("purple", "tiddles")
        connections = (("abcdefg", "q"), ("33rrrrr", "none"))
        return (HEAD + TAIL).format(
            name=name,
            folder=self.folder / name,
            policy=policy,
            port=self.ports[name],
            udp=self.udp,
            connections="".join(CONNECTION.format(name=each, address=address) for each, address in connections),
        )

    def test_messages_of_the_dead_broker_are_served_by_the_other_one(self) -> None:
        first, second = self.start_all(A, B)
        second.wait_for(HOSTED)
        first.wait_for("AMQ221024: this replica is in sync")
        self.assertIn("AMQ221049: Activating Replica for node", first.wait_for("as colocated_backup_1"))
        self.send_to(B, *TEXTS)
        second.kill()
        first.wait_for(f"{len(TEXTS)} messages of 1 queues")
        self.assertEqual(self.received(A), TEXTS)
