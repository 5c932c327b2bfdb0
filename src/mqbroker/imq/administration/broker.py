"""The resource ``imq.broker``: requests of OpenMQ's commands to a broker beside the usual management."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mqbroker.config.imq.instance import ImqInstance, read_imq_properties
from mqbroker.config.imq.members import MASTER, Members, find_members
from mqbroker.config.imq.places import parse_place
from mqbroker.config.imq.table import UPDATED_NAMES
from mqbroker.config.imq.written import with_property
from mqbroker.config.problems import Findings
from mqbroker.config.properties.properties import decode_properties
from mqbroker.imq.administration.destinations import Destinations
from mqbroker.imq.administration.durables import destroy_durable, durable_rows, purge_durable
from mqbroker.imq.administration.pending import Pending
from mqbroker.imq.administration.quiescence import has_clients, has_transient_messages
from mqbroker.imq.administration.views import BROKER_DOWN, broker_groups, cluster_rows, enhanced_row, origin_rows
from mqbroker.imq.enhanced.takeover import TakeoverError
from mqbroker.server.management.registry import ManagementError, Operation, ServerResource, as_int, as_object, as_text
from mqbroker.storage.shared.brokers import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twisted.internet.defer import Deferred

    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.imq.enhanced.membership import Membership
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.server import Server

SHUTDOWN_SECONDS_MAX = 24 * 3600
"""Seconds that a shutdown may be put off: a day, so that nobody forgets it."""

LEAVE_SECONDS = 0.5
"""The time that a client which has asked for a stop has to leave, so that no command sees a lost connection."""

QUIESCED = "quiesced"
"""The kind of restriction under which a quiesced broker takes no clients."""

SHUTDOWN = "shutdown"
"""The kind of restriction under which a broker that is about to stop takes no clients."""


class ClusterActions(Protocol):
    """The actions that need other members."""

    @property
    def master(self) -> str | None:
        """The present master, host:port."""

    @property
    def brokers(self) -> Sequence[str]:
        """The members by the files that were read last, host:port."""

    @property
    def membership(self) -> Membership | None:
        """The membership of this broker in an enhanced cluster."""

    def held(self, queue: Queue) -> int:
        """The messages of other members that are here for consumers of ``queue``."""

    def reload(self) -> Deferred[None]:
        """Have this broker and all linked members read their list of brokers again.  Fails with the reasons of members as MQError."""

    def change_master(self, place: str) -> Deferred[None]:
        """Let another member keep the record.  Fails with the reason as MQError."""


@dataclass(frozen=True, slots=True)
class ImqParts:
    """The parts from outside of the server that the resource needs.

    ``stop`` and ``restart`` end this broker, the latter to begin anew (None = nobody can).  ``actions`` gives None for a broker alone, and
    while a broker starts.
    """

    instance: ImqInstance
    version: str
    read_file: Callable[[str], bytes]
    write_file: Callable[[str, bytes], None]
    stop: Callable[[], object]
    restart: Callable[[], object] | None
    actions: Callable[[], ClusterActions | None]


def read_members(instance: ImqInstance, read_file: Callable[[str], bytes]) -> Members:
    """The members as the files of the instance name them now.  Raises ManagementError for files that cannot be used."""
    findings = Findings()
    checked = read_imq_properties(instance.folder, instance.start, read_file, findings)
    members = None if findings.errors else find_members(checked, instance.host_names, findings)
    if members is None:
        raise ManagementError("\n".join(map(str, findings.errors)))
    return members


class ImqBroker(ServerResource):
    """One instance of Open Message Queue."""

    def __init__(self, server: Server, parts: ImqParts) -> None:
        super().__init__(server)
        self._parts = parts
        self._pending = Pending()
        self._stopping: Any = None
        """The timer of a shutdown that was put off."""
        self.destinations = Destinations(server, self._home.consumer_flow_limit, self._held)

    def _held(self, queue: Queue) -> int:
        actions = self._parts.actions()
        return 0 if actions is None else actions.held(queue)

    @property
    def _home(self) -> HomeCluster:
        home = self.server.configuration.home_cluster
        assert home is not None  # every instance has one, also without other members
        return home

    @property
    def state(self) -> str:
        """As OpenMQ calls it."""
        if self._stopping is not None:
            return "SHUTDOWN_STARTED"
        if not self.server.admission.restricts(QUIESCED):
            return "OPERATING"
        membership = self._membership
        if membership is None:
            begun = has_clients(self.server) or has_transient_messages(self.server)
        else:
            begun = membership.state is State.QUIESCE_STARTED
        return "QUIESCE_STARTED" if begun else "QUIESCE_COMPLETE"

    # --- views

    def list_brokers(self) -> str:
        """The members of the cluster with their states, as JSON."""
        membership = self._membership
        if membership is None:
            found: list[Any] = list(self._members())
        else:
            described = self._pending.result("listBrokers", membership.describe)
            found = list(map(enhanced_row, described))
        head: dict[str, Any] = {"clusterID": self._home.cluster_id or "", "clusterIsHighlyAvailable": membership is not None}
        if membership is not None:
            head["brokerID"] = self._enhanced_id
        return json.dumps({**head, "brokers": found})

    @property
    def _membership(self) -> Membership | None:
        actions = self._parts.actions()
        return None if actions is None else actions.membership

    def query(self) -> str:
        """The answer to ``query bkr``, as JSON: groups of titles and values."""
        rows, parts, actions = self._members(), self._parts, self._parts.actions()
        active = [row["address"] for row in rows if row["state"] != BROKER_DOWN]
        master = self._home.master if actions is None else actions.master
        return json.dumps(
            broker_groups(self.server, parts.instance, parts.version, self._brokers, active, master, self.state, self._enhanced_id)
        )

    @property
    def _enhanced_id(self) -> str | None:
        return None if self._home.enhanced is None else self._home.broker_id

    @property
    def _brokers(self) -> Sequence[str]:
        actions = self._parts.actions()
        return self._home.brokers if actions is None else actions.brokers

    def _members(self) -> list[dict[str, str]]:
        return cluster_rows(self.server, self._home.address, self._brokers, self.state)

    def origins(self) -> str:
        """Each property with its value, who gives it and what it does here, as JSON."""
        return json.dumps(origin_rows(self._parts.instance.layers))

    # --- changes of the broker

    def update(self, given: Any) -> None:
        """Write properties into the instance's own file; they count from the next start on, the URL from the next reload on."""
        texts = {name: as_text(value) for name, value in as_object(given, "the attributes are").items()}
        for name in texts:
            if name not in UPDATED_NAMES:
                listed = "\n".join(UPDATED_NAMES)
                raise ManagementError(f"Invalid attribute specified: {name}\nThe valid attributes for updating a broker are:\n{listed}")
        instance = self._parts.instance
        try:
            text = decode_properties(self._parts.read_file(instance.file))
        except FileNotFoundError:
            text = ""
        except OSError as error:
            raise ManagementError(f"{instance.file} cannot be read: {error.strerror or error}") from error
        for name, value in texts.items():
            text = with_property(text, name, value)
        self._check(text.encode())
        try:
            self._parts.write_file(instance.file, text.encode())
        except OSError as error:
            raise ManagementError(f"{instance.file} cannot be written: {error.strerror or error}") from error

    def _check(self, content: bytes) -> None:
        """Raises ManagementError for properties with which the broker would not start."""
        file, read_file = self._parts.instance.file, self._parts.read_file
        read_members(self._parts.instance, lambda path: content if path == file else read_file(path))

    def quiesce(self) -> None:
        """Take no new clients; those that are here go on."""
        if not self.server.security.enabled:
            raise ManagementError("without security nobody is an administrator, and nobody could end it")
        self.server.admission.restrict(QUIESCED, "the broker is quiesced")
        if self._membership is not None:
            self._membership.quiesce()

    def unquiesce(self) -> None:
        self.server.admission.lift(QUIESCED)
        if self._membership is not None:
            self._membership.unquiesce()

    def shutdown(self, seconds: Any = 0, no_failover: Any = False) -> None:
        """Stop in order, now or after ``seconds``, and take no new clients until then; a further call sets another time.

        In an enhanced cluster another member takes over, unless ``no_failover``; meanwhile this one takes over nobody.
        """
        delay = as_int(seconds)
        if not 0 <= delay <= SHUTDOWN_SECONDS_MAX:
            raise ManagementError(f"{delay} seconds: expected 0 to {SHUTDOWN_SECONDS_MAX}")
        if self._stopping is not None:
            self._stopping.cancel()
        if self._membership is not None:
            self._membership.want_failover(not no_failover)
            self._membership.leave()
        self.server.admission.restrict(SHUTDOWN, "the broker is about to stop")
        self._stopping = self.server.clock.call_later(max(delay, LEAVE_SECONDS), self._parts.stop)

    def restart(self) -> None:
        """Stop in order, and begin anew with the files as they are then."""
        if self._parts.restart is None:
            raise ManagementError("this broker runs inside another program, which alone can start it again")
        self.server.clock.call_later(LEAVE_SECONDS, self._parts.restart)

    # --- changes of the cluster

    def take_over(self, broker: Any) -> None:
        """Take over a member of an enhanced cluster, also one that is there; it begins anew, without its messages."""
        membership, name = self._membership, as_text(broker)
        if membership is None:
            raise ManagementError("ERROR: this broker is no member of an enhanced cluster (imq.cluster.ha=true)")
        try:
            self._pending.result(("takeover", name), lambda: membership.take_over_broker(name))
        except TakeoverError as error:
            raise ManagementError(f"ERROR: {error}") from error

    def reload(self) -> None:
        """Read the list of brokers again, here and on all linked members."""
        self._pending.result("reload", self._actions.reload)

    def change_master(self, attributes: Any) -> None:
        """Let another member be the master."""
        texts = as_object(attributes, "the attributes are")
        for name in texts:
            if name != MASTER:
                raise ManagementError(f"Invalid attribute specified: {name}\nThe valid attributes for changing the master are:\n{MASTER}")
        try:
            place = parse_place(as_text(texts.get(MASTER)))
        except ValueError:
            raise ManagementError(f"BAD_REQUEST: {MASTER}: expected the new master as host:port") from None
        actions = self._actions
        known = next((broker for broker in actions.brokers if parse_place(broker).same(place)), str(place))
        self._pending.result(("changeMaster", known), lambda: actions.change_master(known))

    @property
    def _actions(self) -> ClusterActions:
        actions = self._parts.actions()
        if actions is None:
            raise ManagementError("this broker is in no cluster")
        return actions


ImqBroker.ATTRIBUTES = {"State": lambda control: control.state}

ImqBroker.OPERATIONS = {
    "listBrokers": Operation(ImqBroker.list_brokers),
    "queryBroker": Operation(ImqBroker.query),
    "listOrigins": Operation(ImqBroker.origins),
    "updateBroker": Operation(ImqBroker.update, 1),
    "quiesce": Operation(ImqBroker.quiesce),
    "unquiesce": Operation(ImqBroker.unquiesce),
    "shutdown": Operation(ImqBroker.shutdown, 0, 2),
    "takeOver": Operation(ImqBroker.take_over, 1),
    "restart": Operation(ImqBroker.restart),
    "reloadCluster": Operation(ImqBroker.reload),
    "changeMaster": Operation(ImqBroker.change_master, 1),
    "listDestinations": Operation(lambda control, *parameters: json.dumps(control.destinations.rows(*parameters)), 0, 2),
    "queryDestination": Operation(lambda control, kind, name: json.dumps(control.destinations.query(kind, name)), 2),
    "createDestination": Operation(lambda control, *parameters: control.destinations.create(*parameters), 2, 3),
    "updateDestination": Operation(lambda control, *parameters: control.destinations.update(*parameters), 3),
    "destroyDestination": Operation(lambda control, *parameters: control.destinations.destroy(*parameters), 2),
    "purgeDestination": Operation(lambda control, *parameters: control.destinations.purge(*parameters), 2),
    "listDurables": Operation(lambda control, topic=None: json.dumps(durable_rows(control.server.messaging, topic)), 0, 1),
    "purgeDurable": Operation(lambda control, *parameters: purge_durable(control.server, *parameters), 1, 2),
    "destroyDurable": Operation(lambda control, *parameters: destroy_durable(control.server.messaging, *parameters), 1, 2),
}
