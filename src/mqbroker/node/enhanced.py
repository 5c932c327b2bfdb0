"""A broker of an enhanced cluster: its activation, which is its place in the table of the members, and what it does while it is active."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from mqbroker import __version__
from mqbroker.imq.administration.quiescence import has_clients, has_transient_messages
from mqbroker.imq.definitions.temporary import inherited_destinations
from mqbroker.imq.enhanced.desk import Desk
from mqbroker.imq.enhanced.membership import ADMISSION, Membership
from mqbroker.imq.enhanced.sides import MemberStart, Outside
from mqbroker.imq.enhanced.takeover import BehindError
from mqbroker.imq.record.followed import KIND, Followed
from mqbroker.storage.shared.brokers import Myself
from mqbroker.storage.sql.session import settings_of

if TYPE_CHECKING:
    from mqbroker.cluster.connection import ClusterConnection
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.ha.shared_store.lease import Beat
    from mqbroker.imq.delivery.delivery import Delivery
    from mqbroker.imq.links.home_links import HomeLinks
    from mqbroker.imq.links.requests import Peers
    from mqbroker.imq.master.shared import SharedDefinitions
    from mqbroker.messaging.ports import Clock, Recovered, Store
    from mqbroker.server.observation.gauges import Gauges
    from mqbroker.server.server import Server
    from mqbroker.storage.disk.claim import Claim
    from mqbroker.storage.disk.diskwriter import DiskWriter
    from mqbroker.storage.disk.filesystem import FileSystem
    from mqbroker.storage.settings import StoreSettings
    from mqbroker.storage.sql.database import Connection, Database
    from mqbroker.storage.sql.session import StoreSession
    from mqbroker.storage.sql.sqlstore import SqlStore
    from mqclient.errors import MQError


class EnhancedActivation:
    """The activation of a member (:class:`mqbroker.node.activation.Activation`): it waits for its row."""

    role = "primary"
    copies = None
    gives_away = False

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self._claim: Claim | None = None
        self._active = False

    @property
    def state(self) -> str:
        return "it waits for its row in the table of the members"

    def files(self, file_system: FileSystem, settings: StoreSettings) -> FileSystem:
        return file_system

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> None:
        """Nobody else uses the folder."""

    def watch_store(self, store: Callable[[], Store], claim: Claim, failed: Callable[[str], object]) -> Callable[[str], object]:
        """The function to call when the next start's store fails: it begins anew if another member has the data, else calls ``failed``.

        ``claim`` is the right of this process to the local folder, whose name tells it from others.
        """
        self._claim = claim

        def lost(reason: str) -> None:
            if self._active and store().taken:  # type: ignore[attr-defined]
                self.membership.begin_again(reason)
            else:
                failed(reason)

        return lost

    def seek(self, candidate: MemberStart) -> None:
        self._active = False
        self.membership.seek(candidate, "" if self._claim is None else self._claim.node_id)

    def serve(self, server: Server, store: Store, kept: Mapping[tuple[str, str], str]) -> None:
        self._active = True

    def hand_over(self) -> None:
        self.membership.want_failover(True)

    def hold_back(self) -> None:
        self.membership.want_failover(False)

    def leave(self) -> None:
        self.membership.leave()

    def retire(self) -> None:
        """Nothing to do: a member gives nothing away."""

    def gave_away(self, complete: bool) -> None:
        """Nothing to do: a member gives nothing away."""

    def let_go(self, done: Callable[[], object]) -> None:
        self._active = False
        self.membership.end(done)

    def cease(self) -> None:
        self._active = False
        self.membership.end(lambda: None)


def enhanced_activation(
    home: HomeCluster,
    clock: Clock,
    entropy: Callable[[int], bytes],
    call: Callable[[Callable[[], object]], object],
    database: Database,
    beat: Beat,
    make_writer: Callable[[Callable[..., object]], DiskWriter],
) -> EnhancedActivation:
    """The activation of a broker of the cluster ``home``."""
    assert home.enhanced is not None
    myself = Myself(home.broker_id or "", home.cluster_id or "", home.address, __version__, "", "")
    desk = Desk(database, make_writer(_call))
    return EnhancedActivation(Membership(home.enhanced, myself, Outside(database, desk, beat, clock, call, lambda: entropy(16).hex())))


def _call(function: Callable[..., object], *args: Any) -> None:
    function(*args)


def show(gauges: Gauges, membership: Membership) -> Callable[[], None]:
    """Show the metrics of a member.  Returns the function that removes them."""
    return gauges.register_all(
        {},
        ("imq.stamp.age", "Seconds since this broker has stamped its row in the database", lambda: membership.stamp_age_s),
        ("imq.takeovers", "Brokers that this one has taken over", lambda: membership.takeovers),
        ("imq.takeovers.failed", "Takeovers that came to nothing", lambda: membership.takeovers_failed),
    )


class ActiveMember:
    """An active broker, as its membership needs it (:class:`mqbroker.imq.enhanced.sides.ActiveSide`)."""

    def __init__(
        self,
        server: Server,
        peers: Peers,
        links: HomeLinks,
        connection: Callable[[], ClusterConnection],
        list_members: Callable[[Sequence[str]], object],
        shared: SharedDefinitions,
        delivery: Callable[[], Delivery],
    ) -> None:
        self.node_id = server.node_id
        self.turn = server.turn
        self.peers = peers
        self.data = ActiveData(server, shared, delivery)
        self._delivery = delivery
        self.list_members = list_members
        self._server = server
        self._links = links
        self._connection = connection

    def linked(self) -> Collection[str]:
        return self._links.members.keys()

    def leave_out(self, node_ids: Collection[str]) -> None:
        self._connection().topology.leave_out(node_ids)

    def part(self, node_id: str) -> None:
        self._connection().part(node_id)
        # A member may only stand still: nobody who has its data then would know of the branches that it had prepared when it goes on.
        self._server.sessions.end_links(node_id, f"member {node_id} is being taken over")

    def join(self, node_id: str) -> None:
        self._connection().part_no_more(node_id)

    def refuse_clients(self, reason: str | None) -> None:
        if reason is None:
            self._server.admission.lift(ADMISSION)
        else:
            self._server.admission.restrict(ADMISSION, reason)

    def has_clients(self) -> bool:
        return has_clients(self._server)

    def has_transient_messages(self) -> bool:
        return has_transient_messages(self._server)

    def settle_branches(self) -> None:
        self._delivery().coordination.decisions.look_everywhere()


class ActiveData:
    """Store and messaging of an active broker (:class:`mqbroker.imq.enhanced.takeover.Data`)."""

    def __init__(self, server: Server, shared: SharedDefinitions, delivery: Callable[[], Delivery]) -> None:
        self._server = server
        self._shared = shared
        self._delivery = delivery

    @property
    def _store(self) -> SqlStore:
        store: SqlStore = self._server.store  # type: ignore[assignment]
        return store

    @property
    def session(self) -> StoreSession:
        return self._store.session

    def check(self, connection: Connection, sessions: Sequence[StoreSession]) -> None:
        own = _followed(connection, self.session)
        missed = [own.missed(_followed(connection, each)) for each in sessions]
        position = max((each for each in missed if each is not None), default=None)
        if position is not None:
            raise BehindError(position)

    def come_to(self, position: int) -> Deferred[None]:
        stored: Deferred[None] = Deferred()
        store = self._server.store

        def done(error: MQError | None) -> None:
            if error is not None:
                stored.errback(error)
            else:
                store.when_synced(store.ticket(), stored.callback, None)

        self._server.turn.run(self._shared.recording.come_to, position, done)
        return stored

    def inherit(self, sessions: Sequence[StoreSession], done: Callable[[Exception | None], object]) -> None:
        def read(recovered: Recovered | None, error: Exception | None) -> None:
            if recovered is not None:
                self._server.messaging.adopt(recovered)
                self._delivery().coordination.restore()
                self._shared.temporary.inherit(inherited_destinations(recovered.inherited))
            done(error)

        self._store.inherit(sessions, read)


def _followed(connection: Connection, session: StoreSession) -> Followed:
    return Followed({(KIND, name): value for name, value in settings_of(connection, [session], KIND).items()})
