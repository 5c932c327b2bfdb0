"""A cluster connection: this broker's part in one cluster, with a link to each other member.

Source: the Artemis manual, chapter "Clusters"; ``protocol-spec/``, chapter "Cluster connections".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from mqbroker.cluster.links.contact import Contact
from mqbroker.cluster.membership.link_metrics import show
from mqbroker.cluster.membership.load import Loads
from mqbroker.cluster.membership.locators import MemberLocators
from mqbroker.cluster.membership.member import Member
from mqbroker.cluster.membership.scanner import Scanner
from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.cluster.membership.twins import Twins
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.core.connection.connection import describe
from mqclient.core.runtime import Runtime
from mqclient.protocol.retry import RetryPlan
from mqclient.protocol.topology import TopologyMember, place, same_place
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqbroker.cluster.membership.discovery import Discovery
    from mqbroker.server.server import Server
    from mqclient.core.factories.factory import SessionFactory

log = Logger(namespace="mqbroker.cluster")

_LOCAL_PARAMETERS = frozenset(("localAddress", "localPort"))


class ClusterConnection:
    """The part of this broker in one cluster, from its announcement to its end; management may stop and start it.

    ``own_connector`` leads other brokers to this one.  ``static`` are connectors of other brokers, ``discovery`` finds such connectors;
    with neither this broker opens no links, but others may open theirs.  ``members`` are the other members by node id, in the order in
    which they became known, and ``loads`` makes what their links carry.
    """

    def __init__(
        self,
        server: Server,
        configuration: ClusterConnectionConfiguration,
        own_connector: TransportConfiguration,
        static: Sequence[TransportConfiguration] | None,
        discovery: Discovery | None,
        runtime: Runtime,
        loads: Loads,
    ) -> None:
        options = server.configuration
        self.configuration = configuration
        self.name = configuration.name
        self.node_id = server.node_id
        self.runtime = runtime
        self.server = server
        self.clock = server.clock
        self.turn = server.turn
        self.own_connector = own_connector
        self.backup_group = None if options.replication is None else options.replication.group_name
        """A replica with a group name pairs only with a broker of the same one."""
        scale_down = options.scale_down if options.colocated is None else options.colocated.scale_down
        self.scale_down_group = None if scale_down is None else scale_down.group_name
        """Brokers of the same group give each other their messages when they leave."""
        self.topology = ClusterTopology(server.node_id, server.clock, stand_ins=loads.stand_ins)
        credentials = ClusterCredentials(options.cluster_user, options.cluster_password)
        self.locators = MemberLocators(configuration, runtime, credentials, self.topology, own_connector)
        self.twins = Twins(runtime, server.node_id, self.locators.separate, self.topology.clear_rival)
        self.topology.contested.subscribe(self.twins.suspect)
        self.members: dict[str, Member] = {}
        self.running = False
        self._static = static
        self._parted: dict[str, int] = {}
        """The members that there is to be no link to, by node id: the announcement up to which that holds."""
        self._discovery = discovery
        self.loads = loads
        self._stopping: list[Any] = []
        self._shown: dict[str, Callable[[], None]] = {}
        """By node id: the function that removes the metrics of the member."""
        self.contact = Contact(runtime, self.places, self.locators.announcing, self._pauses(), self._contact_made)
        self.scanner = Scanner(self, self.locators.silent, configuration.topology_scanner_attempts, configuration.retry_interval)

    # --- life

    def start(self) -> None:
        """Announce this broker, and look for the others; nothing happens while it runs."""
        if self.running:
            return
        configuration = self.configuration
        self.running = True
        self.scanner.start()
        self.twins.start()
        self.topology.own(
            self.own_connector,
            backup_group_name=self.backup_group,
            scale_down_group_name=self.scale_down_group,
            attempts=configuration.notification_attempts,
            interval_ms=configuration.notification_interval,
        )
        self.topology.add_listener(self._topology_changed)  # called at once for the members from before a stop
        if self._opens_links:
            if self._discovery is not None:
                self._discovery.listeners.append(self._discovered)
                self._discovery.rival_listeners.append(self._rival_discovered)
            self.contact.start()
        self.server.notifications.part_changed("CLUSTER_CONNECTION_STARTED", self.name)

    def stop(self) -> list[Any]:
        """Close the links.  Returns the Deferreds of the bridges, which first let messages that are under way arrive.

        A second call returns the same ones: management does not wait for them, but the end of the broker does.
        """
        if not self.running:
            return list(self._stopping)
        self.server.notifications.part_changed("CLUSTER_CONNECTION_STOPPED", self.name)
        self.running = False
        self.topology.remove_listener(self._topology_changed)
        self.topology.stop()
        self.scanner.stop()
        self.twins.stop()
        if self._discovery is not None and self._discovered in self._discovery.listeners:
            self._discovery.listeners.remove(self._discovered)
            self._discovery.rival_listeners.remove(self._rival_discovered)
        self.contact.stop()
        self.loads.stop()
        self._stopping.clear()
        for member in list(self.members.values()):
            member.stop()
        return list(self._stopping)

    @property
    def _opens_links(self) -> bool:
        return self._static is not None or self._discovery is not None

    # --- places

    def places(self) -> list[TransportConfiguration]:
        """The static or the discovered connectors, without those of this broker."""
        found = self._static if self._discovery is None else self._discovery.connectors()
        return [connector for connector in found or () if not same_place(connector, self.own_connector)]

    def unknown_places(self) -> list[TransportConfiguration]:
        """The known places without a member of the topology."""
        # A set, since places and members may be a thousand each.
        known = {place(connector) for member in self.topology for connector in member.connectors}
        return [connector for connector in self.places() if place(connector) not in known]

    def _discovered(self) -> None:
        self.contact.connectors_changed()
        self.scanner.look()

    def _rival_discovered(self, connector: TransportConfiguration) -> None:
        # Places where this node id is announced are none to connect to, so that nobody else tells of the other broker.
        if not same_place(connector, self.own_connector):
            self.topology.contested(connector)

    @property
    def contested_by(self) -> list[str]:
        """The known places of other brokers with the node id of this one; there must be none."""
        found = [describe(connector) for connector in self.twins.places.values()]
        if not found and self._discovery is not None and self.server.node_id in self._discovery.contested:
            found.append("a place that was discovered, and has not answered")
        return found

    def met(self, factory: SessionFactory) -> None:
        """A connection to a broker is up: the broker is a member, also when it was given up and has not announced itself since."""
        node_id = factory.node_id
        if node_id is not None and node_id != self.server.node_id and self.topology.get(node_id) is None:
            self.topology.found_again(TopologyMember(node_id, 0, factory.connector))

    def _contact_made(self, factory: SessionFactory) -> None:
        self.met(factory)
        log.info("cluster connection {name}: connected to the cluster at {place}", name=self.name, place=describe(factory.connector))
        self.scanner.look()

    def _pauses(self) -> RetryPlan:
        configuration = self.configuration
        return RetryPlan(
            configuration.retry_interval, configuration.retry_interval_multiplier, configuration.max_retry_interval, attempts=-1
        )

    # --- members

    def _topology_changed(self, member: TopologyMember, up: bool) -> None:
        known = self.members.get(member.node_id)
        if up and known is None and self.running and self._wants(member):
            self.turn.run(self._member_appeared, member)
        elif up and known is not None:
            known.announced(member)
        elif known is not None:
            known.reported_gone(member)

    def _wants(self, member: TopologyMember) -> bool:
        if member.node_id == self.server.node_id or member.primary is None or not self._opens_links:
            return False
        if member.unique_event_id <= self._parted.get(member.node_id, -1):
            return False
        if not self.configuration.allow_direct_connections_only:
            return True
        return any(_comparable(member.primary) == _comparable(connector, _LOCAL_PARAMETERS) for connector in self._static or ())

    def _member_appeared(self, announced: TopologyMember) -> None:
        member = Member(self, announced, self.loads.load(self, announced))
        self.members[announced.node_id] = member
        self._shown[announced.node_id] = show(self.server.gauges, self.name, member)
        log.info(
            "cluster connection {name}: {node} is a member, at {place}",
            name=self.name,
            node=announced.node_id,
            place="nowhere" if announced.primary is None else describe(announced.primary),
        )
        member.start()

    def part(self, node_id: str) -> None:
        """Close the link to a member, and make no other one until the member announces itself anew, as after its next start."""
        announced, member = self.topology.get(node_id), self.members.get(node_id)
        if announced is not None:
            self._parted[node_id] = announced.unique_event_id
        if member is not None:
            self.turn.run(member.stop)

    def part_no_more(self, node_id: str) -> None:
        """A member that :meth:`part` has parted is one again."""
        announced = self.topology.get(node_id)
        if self._parted.pop(node_id, None) is not None and announced is not None:
            self._topology_changed(announced, True)

    def change_static(self, static: Sequence[TransportConfiguration]) -> None:
        """Other members are at these places from now on; what is elsewhere is a member no more."""
        self._static = list(static)
        self._parted.clear()
        places = {place(connector) for connector in static}
        for announced in list(self.topology):
            if announced.node_id == self.node_id:
                continue
            if any(place(connector) in places for connector in announced.connectors):
                self._topology_changed(announced, True)
            else:
                self.part(announced.node_id)
                self.turn.run(self.topology.lost, announced.node_id)
        if self.running:
            self.contact.connectors_changed()
            self.scanner.look()

    def member_up(self, member: TopologyMember) -> None:
        self.topology.found_again(member)
        self.scanner.look()

    def member_gone(self, member: Member) -> None:
        if self.members.get(member.node_id) is member:
            del self.members[member.node_id]
            self._shown.pop(member.node_id)()
        member.load.forgotten(self.running)
        if self.running:
            self.scanner.look()

    def link_stopping(self, stopped: Any) -> None:
        """The bridge of a member is being stopped; ``stopped`` completes when the bridge has stopped."""
        if not self.running:
            self._stopping.append(stopped)

    # --- for management

    def links(self) -> list[dict[str, Any]]:
        """The figures of the link to each other member; see ``docs/clusters.md``."""
        return [member.describe() for member in self.members.values()]

    def remote_bindings(self) -> Iterator[dict[str, Any]]:
        """The queues that other members have made known."""
        for member in self.members.values():
            for row in member.load.rows():
                yield {**row, "link": member.node_id}


def _comparable(connector: TransportConfiguration, left_out: frozenset[str] = frozenset()) -> tuple[str, dict[str, str]]:
    """The parts of two connectors that must be equal for a direct connection: everything but the name, in the same spelling."""
    return connector.factory_class_name, {key: str(value) for key, value in connector.parameters if key not in left_out}
