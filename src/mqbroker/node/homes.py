"""Assembly of a home cluster: its links, and the delivery over them.  Imported only by a broker that is a member of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.cluster.links.connectors import announced_form
from mqbroker.cluster.membership.listed import ListedBrokers
from mqbroker.config.imq.made import CONNECTION, connector_to
from mqbroker.config.imq.matching import match_properties
from mqbroker.config.imq.places import parse_place
from mqbroker.imq.administration.broker import read_members
from mqbroker.imq.administration.reloading import Reloading
from mqbroker.imq.administration.resets import reset
from mqbroker.imq.definitions.registrar import HomeRegistrar
from mqbroker.imq.delivery.delivery import Delivery
from mqbroker.imq.enhanced.taken import Taken
from mqbroker.imq.links.agreement import Agreement
from mqbroker.imq.links.home_links import HomeLinks
from mqbroker.imq.links.link import HomeLoads
from mqbroker.imq.links.operations import RESOURCE
from mqbroker.imq.links.requests import LinkedPeers
from mqbroker.imq.master.shared import SharedDefinitions
from mqbroker.imq.peers.looking import Looking, Members
from mqbroker.imq.peers.same_record import SameRecord
from mqbroker.imq.peers.table_peer import TablePeer
from mqbroker.node.enhanced import ActiveMember, show
from mqbroker.server.management.registry import ManagementError
from mqclient.core.runtime import new_uuid
from mqclient.errors import IllegalStateError
from mqclient.protocol.topology import TopologyMember

if TYPE_CHECKING:
    from mqbroker.cluster.connection import ClusterConnection
    from mqbroker.config.imq.instance import ImqInstance
    from mqbroker.config.imq.places import Place
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.imq.enhanced.membership import Membership
    from mqbroker.imq.record.changes import Definition
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.node.parts import EndingWriter
    from mqbroker.server.management.registry import Registry
    from mqbroker.server.server import Server
    from mqbroker.storage.sql.database import Database
    from mqclient.core.runtime import Runtime


log = Logger(namespace="mqbroker.imq")


@dataclass(frozen=True, slots=True)
class HomeFiles:
    """The properties of an instance, and how files are read and written."""

    instance: ImqInstance
    read_file: Callable[[str], bytes]
    write_file: Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class RecordDatabase:
    """The database of a cluster of peers; ``make_writer`` makes the thread that works with it.

    ``restart`` ends this broker in order, and begins it again; None = nobody can.
    """

    database: Database
    make_writer: Callable[[], EndingWriter]
    restart: Callable[[], object] | None


class Homes:
    """The part of one broker in a home cluster; ``kept`` are the settings of its store, ``connection`` gives its cluster connection.

    ``members`` finds the other members through the database, None = a list names them.

    Implements :class:`mqbroker.imq.administration.broker.ClusterActions`.  Raises ValueError for a change record in the store that cannot
    be used.
    """

    def __init__(
        self,
        server: Server,
        runtime: Runtime,
        settings: HomeCluster,
        kept: Mapping[tuple[str, str], str],
        connection: Callable[[], ClusterConnection],
        files: HomeFiles | None = None,
        record: RecordDatabase | None = None,
        membership: Membership | None = None,
    ) -> None:
        self._server = server
        self._runtime = runtime
        self._settings = settings
        self._files = files
        self._record = record
        self._writer: EndingWriter | None = None
        self._table: TablePeer | None = None
        self._known: tuple[str, ...] | None = None
        """The members that the database lists, also those that are away."""
        self.members = ListedBrokers() if settings.finds_members else None
        self._connection = connection
        self._hidden: list[Callable[[], object]] = []
        """Functions that remove metrics."""
        self.links = HomeLinks()
        peers = LinkedPeers(self.links, lambda: f"imq.{new_uuid(runtime)}", settings.wait_reply_s, server.turn)
        registrar = server.messaging.registrar
        assert isinstance(registrar, HomeRegistrar)  # of such a configuration

        def part(node_id: str) -> None:
            connection().part(node_id)

        agreement = Agreement(match_properties(settings), peers, part)
        self._reloading = Reloading(settings.brokers, self._read_places, self._change_members, peers)
        answers = {"matchProperties": agreement.answer, "reload": self._reloading.here}
        if membership is not None:
            answers |= membership.answers
        make_table = None if settings.record is None else self._make_table
        self.shared = SharedDefinitions(
            server, settings, peers, registrar, kept, lambda: new_uuid(runtime), self._leave, answers, make_table
        )
        self._turn = server.turn
        self._looking: Looking | None = None
        self._same_record: SameRecord | None = None
        if self._table is not None:
            found = None if self.members is None or membership is not None else self._listed
            standing = self.shared.recording.standing
            self._looking = looking = Looking(self._table, server.clock, server.turn, self.shared.recording.answer_record_has, found)
            peers.unlinked.subscribe(lambda _: looking.look())
            self._same_record = SameRecord(peers, server.clock, server.turn, lambda: standing.generation, part)
        self.membership = membership
        self._active = None
        if membership is not None:
            self._active = ActiveMember(server, peers, self.links, connection, self._list_members, self.shared, lambda: self.delivery)
            self._hidden.append(show(server.gauges, membership))
        taken = None if membership is None else Taken(lambda: membership.nodes, peers)
        self.delivery = Delivery(server.messaging, self.links, server.node_id, runtime, settings, self.shared.lives, taken)
        self.loads = HomeLoads(self.links, lambda node_id: sum(1 for _ in self.delivery.remote_consumers(node_id)))
        coordination = self.delivery.coordination
        text = "Branches at other members whose outcome is not decided here, or is not known there"
        self._hidden.append(server.gauges.register("imq.branches.undecided", text, {}, lambda: coordination.undecided))

    def _make_table(self, own: Callable[[], list[Definition]]) -> TablePeer:
        """Raises ValueError where nobody has given the database."""
        shared, record, server = self._settings.record, self._record, self._server
        if shared is None or record is None:
            raise ValueError("the database of the change record was not opened")
        self._writer = record.make_writer()
        self._table = TablePeer(
            shared, record.database, self._writer, server.clock, self._settings.address, own, lambda: new_uuid(self._runtime)
        )
        return self._table

    def _leave(self, reason: str) -> None:
        """This broker may not go on as it is; where another record has taken the place of its own, a new start takes over everything."""
        if self._table is not None and self._table.replaced and self._record is not None and self._record.restart is not None:
            log.warn("this broker starts again: {reason}", reason=reason)
            self._record.restart()
        else:
            self._server.store.fence(reason)

    def _listed(self, members: Members) -> None:
        """The database lists these places; those of brokers that are away are not dialled."""
        assert self.members is not None
        parameters, own = self._server.configuration.connectors[CONNECTION].parameters, self._settings.address
        self._known = tuple(place for place, _ in members)
        others = [parse_place(place) for place, present in members if present and place != own]
        self.members.change([announced_form(connector_to(place, parameters)) for place in others])

    def problem(self) -> str | None:
        """Why clients can be served only in part, in one line."""
        return None if self.membership is None else self.membership.problem

    def _list_members(self, places: Sequence[str]) -> None:
        """The members of an enhanced cluster that run are at these places."""
        self._listed([(place, True) for place in (self._settings.address, *places)])

    def serves(self, node_id: str) -> bool:
        """See :class:`mqbroker.cluster.manager.Successors`."""
        return self.membership is None or self.membership.serves(node_id)

    def has(self, node_id: str) -> bool:
        """See :class:`mqbroker.cluster.manager.Successors`."""
        return self.membership is not None and self.membership.has(node_id)

    def successor_of(self, node_id: str) -> TopologyMember | None:
        """See :class:`mqbroker.cluster.manager.Successors`."""
        row = None if self.membership is None else self.membership.owner_of(node_id)
        if row is None:
            return None
        place = announced_form(connector_to(parse_place(row.url), self._server.configuration.connectors[CONNECTION].parameters))
        return TopologyMember(node_id, self._server.clock.wall_ms(), place)

    def register(self, registry: Registry) -> None:
        """Let other members ask."""
        registry.register(RESOURCE, self.shared.operations)

    def start(self) -> None:
        """Before there are links and clients: this broker looks for the change record, or has it.

        Raises ValueError for a file that cannot be restored.
        """
        if self._files is not None:
            for what in self._files.instance.start.resets:
                self._turn.run(reset, self._server.messaging, what)
                self.shared.forget()
        self._turn.run(self.shared.start)
        if self._looking is not None:
            self._looking.start()
        if self.membership is not None and self._active is not None:
            self._turn.run(self.membership.attach, self._active)
        if self._files is not None:
            self._back_up_and_restore(self._files)

    def _back_up_and_restore(self, files: HomeFiles) -> None:
        """Restore or back up the record as the command line says.  Without being the master it only tells of a backup, as OpenMQ does."""
        start, backups = files.instance.start, self.shared.backups
        try:
            if start.restore is not None:
                count = backups.restore(files.read_file(start.restore))
                log.info("the change record was restored from {file}: {count} definitions", file=start.restore, count=count)
            if start.backup is not None:
                files.write_file(start.backup, backups.backup())
                log.info("the change record was backed up into {file}", file=start.backup)
        except IllegalStateError as error:
            if start.restore is not None:
                raise ValueError(f"-restore {start.restore}: {error}") from error
            log.warn("-backup {file}: {reason}", file=start.backup, reason=str(error))
        except OSError as error:
            raise ValueError(f"the change record: {error}") from error

    # --- for the commands of OpenMQ

    @property
    def master(self) -> str | None:
        return self.shared.master

    @property
    def brokers(self) -> Sequence[str]:
        return self._reloading.brokers if self._known is None else self._known

    def held(self, queue: Queue) -> int:
        return self.delivery.held(queue)

    def reload(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._reloading.everywhere())

    def change_master(self, place: str) -> Deferred[None]:
        return self.shared.change_of_master.change(place)

    def _read_places(self) -> Sequence[Place]:
        if self._files is None:
            raise ManagementError("the members of this broker are not in files")
        return read_members(self._files.instance, self._files.read_file).all

    def _change_members(self, places: Sequence[Place]) -> None:
        if self.members is not None:
            return  # they are those of the database
        parameters = self._server.configuration.connectors[CONNECTION].parameters
        self._connection().change_static([announced_form(connector_to(place, parameters)) for place in places])

    def stop(self) -> Deferred[None]:
        """The links are closed, or are being closed.  Completes when the database is left, too."""
        if self.membership is not None:
            self.membership.detach()
        self._turn.run(self.shared.stop)
        self.delivery.stop()
        while self._hidden:
            self._hidden.pop()()
        if self._looking is None or self._same_record is None or self._table is None:
            return succeed(None)
        self._looking.stop()
        self._same_record.stop()
        stopped: Deferred[None] = Deferred()
        stopped.addBoth(lambda _: self._end_thread())  # also where the stop is cut short
        table = self._table
        self._turn.run(lambda: table.stop().chainDeferred(stopped))
        return stopped

    def _end_thread(self) -> None:
        if self._writer is not None:
            self._server.clock.call_later(0, self._writer.close)  # not within a call of the thread itself
