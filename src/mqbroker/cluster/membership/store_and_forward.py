"""The load of a store-and-forward cluster: messages wait for each member in a queue, and a bridge takes them to the member."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from mqbroker.cluster.grouping.grouping import GroupingHandler, GroupingLink
from mqbroker.cluster.links.bridge import Bridge
from mqbroker.cluster.links.forwarder import IN_FLIGHT_MESSAGES_MAX, Forwarder, ForwardingSettings
from mqbroker.cluster.links.outgoing import StoreAndForward, link_id
from mqbroker.cluster.remote_queues.flow import Flow, FlowSettings
from mqbroker.cluster.remote_queues.interests import Interests
from mqbroker.cluster.remote_queues.listening import NotificationRequest, listen
from mqbroker.cluster.remote_queues.rerouting import Rerouting
from mqbroker.cluster.remote_queues.ways import Ways
from mqbroker.config.model.cluster import BridgeConfiguration, ClusterConnectionConfiguration
from mqbroker.config.model.internal_names import store_and_forward_end, store_and_forward_prefix
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding

if TYPE_CHECKING:
    from mqbroker.cluster.membership.load import Link, LinkedTo, LoadOwner
    from mqbroker.server.server import Server
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.core.message import ClientMessage
    from mqclient.protocol.topology import TopologyMember

log = Logger(namespace="mqbroker.cluster")


class StoreAndForwardLoads:
    """The store-and-forward queues of one cluster connection.

    ``ways`` are those to the queues of all members, ``consumer_appeared`` starts redistribution to a remote binding.  ``grouping`` is told
    the decisions of the members.  ``make_link`` makes the bridge to a member.
    """

    stand_ins = False

    def __init__(
        self,
        server: Server,
        configuration: ClusterConnectionConfiguration,
        ways: Ways,
        consumer_appeared: Callable[[RemoteBinding], object],
        *,
        make_link: Callable[[LoadOwner, Queue, LinkedTo], Link] | None = None,
        grouping: GroupingHandler | None = None,
    ) -> None:
        options = server.configuration
        self.server = server
        self.ways = ways
        self.consumer_appeared = consumer_appeared
        self.grouping = grouping
        self.prefix = store_and_forward_prefix(options.internal_naming_prefix)
        self.interests = Interests(
            configuration.address,
            configuration.max_hops,
            options.management_notification_address,
            (self.prefix, options.management_address),
        )
        self.flow_settings = FlowSettings(server.node_id, self.interests, LoadBalancing(configuration.message_load_balancing))
        self._address = configuration.address
        self.make_link = make_link or store_and_forward_bridge
        self.reroutings: dict[str, Rerouting] = {}
        """By node id of a member that has scaled down: the work on the messages that waited for it."""
        self.loads: dict[str, StoreAndForwardLoad] = {}
        """By node id: what the links of the present members carry."""
        self._left_over: dict[str, Flow] = {}
        """By node id: the queues of the members from before this cluster connection was stopped."""
        self._doubt_the_first()

    def _doubt_the_first(self) -> None:
        """Links from before the start of this broker may have brought the first messages of each queue to its member: there they expire."""
        for queue in self.server.messaging.core.queues.values():
            if queue.name.startswith(self.prefix):
                first = islice(queue.references, IN_FLIGHT_MESSAGES_MAX)
                queue.doubt(reference.message.message_id for reference in first if reference.message.expiration)

    @property
    def bindings(self) -> Mapping[str, RemoteBinding]:
        """The remote bindings that the members have told of, by cluster name."""
        return {name: binding for load in self.loads.values() for name, binding in load.flow.bindings.items()}

    def request(self) -> NotificationRequest:
        """The notifications that this broker asks members for."""
        options = self.server.configuration
        return NotificationRequest(
            options.name,
            options.management_notification_address,
            options.management_address,
            self._address,
            self.interests.filter_string(),
        )

    def load(self, owner: LoadOwner, announced: TopologyMember) -> StoreAndForwardLoad:
        node_id = announced.node_id
        name = self.prefix + store_and_forward_end(owner.name, node_id)
        queue = self.server.messaging.administration.create_store_and_forward(name)
        queue.needed_for = f"messages for the member {node_id} of the cluster connection {owner.name} wait there"
        self.end_rerouting(node_id)
        left_over = self._left_over.pop(node_id, None)
        if left_over is not None:
            left_over.end()
        flow = Flow(
            self.flow_settings,
            self.ways,
            queue,
            self.server.notifications.send,
            self.consumer_appeared,
            lambda text: self.server.reasons.warn(f"{node_id}:", f"cluster connection {owner.name}: {text}"),
            None if self.grouping is None else GroupingLink(self.grouping, node_id),
        )
        load = self.loads[node_id] = StoreAndForwardLoad(self, owner, node_id, queue, flow)
        return load

    def stop(self) -> None:
        for node_id in list(self.reroutings):
            self.end_rerouting(node_id)

    def end_rerouting(self, node_id: str) -> None:
        rerouting = self.reroutings.pop(node_id, None)
        if rerouting is not None:
            rerouting.stop()

    def forgotten(self, load: StoreAndForwardLoad, running: bool) -> None:
        """The record of the member has ended."""
        if self.loads.get(load.node_id) is load:
            del self.loads[load.node_id]
        if running:
            load.queue.needed_for = None
        else:
            self._left_over[load.node_id] = load.flow


class StoreAndForwardLoad:
    """The messages that wait for one member, and its known queues (a :class:`~mqbroker.cluster.membership.load.Load`)."""

    def __init__(self, loads: StoreAndForwardLoads, owner: LoadOwner, node_id: str, queue: Queue, flow: Flow) -> None:
        self.node_id = node_id
        self.queue = queue
        self.flow = flow
        self._loads = loads
        self._owner = owner

    @property
    def waiting(self) -> int:
        return self.queue.message_count

    def make_link(self, member: LinkedTo) -> Link:
        return self._loads.make_link(self._owner, self.queue, member)

    async def connected(self, factory: SessionFactory) -> None:
        """Ask for the member's queues."""
        session = await self._owner.locators.open_session(factory)
        self.flow.begin()
        await listen(session, self._loads.request(), self._told)

    def started(self) -> None: ...

    def disconnected(self) -> None:
        self.flow.disconnected()

    def end(self) -> None:
        self.flow.end()

    def move_to(self, node_id: str) -> None:
        owner = self._owner
        log.info(
            "cluster connection {name}: {count} messages wait for {node}, which has scaled down to {target}",
            name=owner.name,
            count=self.queue.message_count,
            node=self.node_id,
            target=node_id,
        )
        owner.topology.scaled_down(self.node_id)
        reroutings = self._loads.reroutings
        rerouting = reroutings[self.node_id] = Rerouting(
            owner.server.messaging, self.queue, self.flow.bindings.values(), node_id, lambda: reroutings.pop(self.node_id)
        )
        rerouting.start()

    def forgotten(self, running: bool) -> None:
        self._loads.forgotten(self, running)

    def rows(self) -> Iterator[dict[str, Any]]:
        return self.flow.describe()

    def figures(self) -> dict[str, Any]:
        return {
            "queue": self.queue.name,
            "backlog": self.queue.message_count,
            "remoteBindings": len(self.flow.bindings),
            "notificationsReceived": self.flow.received,
        }

    def series(self) -> Sequence[tuple[str, str, Callable[[], float]]]:
        queue, flow = self.queue, self.flow
        return (
            ("cluster.link.backlog", "Messages that wait for the member, those under way to it among them", lambda: queue.message_count),
            ("cluster.link.messages.acknowledged", "Messages that the member has acknowledged", lambda: queue.messages_acknowledged),
            ("cluster.link.bindings", "Queues that the member has made known", lambda: len(flow.bindings)),
        )

    def _told(self, message: ClientMessage) -> None:
        self._owner.server.turn.run(self.flow.handle, message.properties)


def member_bridge_settings(owner: LoadOwner, name: str) -> BridgeConfiguration:
    """The settings of the bridge ``name`` to a member: those of the cluster connection."""
    configuration, credentials = owner.configuration, owner.locators.credentials
    return BridgeConfiguration(
        name=name,
        queue_name=name,
        user=credentials.user,
        password=credentials.password,
        client_id=configuration.client_id,
        ha=True,
        min_large_message_size=configuration.min_large_message_size,
        check_period=configuration.check_period,
        connection_ttl=configuration.connection_ttl,
        call_timeout=configuration.call_timeout,
        retry_interval=configuration.retry_interval,
        retry_interval_multiplier=configuration.retry_interval_multiplier,
        max_retry_interval=configuration.max_retry_interval,
        initial_connect_attempts=configuration.initial_connect_attempts,
        reconnect_attempts=configuration.reconnect_attempts,
        reconnect_attempts_same_node=0,  # all connectors of the member are of one node
        confirmation_window_size=configuration.confirmation_window_size,
        producer_window_size=configuration.producer_window_size,
    )


def store_and_forward_bridge(owner: LoadOwner, queue: Queue, member: LinkedTo) -> Bridge:
    """The bridge of ``member``'s store-and-forward ``queue``, named like the queue; its events go to ``member``."""
    configuration, server = owner.configuration, owner.server
    connections = server.configuration.cluster_connections
    node_id = link_id(server.node_id, queue.name, connections) if configuration.use_duplicate_detection else None
    outgoing = StoreAndForward(queue.name, node_id, configuration.min_large_message_size)
    return Bridge(
        queue.name,
        owner.runtime,
        member.connectors,
        member_bridge_settings(owner, queue.name),
        Forwarder(server, queue, ForwardingSettings(), outgoing),
        member,
        topology=owner.locators.topology,
        greet=owner.locators.greet,
    )
