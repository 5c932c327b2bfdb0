"""Members of an enhanced cluster over one database, without messages: fake clock, fake links, a real table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from mqbroker.config.model.home_cluster import EnhancedCluster
from mqbroker.imq.enhanced.desk import Desk
from mqbroker.imq.enhanced.membership import Membership
from mqbroker.imq.enhanced.sides import Outside
from mqbroker.imq.enhanced.takeover import BehindError
from mqbroker.messaging.event import Event
from mqbroker.messaging.turns.turn import Turn
from mqbroker.storage.shared.brokers import BrokerRow, BrokerTable, Myself
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError
from mqbroker.storage.sql.session import StoreSession
from mqclient.errors import NotConnectedError
from tests.support.beats import ClockBeat
from tests.support.clock import FakeClock
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.sql.support import SqlRig

SETTINGS = EnhancedCluster(
    heartbeat_interval=1, heartbeat_threshold=2, monitor_interval=1, monitor_threshold=2, failures=3, takeover_wait=30
)


class ShakyDatabase:
    """Connections fail while the database is ``away``; ``lose_commit`` loses the answer to the next commit, ``lose_update`` that to the
    next statement which changes something and gives rows."""

    def __init__(self, database: Database) -> None:
        self.name, self.binary, self.number, self.now = database.name, database.binary, database.number, database.now
        self.end_writers = ""
        self.away = False
        self.lose_commit = self.lose_update = False
        self.fail_next: Exception | None = None
        """Raised by the next transaction, in the place of its commit."""
        self.away_after_failure = False
        """Is the database away from then on?"""
        self.watch: Callable[[str, Sequence[object]], object] = lambda statement, parameters: None
        """Sees the statement ``end_writers``."""
        self._database = database

    def connect(self) -> Connection:
        self.check()
        return _ShakyConnection(self, self._database.connect())

    def check(self) -> None:
        if self.away:
            raise DatabaseAwayError("the database is away")


class _ShakyConnection:
    def __init__(self, database: ShakyDatabase, connection: Connection) -> None:
        self._database = database
        self._connection = connection

    def begin(self) -> None:
        self._database.check()
        self._connection.begin()

    def commit(self) -> None:
        failure, self._database.fail_next = self._database.fail_next, None
        if failure is not None:
            self._database.away |= self._database.away_after_failure
            raise failure
        self._connection.commit()
        if self._database.lose_commit:
            self._database.lose_commit = False
            raise DatabaseAwayError("the answer is lost")

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        self._database.check()
        if statement == self._database.end_writers:
            self._database.watch(statement, parameters)
        found = self._connection.rows(statement, parameters)
        if self._database.lose_update and statement.startswith("UPDATE"):
            self._database.lose_update = False
            raise DatabaseAwayError("the answer is lost")
        return found

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        self._database.check()
        return self._connection.run(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class FakePeer:
    def __init__(self, member: Member) -> None:
        self.node_id = member.active.node_id
        self.name = member.name
        self._member = member

    def ask(self, operation: str, *parameters: Any) -> Deferred[Any]:
        if self._member.down:
            return fail(NotConnectedError("gone"))
        self._member.asked.append((operation, *parameters))
        return succeed(self._member.membership.answers[operation](*parameters))


class FakePeers:
    def __init__(self) -> None:
        self.linked: Event[Any] = Event()
        self.unlinked: Event[Any] = Event()
        self.by_id: dict[str, FakePeer] = {}

    def at(self, place: str) -> None:
        return None


class FakeData:
    def __init__(self, own: StoreSession) -> None:
        self.session = own
        self.waiting: list[tuple[list[StoreSession], Callable[[Exception | None], object]]] = []
        self.held = False
        """Do the messages wait to be read?"""
        self.behind = 0
        """The position in the change record that this broker has to come to first."""
        self.coming: list[Deferred[None]] = []

    def check(self, connection: Connection, sessions: Sequence[StoreSession]) -> None:
        if self.behind:
            raise BehindError(self.behind)

    def come_to(self, position: int) -> Deferred[None]:
        self.coming.append(Deferred())
        return self.coming[-1]

    def inherit(self, sessions: Sequence[StoreSession], done: Callable[[Exception | None], object]) -> None:
        self.waiting.append((list(sessions), done))
        if not self.held:
            self.finish()

    def finish(self, error: Exception | None = None) -> None:
        self.waiting[-1][1](error)


class FakeActive:
    def __init__(self, clock: FakeClock, own: StoreSession) -> None:
        self.node_id = own.node_id
        self.turn = Turn(clock)
        self.peers = FakePeers()
        self.data = FakeData(own)
        self.places: list[str] = []
        self.parted: list[str] = []
        self.left_out: list[str] = []
        self.refusal: str | None = None
        self.clients = self.transient = False
        self.settled = 0
        """How often branches were looked for."""

    def linked(self) -> Collection[str]:
        return self.peers.by_id.keys()

    def list_members(self, places: Sequence[str]) -> None:
        self.places = list(places)

    def leave_out(self, node_ids: Collection[str]) -> None:
        self.left_out = sorted(node_ids)

    def part(self, node_id: str) -> None:
        self.parted.append(node_id)
        self.peers.by_id.pop(node_id, None)

    def join(self, node_id: str) -> None:
        if node_id in self.parted:
            self.parted.remove(node_id)

    def refuse_clients(self, reason: str | None) -> None:
        self.refusal = reason

    def has_clients(self) -> bool:
        return self.clients

    def has_transient_messages(self) -> bool:
        return self.transient

    def settle_branches(self) -> None:
        self.settled += 1


class Member:
    """A process of one member: a seeker, which becomes active as soon as it is granted."""

    def __init__(self, cluster: Cluster, number: int, folder: str = "", url: str = "") -> None:
        self.name = f"b{number}"
        self.cluster = cluster
        self.number = number
        self.down = False
        self.away_at_start = False
        """Is the database away as soon as the member is active?"""
        self.granted_times = 0
        self.refusals: list[str] = []
        self.begun_again = 0
        self.asked: list[tuple[Any, ...]] = []
        self.database = ShakyDatabase(cluster.database)
        self.writer = SimulatedDiskWriter(cluster.clock)
        self.beat = ClockBeat(cluster.clock)
        myself = Myself(self.name, "c", url or f"localhost:{7670 + number}", "1", "", "")
        desk = Desk(self.database, self.writer)
        outside = Outside(self.database, desk, self.beat, cluster.clock, self._call, cluster.new_owner)
        self.membership = Membership(SETTINGS, myself, outside)
        self.active: FakeActive
        self.folder = folder or f"folder {number}"
        self.ready: Deferred[None] | None = None

    def _call(self, function: Callable[[], object]) -> None:
        if not self.down:
            self.cluster.clock.call_later(0, function)

    def start(self) -> None:
        self.membership.seek(self, self.folder)
        self.cluster.settle()

    def granted(self) -> None:
        self.granted_times += 1
        cluster = self.cluster
        owner = cluster.new_owner()
        node_id = session.node_id_of(cluster.connection, self.name) or cluster.new_node_id(self.number)
        own = session.take(cluster.connection, node_id, owner, self.name)
        self.active = FakeActive(cluster.clock, own)
        self.database.away = self.away_at_start
        self.active.turn.run(self.membership.attach, self.active)

    def lost(self, reason: str) -> None:
        self.refusals.append(reason)

    def begin_again(self, ready: Deferred[None]) -> None:
        self.begun_again += 1
        self.ready = ready
        self.cluster.unlink(self)
        ready.addCallback(lambda _: self.cluster.clock.call_later(0, self.start_again))

    def start_again(self) -> None:
        self.membership.seek(self, self.folder)

    def stop(self) -> None:
        self.membership.leave()
        self.membership.end(lambda: None)
        self.cluster.unlink(self)
        self.cluster.settle()

    def kill(self) -> None:
        """The process is gone."""
        self.down = True
        self.beat.stop()
        self.cluster.unlink(self)


class Cluster:
    """The database, and whoever is linked."""

    def __init__(self, add_cleanup: Callable[..., object], database: Database | None = None) -> None:
        self.clock = FakeClock()
        self.database: Database = database or SqlRig(add_cleanup).database
        self.connection = self.database.connect()
        add_cleanup(self.connection.close)
        schema.prepare(self.database, self.connection)
        self.table = BrokerTable(self.database)
        self.members: dict[str, Member] = {}
        self._owners = 0
        self._nodes = 0

    def new_owner(self) -> str:
        self._owners += 1
        return f"process {self._owners}"

    def new_node_id(self, number: int) -> str:
        self._nodes += 1
        return f"{number:08x}-0000-0000-0000-{self._nodes:012x}"

    def add(self, number: int) -> Member:
        """A member that is active, and linked with all others."""
        member = self.members[f"b{number}"] = Member(self, number)
        member.start()
        self.link_all()
        return member

    def link_all(self) -> None:
        there = [member for member in self.members.values() if not member.down and member.membership.state is not None]
        for one in there:
            for other in there:
                if one is not other and other.active.node_id not in one.active.parted:
                    one.active.peers.by_id[other.active.node_id] = FakePeer(other)  # type: ignore[assignment]

    def unlink(self, member: Member) -> None:
        for other in self.members.values():
            if other is not member and hasattr(other, "active"):
                other.active.peers.by_id.pop(member.active.node_id, None)
        member.active.peers.by_id.clear()

    def row(self, name: str) -> BrokerRow:
        found = self.table.row(self.connection, name)
        assert found is not None
        return found

    def settle(self) -> None:
        self.clock.advance(0)

    def pass_time(self, seconds: float) -> None:
        """In small steps: the time of the database has to go on, too."""
        for _ in range(round(seconds * 2)):
            start = self.table.now(self.connection)
            while self.table.now(self.connection) <= start:
                pass
            self.clock.advance(0.5)
