"""This broker as a member of an enhanced cluster: it stamps its row, watches the others, and takes over those that have failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.enhanced.clients import Clients, owner_of
from mqbroker.imq.enhanced.own_row import OwnRow
from mqbroker.imq.enhanced.sides import ActiveSide, Described, MemberStart, Outside
from mqbroker.imq.enhanced.solitude import Solitude, answers_again
from mqbroker.imq.enhanced.stamping import Look, Stamping
from mqbroker.imq.enhanced.taken import Adopted
from mqbroker.imq.enhanced.takeover import Takeover, TakeoverError
from mqbroker.imq.enhanced.watch import Watch, WatchSettings
from mqbroker.server.management.registry import ManagementError
from mqbroker.storage.shared.brokers import BEING_TAKEN, RUNNING, BrokerRow, BrokerTable, Myself, State
from mqbroker.storage.sql.database import DatabaseAwayError

if TYPE_CHECKING:
    from mqbroker.config.model.home_cluster import EnhancedCluster
    from mqbroker.storage.sql.database import Connection

ADMISSION = "takeover"
"""The kind under which new clients are not admitted during a takeover."""

FIRST_LOOK_PAUSE = 1.0
"""At most so many seconds between two attempts to learn what this broker had taken over before its start."""

PARTED_SECONDS = 60.0
"""At least so long there is no link to a member that somebody is about to take over, unless it is said that nothing came of it."""

log = Logger(namespace="mqbroker.imq")


class Membership:
    """The membership, one for the life of a process; it may seek its row several times.  ``myself`` has no owner and no folder yet."""

    def __init__(self, settings: EnhancedCluster, myself: Myself, outside: Outside) -> None:
        self.settings = settings
        self.table = BrokerTable(outside.database)
        self.seen: Look | None = None
        """The last answer of the database."""
        self.takeovers = 0
        self.takeovers_failed = 0
        self._myself = myself
        self._outside = outside
        self._clock = outside.clock
        self._seeker: MemberStart | None = None
        self._active: ActiveSide | None = None
        self._row = OwnRow(outside.desk, self.table, settings, outside.clock, self)
        self._stamping = Stamping(outside.database, self.table, self._row, outside.beat, outside.clock, outside.call, self._looked)
        self._watch = self._new_watch()
        self._takeover: Takeover | None = None
        self._failed: dict[str, BrokerRow] = {}
        """The row of each member whose takeover came to nothing the last time, as it was when that began."""
        self._adopted = Adopted()
        self._clients = Clients(self._adopted.nodes)
        self._solitude = Solitude(settings.failures, self._give_up_alone)

    def _new_watch(self) -> Watch:
        return Watch(self._myself.broker, WatchSettings(self.settings.monitor_interval, self.settings.monitor_threshold))

    # --- life

    @property
    def me(self) -> Myself:
        return self._row.me

    @property
    def state(self) -> State | None:
        """The state of the own row; None while this process does not have it."""
        return self._row.state

    def seek(self, seeker: MemberStart, folder: str) -> None:
        """Become the member; ``folder`` names the folder that no other process has."""
        mine = self._myself
        self._seeker = seeker
        self._watch = self._new_watch()
        self._solitude = Solitude(self.settings.failures, self._give_up_alone)
        text = "{me} is a broker of the enhanced cluster {cluster}: one that fails is taken over within {seconds:g} s"
        log.info(text, me=mine.broker, cluster=mine.cluster, seconds=self.settings.detection_s)
        self._row.seek(Myself(mine.broker, mine.cluster, mine.url, mine.version, self._outside.new_owner(), folder))

    def attach(self, active: ActiveSide) -> None:
        """This broker is active; its own data and those that it had taken over before are there."""
        self._active = active
        self._takeover = Takeover(
            lambda: self._row.me,
            self.table,
            self._outside.desk,
            active.peers,
            active.data,
            self,
            self._clock,
            self.settings.takeover_delay,
            self._outside.database.end_writers,
        )
        self._row.operate(lambda: active.node_id)
        self._adopted = Adopted(active.node_id)
        self._clients = Clients(self._adopted.nodes)
        self._look_first(active)

    def _look_first(self, active: ActiveSide) -> None:
        if active is self._active:
            asked = self._outside.desk.ask(self._first_look)
            asked.addCallbacks(self._begin, self._not_begun, callbackArgs=(active,), errbackArgs=(active,))

    def _first_look(self, connection: Connection) -> Look:
        return self._stamping.look(connection, True)

    def _begin(self, look: Look, active: ActiveSide) -> None:
        """The data that this broker has at its start are there already."""
        if active is self._active:
            self.seen = look
            active.turn.run(self._know_members, active, look)

    def _know_members(self, active: ActiveSide, look: Look) -> None:
        first = not self._adopted.complete
        if first:
            self._adopted.begin([node_id for node_id, broker in look.owners.items() if broker == self._myself.broker])
        self._list_members(active, look)
        if first:
            active.settle_branches()

    def _not_begun(self, failure: Failure, active: ActiveSide) -> None:
        log.warn("the members are not known yet: {error}", error=failure.getErrorMessage())
        self._clock.call_later(min(FIRST_LOOK_PAUSE, self.settings.monitor_interval), self._look_first, active)

    def detach(self) -> None:
        """This broker is not active any more."""
        if self._takeover is not None:
            self._takeover.stop()
        self._active = self._takeover = None

    def quiesce(self) -> None:
        self._row.quiesce()

    def unquiesce(self) -> None:
        self._row.unquiesce()

    def want_failover(self, wanted: bool) -> None:
        """Is another member to go on after the stop that is about to begin?"""
        self._row.want_failover(wanted)

    def leave(self) -> None:
        """An orderly stop begins: this broker takes over nobody any more."""
        self._row.leave()

    def end(self, done: Callable[[], object]) -> None:
        """All work is written."""
        self._stamping.stop()
        self._row.end(done)
        self.detach()

    # --- the own row

    def row_granted(self) -> None:
        self._stamping.start(self.settings.monitor_interval)
        assert self._seeker is not None
        self._seeker.granted()

    def row_refused(self, reason: str) -> None:
        assert self._seeker is not None
        self._seeker.lost(reason)

    def row_lost(self, reason: str) -> None:
        self.begin_again(reason)

    def begin_again(self, reason: str) -> None:
        """This broker has lost its row or its data: it ends all clients, and starts again, with a new session."""
        ready: Deferred[None] = Deferred()
        ready.callback(None)
        self._end_activity(reason, ready)

    def _end_activity(self, reason: str, ready: Deferred[None]) -> None:
        log.critical("{reason}: this broker ends its clients, and starts again", reason=reason)
        self._row.end(lambda: None)
        self.detach()
        if self._seeker is not None:
            self._seeker.begin_again(ready)

    # --- looks at the database

    def _looked(self, found: Look | Exception) -> None:
        active = self._active
        if active is None:
            self._looked_passive(found)
        else:
            active.turn.run(self._looked_active, active, found)

    def _looked_passive(self, found: Look | Exception) -> None:
        """While the messages are read, or after this broker has given up."""
        if isinstance(found, Look):
            self.seen = found
            if not found.own and self._row.state is not None:
                self._row.lost()

    def _looked_active(self, active: ActiveSide, found: Look | Exception) -> None:
        if not isinstance(found, Look):
            rows = [] if self.seen is None else self.seen.rows
            others = any(row.broker != self.me.broker and row.state in RUNNING for row in rows)
            self._solitude.unanswered(found, active.peers, others)
            return
        self._solitude.answered()
        self.seen = found
        if not found.own:
            self._row.lost()
            return
        if self._row.state is State.QUIESCE_STARTED and not (active.has_clients() or active.has_transient_messages()):
            self._row.emptied()
        self._know_members(active, found)
        if self._row.state is State.OPERATING:
            for row in self._watch.tick(found.when, found.rows, active.linked()):
                if self._takeover is not None and self._takeover.target is None:
                    self.take_over(row).addErrback(self._not_taken)

    def _list_members(self, active: ActiveSide, look: Look) -> None:
        active.list_members([row.url for row in look.rows if row.broker != self.me.broker and row.state in RUNNING])
        active.leave_out([row.node_id for row in look.rows if row.state is not State.OPERATING])

    def take_over(self, row: BrokerRow) -> Deferred[None]:
        """Take over the member whose row was seen so.  Fails with TakeoverError."""
        if self._takeover is None:
            raise TakeoverError("this broker is not active")
        if not self._adopted.complete:
            raise TakeoverError("this broker does not know yet what it has taken over before")
        return Deferred.fromCoroutine(self._takeover.take(row))

    def take_over_broker(self, broker: str) -> Deferred[None]:
        """Take over the member of this id, whatever its state is.  Fails with TakeoverError."""
        return Deferred.fromCoroutine(self._take_over_broker(broker))

    async def _take_over_broker(self, broker: str) -> None:
        if broker == self.me.broker:
            raise TakeoverError(f"{broker} is this broker itself")
        row = await self._outside.desk.ask(lambda connection: self.table.row(connection, broker))
        if row is None or row.cluster != self.me.cluster:
            raise TakeoverError(f"there is no broker {broker} in this cluster")
        if row.state in BEING_TAKEN or row.state is State.FAILOVER_COMPLETE:
            raise TakeoverError(f"CONFLICT: {row.taker} {'takes' if row.state in BEING_TAKEN else 'has taken'} over {broker}")
        await self.take_over(row)

    def describe(self) -> Deferred[list[Described]]:
        """All members, as the database has them now; while it does not answer, those that were there last."""
        cluster, table = self.me.cluster, self.table

        def read(connection: Connection) -> tuple[int, Mapping[str, int], list[BrokerRow]]:
            return table.now(connection), table.messages(connection), table.rows(connection, cluster)

        return self._outside.desk.ask(read).addCallbacks(self._described, self._described_last)

    def _described(self, found: tuple[int, Mapping[str, int], list[BrokerRow]]) -> list[Described]:
        now, counts, rows = found
        running = {row.broker for row in rows if row.state in RUNNING}
        return [Described(row, row.state, counts.get(row.broker, 0), now - row.stamp, self._has_failed(row, running)) for row in rows]

    def _has_failed(self, row: BrokerRow, running: Collection[str]) -> bool:
        """Was a takeover begun, and nobody goes on with it?"""
        if row.state not in BEING_TAKEN:
            before = self._failed.get(row.broker)
            return before is not None and (before.owner, before.state, before.stamp) == (row.owner, row.state, row.stamp)
        if row.taker != self.me.broker:
            return row.taker not in running
        return self._takeover is None or self._takeover.target != row.broker

    def _described_last(self, failure: Failure) -> list[Described] | Failure:
        """This broker alone knows its state then."""
        if self.seen is None or not isinstance(failure.value, DatabaseAwayError):
            return failure
        own = self._row.state
        return [Described(row, own if row.broker == self.me.broker else None, None, None) for row in self.seen.rows]

    def _not_taken(self, failure: Failure) -> None:
        if not isinstance(failure.value, TakeoverError):
            log.failure("a takeover failed", failure=failure)
        else:
            log.warn("nothing is taken over: {reason}", reason=failure.getErrorMessage())

    # --- without the database

    def _give_up_alone(self) -> None:
        if self._active is not None:
            self._stamping.stop()
            back = answers_again(self._outside.desk, self.table, self._clock, self.settings.monitor_interval)
            failures = self._solitude.failures
            self._end_activity(f"the database has not answered {failures} times, and this broker alone has lost it", back)

    @property
    def stamp_age_s(self) -> float:
        """How long ago this broker has stamped its row, as far as it knows; -1 before the first time."""
        return -1 if self.seen is None else self._clock.monotonic() - self.seen.when

    @property
    def problem(self) -> str | None:
        """Why clients can be served only in part, in one line."""
        return None if not self._solitude.failures else "the database does not answer"

    # --- takeovers

    def takeover_begins(self, target: BrokerRow) -> None:
        self._failed.pop(target.broker, None)
        active = self._active
        if active is not None:
            active.part(target.node_id)
            active.refuse_clients(f"{self.me.broker} is taking over {target.broker}; connect again in a moment")

    def takeover_failed(self, target: BrokerRow) -> None:
        self.takeovers_failed += 1
        self._failed[target.broker] = target
        self._watch.forget(target.broker)
        active = self._active
        if active is not None:
            active.join(target.node_id)
            active.refuse_clients(None)

    def takeover_ends(self, target: BrokerRow, node_ids: Sequence[str]) -> None:
        self.takeovers += 1
        active = self._active
        if active is not None:
            self._adopted.nodes.update(node_ids)
            active.refuse_clients(None)
            active.settle_branches()

    # --- clients

    def owner_of(self, node_id: str) -> BrokerRow | None:
        """The member that has the data of a node; None where nobody has, as far as it is known."""
        return None if self.seen is None else owner_of(self.seen, node_id)

    def serves(self, node_id: str) -> bool:
        """May a client go on here that was at this node before?"""
        active, look = self._active, self.seen
        return active is not None and self._clients.serves(node_id, look, active.linked(), self._clock.monotonic())

    def has(self, node_id: str) -> bool:
        """Are the data of this node here?"""
        return node_id in self._adopted.nodes

    @property
    def nodes(self) -> Collection[str]:
        """The node ids whose data are here."""
        return self._adopted.nodes

    # --- other members ask

    @property
    def answers(self) -> Mapping[str, Callable[..., Any]]:
        """The operations of other members that this part answers."""
        return {
            "takeoverPending": self.answer_pending,
            "takeoverAbort": self.answer_abort,
            "takeoverComplete": self.answer_complete,
            "databaseAnswers": self.answer_database,
            "hasDataOf": self.answer_data,
        }

    def answer_pending(self, broker: Any, node_id: Any, taker: Any) -> None:
        """The member ``taker`` is about to take over ``broker``, which may be this one."""
        active = self._active
        if active is None:
            return
        if broker != self.me.broker:
            active.part(str(node_id))
            seconds = max(PARTED_SECONDS, 2 * self.settings.monitor_interval)
            self._clock.call_later(seconds, active.turn.run, self._rejoin, active, str(broker), str(node_id))
        elif self.settings.takeover_wait != 0:
            log.warn("{taker} is about to take over this broker", taker=taker)

    def _rejoin(self, active: ActiveSide, broker: str, node_id: str) -> None:
        """A taker that has died could not say that nothing came of it."""
        rows = [] if self.seen is None else self.seen.rows
        if self._active is active and any(row.broker == broker and row.node_id == node_id and row.state in RUNNING for row in rows):
            active.join(node_id)

    def answer_abort(self, broker: Any, node_id: Any) -> None:
        if self._active is not None and broker != self.me.broker:
            self._active.join(str(node_id))

    def answer_complete(self, broker: Any, node_ids: Any) -> None:
        """Other members learn it from the database, too; a broker that was taken over learns it here first."""
        active = self._active
        if active is None:
            return
        if broker != self.me.broker:
            active.settle_branches()
        elif active.node_id in node_ids:
            self._row.lost()

    def answer_data(self, nodes: Any) -> list[str]:
        return self._adopted.answer(nodes)

    def answer_database(self) -> bool:
        if self._active is None:
            raise ManagementError("this broker is not active")
        return self._solitude.failures == 0
