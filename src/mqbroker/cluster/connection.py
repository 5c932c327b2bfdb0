"""A cluster connection: this broker's part in one cluster, with a link to each other member.

Source: the Artemis manual, chapter "Clusters"; ``protocol-spec/``, chapter "Cluster connections".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger

from mqbroker.cluster.grouping.grouping import GroupingHandler, GroupingLink
from mqbroker.cluster.links.contact import Contact
from mqbroker.cluster.links.opening import show_password
from mqbroker.cluster.membership.link_metrics import show
from mqbroker.cluster.membership.member import Link, Member
from mqbroker.cluster.membership.scanner import Scanner
from mqbroker.cluster.membership.store_and_forward import store_and_forward_bridge
from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.cluster.membership.twins import Twins
from mqbroker.cluster.remote_queues.flow import Flow, FlowSettings
from mqbroker.cluster.remote_queues.interests import Interests
from mqbroker.cluster.remote_queues.listening import NotificationRequest
from mqbroker.cluster.remote_queues.rerouting import Rerouting, old_places
from mqbroker.cluster.remote_queues.ways import Ways
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.internal_names import store_and_forward_end, store_and_forward_prefix
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.core.api import LocatorSettings
from mqclient.core.connection.connection import describe
from mqclient.core.connection.reconnect import place, same_place
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime
from mqclient.errors import ClusterSecurityError
from mqclient.protocol.retry import RetryPlan
from mqclient.protocol.topology import TopologyMember
from mqclient.wire.packets import NodeAnnounce
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqbroker.server.server import Server
    from mqclient.core.connection.connection import Connection
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.core.session.session import Session

log = Logger(namespace="mqbroker.cluster")

REFUSERS_MAX = 100
"""Brokers of which the log says that they refuse the cluster password."""

CONTRADICTION_SECONDS = 2.0
"""How long the link to a member must outlive the news that it has left before others are told that it is there."""

_LOCAL_PARAMETERS = frozenset(("localAddress", "localPort"))


class Discovery(Protocol):
    """Finds brokers; see :class:`mqbroker.cluster.membership.discovery.DiscoveryGroup`."""

    def connectors(self) -> Sequence[TransportConfiguration]: ...

    @property
    def listeners(self) -> list[Callable[[], object]]: ...

    @property
    def contested(self) -> Sequence[str]: ...


MakeLink = Callable[["ClusterConnection", Member], Link]
"""Makes the bridge to a member, which tells the member what becomes of it."""


class ClusterConnection:
    """``own_connector`` is how others reach this broker.  ``static`` are places of others, ``discovery`` finds them; with neither no link
    is opened from here, but others may open theirs.

    ``members`` are the links by node id, in the order in which the members were learned of.
    """

    def __init__(
        self,
        server: Server,
        configuration: ClusterConnectionConfiguration,
        own_connector: TransportConfiguration,
        static: Sequence[TransportConfiguration] | None,
        discovery: Discovery | None,
        runtime: Runtime,
        *,
        ways: Ways,
        consumer_appeared: Callable[[RemoteBinding], object],
        make_link: MakeLink = store_and_forward_bridge,
        grouping: GroupingHandler | None = None,
    ) -> None:
        options = server.configuration
        self.configuration = configuration
        self.name = configuration.name
        self.node_id = server.node_id
        self.runtime = runtime
        self.server = server
        self.turn = server.turn
        self.own_connector = own_connector
        self.credentials = ClusterCredentials(options.cluster_user, options.cluster_password)
        self.scale_down_group = None if options.scale_down is None else options.scale_down.group_name
        """Brokers of the same group give each other their messages when they leave."""
        self.topology = ClusterTopology(server.node_id, server.clock)
        self.twins = Twins(runtime, server.node_id, self.open_separate_locator, self.topology.clear_rival)
        self.topology.contested.subscribe(self.twins.suspect)
        self.members: dict[str, Member] = {}
        self.prefix = store_and_forward_prefix(options.internal_naming_prefix)
        self.interests = Interests(
            configuration.address,
            configuration.max_hops,
            options.management_notification_address,
            (self.prefix, options.management_address),
        )
        self.running = False
        self._static = static
        self._discovery = discovery
        self._ways = ways
        self._make_link = make_link
        self._grouping = grouping
        self._consumer_appeared = consumer_appeared
        self._flow_settings = FlowSettings(server.node_id, self.interests, LoadBalancing(configuration.message_load_balancing))
        self._left_over: dict[str, Flow] = {}
        """What members had told when this cluster connection was stopped."""
        self._stopping: list[Any] = []
        self._contradictions: dict[str, Cancellable] = {}
        self._shown: dict[str, Callable[[], None]] = {}
        """What takes the metrics of a member away."""
        self._refused_by: set[str] = set()
        self.reroutings: dict[str, Rerouting] = {}
        """What is being done with the messages for members that have scaled down, by their node ids."""
        self.contact = Contact(runtime, self.places, self.open_locator, self._pauses(), self._contact_made)
        self.scanner = Scanner(self, configuration.topology_scanner_attempts, configuration.retry_interval)

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
            scale_down_group_name=self.scale_down_group,
            attempts=configuration.notification_attempts,
            interval_ms=configuration.notification_interval,
        )
        self.topology.add_listener(self._topology_changed)  # which is told of those from before it was stopped, too
        if self._opens_links:
            if self._discovery is not None:
                self._discovery.listeners.append(self._discovered)
            self.contact.start()
        self.server.notifications.part_changed("CLUSTER_CONNECTION_STARTED", self.name)

    def stop(self) -> list[Any]:
        """Close the links.  Gives what has to be waited for: bridges let messages that are under way arrive first.

        Once more it gives the same: management does not wait, but the end of the broker does.
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
        self.contact.stop()
        for node_id in list(self.reroutings):
            self._end_rerouting(node_id)
        for node_id in list(self._contradictions):
            self._put_off_contradiction(node_id)
        self._stopping.clear()
        for member in list(self.members.values()):
            member.stop()
        return list(self._stopping)

    @property
    def _opens_links(self) -> bool:
        return self._static is not None or self._discovery is not None

    # --- places

    def places(self) -> list[TransportConfiguration]:
        """Where other brokers may be: the static connectors, or what was discovered; this broker itself is left out."""
        found = self._static if self._discovery is None else self._discovery.connectors()
        return [connector for connector in found or () if not same_place(connector, self.own_connector)]

    def unknown_places(self) -> list[TransportConfiguration]:
        """Places at which no member of the topology is."""
        # There may be a thousand of both.
        known = {place(connector) for member in self.topology for connector in (member.primary, member.backup) if connector is not None}
        return [connector for connector in self.places() if place(connector) not in known]

    def _discovered(self) -> None:
        self.contact.connectors_changed()
        self.scanner.look()

    # --- connections to others

    def settings(self) -> LocatorSettings:
        """What all connections to other members have in common; none of them reconnects by itself."""
        configuration = self.configuration
        return LocatorSettings(
            ha=True,
            use_topology_for_load_balancing=False,
            connection_load_balancing_policy_class_name=(
                "org.apache.activemq.artemis.api.core.client.loadbalance.FirstElementConnectionLoadBalancingPolicy"
            ),
            call_timeout=configuration.call_timeout,
            call_failover_timeout=configuration.call_failover_timeout,
            client_failure_check_period=configuration.check_period,
            connection_ttl=configuration.connection_ttl,
            min_large_message_size=configuration.min_large_message_size,
            confirmation_window_size=configuration.confirmation_window_size,
            producer_window_size=configuration.producer_window_size,
            block_on_durable_send=True,
            block_on_non_durable_send=True,
            pre_acknowledge=True,
        )

    def open_locator(self, places: Sequence[TransportConfiguration], *, announce: bool = True) -> Locator:
        """A locator whose connections feed the topology and, unless ``announce`` is false, announce this broker."""
        return Locator(
            self.runtime,
            places,
            self.settings(),
            topology=self.topology,
            greet=self.greet if announce else self.authenticate,
            cluster_connection=announce,
            follow=False,
        )

    def open_separate_locator(self, places: Sequence[TransportConfiguration]) -> Locator:
        """A locator that only looks: what it is told stays with it."""
        return Locator(self.runtime, places, self.settings(), greet=self.authenticate, follow=False)

    @property
    def contested_by(self) -> list[str]:
        """Where other brokers with the node id of this one are, as far as known; there must be none."""
        found = [describe(connector) for connector in self.twins.places.values()]
        if self._discovery is not None and self.server.node_id in self._discovery.contested:
            found.append("an unknown place (it was discovered)")
        return found

    async def greet(self, connection: Connection) -> None:
        """Show the cluster's password, and announce this broker.  Raises ClusterSecurityError when the other one refuses the password."""
        await self.authenticate(connection)
        own = self.topology.get(self.server.node_id)
        if own is not None:
            connection.cluster_channel.send(
                NodeAnnounce(
                    own.node_id,
                    own.backup_group_name,
                    False,
                    own.unique_event_id,
                    self.own_connector,
                    own.backup,
                    own.scale_down_group_name,
                )
            )

    async def authenticate(self, connection: Connection) -> None:
        """Show the cluster's password.  A broker that refuses it is not in this cluster, and nothing that it knows is wanted."""
        try:
            await show_password(connection, self.credentials)
        except ClusterSecurityError:
            self._refused(describe(connection.connector))
            raise

    def _refused(self, place: str) -> None:
        if place not in self._refused_by and len(self._refused_by) < REFUSERS_MAX:
            self._refused_by.add(place)
            log.error(
                "cluster connection {name}: the broker at {place} refuses the cluster user and password; they must be the same everywhere",
                name=self.name,
                place=place,
            )

    async def open_session(self, factory: SessionFactory) -> Session:
        """A session of a link, as the cluster user."""
        credentials = self.credentials
        return await factory.create_session(
            credentials.user, credentials.password, pre_acknowledge=True, client_id=self.configuration.client_id
        )

    def notification_request(self) -> NotificationRequest:
        """What members are asked for."""
        options = self.server.configuration
        return NotificationRequest(
            options.name,
            options.management_notification_address,
            options.management_address,
            self.configuration.address,
            self.interests.filter_string(),
        )

    def met(self, factory: SessionFactory) -> None:
        """There is a connection to a broker: it is a member, also when it was given up before and has not announced itself since."""
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
        elif not up and known is not None and known.state == "connected":
            self._put_off_contradiction(member.node_id)
            timer = self.server.clock.call_later(CONTRADICTION_SECONDS, self._contradict, known, member)
            self._contradictions[member.node_id] = timer

    def _put_off_contradiction(self, node_id: str) -> None:
        timer = self._contradictions.pop(node_id, None)
        if timer is not None:
            timer.cancel()

    def _contradict(self, known: Member, member: TopologyMember) -> None:
        """Somebody has lost his own link to a member that is there: clients should go on to find it."""
        del self._contradictions[member.node_id]
        if known.state == "connected" and self.topology.get(member.node_id) is None:
            self.topology.found_again(member)

    def _wants(self, member: TopologyMember) -> bool:
        if member.node_id == self.server.node_id or member.primary is None or not self._opens_links:
            return False
        if not self.configuration.allow_direct_connections_only:
            return True
        return any(_comparable(member.primary) == _comparable(connector, _LOCAL_PARAMETERS) for connector in self._static or ())

    def _member_appeared(self, announced: TopologyMember) -> None:
        name = self.prefix + store_and_forward_end(self.name, announced.node_id)
        queue = self.server.messaging.administration.create_store_and_forward(name)
        queue.needed_for = f"messages for the member {announced.node_id} of the cluster connection {self.name} wait there"
        self._end_rerouting(announced.node_id)
        left_over = self._left_over.pop(announced.node_id, None)
        if left_over is not None:
            left_over.end()
        flow = Flow(
            self._flow_settings,
            self._ways,
            queue,
            self.server.notifications.send,
            self._consumer_appeared,
            lambda text: self.server.reasons.warn(f"{announced.node_id}:", f"cluster connection {self.name}: {text}"),
            None if self._grouping is None else GroupingLink(self._grouping, announced.node_id),
        )
        member = Member(self, announced, queue, flow, lambda owner: self._make_link(self, owner))
        self.members[announced.node_id] = member
        self._shown[announced.node_id] = show(self.server.gauges, self.name, member)
        log.info(
            "cluster connection {name}: {node} is a member, at {place}",
            name=self.name,
            node=announced.node_id,
            place="nowhere" if announced.primary is None else describe(announced.primary),
        )
        member.start()

    def wall_ms(self) -> int:
        return self.server.clock.wall_ms()

    def topology_member(self, node_id: str) -> TopologyMember | None:
        return self.topology.get(node_id)

    def member_up(self, member: TopologyMember) -> None:
        self.topology.found_again(member)
        self.scanner.look()

    def member_down(self, node_id: str) -> None:
        self.topology.lost(node_id)

    def member_gone(self, member: Member) -> None:
        self._put_off_contradiction(member.node_id)
        if self.members.get(member.node_id) is member:
            del self.members[member.node_id]
            self._shown.pop(member.node_id)()
        if self.running:
            member.store_and_forward.needed_for = None
            self.scanner.look()
        else:
            self._left_over[member.node_id] = member.flow

    def link_stopping(self, stopped: Any) -> None:
        """The bridge of a member is being stopped; ``stopped`` completes when it has."""
        if not self.running:
            self._stopping.append(stopped)

    def move_messages(self, member: Member, target_node_id: str) -> None:
        """Messages that wait for a member which has given its own to another one follow them there."""
        log.info(
            "cluster connection {name}: {count} messages wait for {node}, which has scaled down to {target}",
            name=self.name,
            count=member.store_and_forward.message_count,
            node=member.node_id,
            target=target_node_id,
        )
        node_id = member.node_id
        rerouting = self.reroutings[node_id] = Rerouting(
            self.server.messaging,
            member.store_and_forward,
            old_places(member.flow.bindings.values()),
            target_node_id,
            lambda: self.reroutings.pop(node_id),
        )
        rerouting.start()

    def _end_rerouting(self, node_id: str) -> None:
        rerouting = self.reroutings.pop(node_id, None)
        if rerouting is not None:
            rerouting.stop()

    @property
    def bindings(self) -> Mapping[str, RemoteBinding]:
        """The remote bindings that the members have told of, by cluster name."""
        return {name: binding for member in self.members.values() for name, binding in member.flow.bindings.items()}

    # --- for management

    def links(self) -> list[dict[str, Any]]:
        """What there is to say of the link to each other member."""
        return [member.describe() for member in self.members.values()]

    def remote_bindings(self) -> Iterator[dict[str, Any]]:
        """The queues that other members have made known."""
        for member in self.members.values():
            for row in member.flow.describe():
                yield {**row, "link": member.node_id}


def _comparable(connector: TransportConfiguration, left_out: frozenset[str] = frozenset()) -> tuple[str, dict[str, str]]:
    """What has to be equal for a direct connection: the same spelling of everything but the name."""
    return connector.factory_class_name, {key: str(value) for key, value in connector.parameters if key not in left_out}
