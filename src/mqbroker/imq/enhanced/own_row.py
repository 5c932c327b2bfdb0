"""The own row of a broker in the table of the members: how it comes to it, keeps it and gives it up [B10.3, B10.8]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.enhanced.desk import Desk
from mqbroker.imq.enhanced.row_machine import RowData, make_row_machine
from mqbroker.storage.shared.brokers import BEING_TAKEN, RUNNING, BrokerRow, BrokerTable, Myself, State
from mqbroker.storage.sql.connections import Trouble
from mqbroker.storage.sql.database import Connection, DatabaseAwayError

if TYPE_CHECKING:
    from mqbroker.config.model.home_cluster import EnhancedCluster
    from mqbroker.messaging.ports import Cancellable, Clock

TAKEN_PAUSE = 10.0
"""Seconds between two looks at the own row while another member takes this one over."""

log = Logger(namespace="mqbroker.imq")


class RowOwner(Protocol):
    """The owner of the row."""

    def row_granted(self) -> None:
        """This process is the member from now on, and is to stamp its row."""

    def row_refused(self, reason: str) -> None:
        """This process cannot be the member."""

    def row_lost(self, reason: str) -> None:
        """Another one has the row; what this broker tries later changes nothing."""


class Vacancy:
    """The question whether a row can be that of ``me``.

    A process of the same folder at the same place has ended, for one folder has one broker.  Any other one that the row names is watched
    for as long as the members would watch it: if it stamps its row, there are two brokers of one id, and the second is refused.
    ``now`` is the monotonic clock.
    """

    def __init__(self, me: Myself, settings: EnhancedCluster, now: Callable[[], float]) -> None:
        self.patience = settings.monitor_interval * (settings.monitor_threshold + 1)
        """How long a process is watched, s."""
        self._me = me
        self._now = now
        self._watched: BrokerRow | None = None
        """The row of another process, as it was when it was seen first."""
        self._since = 0.0

    def is_free(self, seen: BrokerRow | None) -> bool:
        """Is the row nobody's, or that of a process which has ended?"""
        if seen is None:
            return True
        if seen.cluster != self._me.cluster or seen.state in BEING_TAKEN:
            return False
        if seen.state not in RUNNING or (seen.folder, seen.url) == (self._me.folder, self._me.url):
            return True
        return seen == self._watched and self._now() - self._since >= self.patience

    def refusal(self, seen: BrokerRow) -> str | None:
        """Why the row can never be this process's; None where nothing speaks against it yet."""
        if seen.cluster != self._me.cluster:
            return f"imq.brokerid={seen.broker} is that of a broker of the cluster {seen.cluster} in this database"
        if seen.state in BEING_TAKEN:
            return None  # the stamp is the taker's
        watched = self._watched
        if watched is not None and watched.owner == seen.owner and watched.stamp != seen.stamp:
            return f"imq.brokerid={seen.broker}: a broker of this id runs at {seen.url}; each member needs an id of its own"
        return None

    def watch(self, seen: BrokerRow) -> bool:
        """Watch the process that the row names.  Returns whether that begins only now."""
        if self._watched is not None and self._watched.owner == seen.owner:
            return False
        self._watched, self._since = seen, self._now()
        return True


class OwnRow:
    """The row of this process, ``me``, which it gets when there is a :class:`Vacancy`."""

    def __init__(self, desk: Desk, table: BrokerTable, settings: EnhancedCluster, clock: Clock, owner: RowOwner) -> None:
        self.me: Myself
        self._vacancy: Vacancy
        self.state: State | None = None
        """The state that the row is to have; None while it is not this process's."""
        self._desk = desk
        self._table = table
        self._settings = settings
        self._clock = clock
        self._owner = owner
        self._machine = make_row_machine(RowData(self))
        self._node_id: Callable[[], str] = str
        self._taken_since: float | None = None
        """When this process began to wait for a takeover of its row."""
        self._away = Trouble(clock.monotonic)
        self._timer: Cancellable | None = None
        self._failover = False
        self._ended: Callable[[], object] | None = None

    def stamp(self, connection: Connection, state: State) -> int | None:
        """Stamp the row, in any thread.  None when it is not this process's any more."""
        return self._table.stamp(connection, self.me, state, self._node_id())

    # --- requests

    def seek(self, me: Myself) -> None:
        """Become the member; then the owner is told, now or later."""
        self.me = me
        self._node_id = str
        self._vacancy = Vacancy(me, self._settings, self._clock.monotonic)
        self._taken_since = None
        self._failover = False
        self._ended = None
        self._machine.start()

    def operate(self, node_id: Callable[[], str]) -> None:
        """Clients are served; ``node_id`` gives that of the current session."""
        self._node_id = node_id
        self._machine.operate()

    def quiesce(self) -> None:
        self._machine.quiesce()

    def unquiesce(self) -> None:
        self._machine.unquiesce()

    def emptied(self) -> None:
        """The last client has gone, and no message is left that a stop would lose."""
        self._machine.emptied()

    def leave(self) -> None:
        """The broker begins an orderly stop."""
        self._machine.leave()

    def want_failover(self, wanted: bool) -> None:
        """Is another member to go on after the stop?"""
        self._failover = wanted

    def end(self, done: Callable[[], object]) -> None:
        """All work is written, or nothing will be.  ``done`` is called when the row says how the broker has ended, if it can."""
        in_order = self.state is State.SHUTDOWN_STARTED
        if in_order:
            self._ended = done
        self._machine.end()
        if not in_order:
            done()

    def lost(self) -> None:
        """The row is not this process's any more."""
        self._machine.lost()

    # --- work of the states

    def look_at_row(self) -> None:
        self._timer = None
        me, table, vacancy = self.me, self._table, self._vacancy

        def look(connection: Connection) -> tuple[BrokerRow | None, bool]:
            seen = table.row(connection, me.broker)
            return seen, vacancy.is_free(seen) and table.join(connection, me, seen)

        self._desk.ask(look).addCallbacks(self._looked, self._look_failed)

    def _looked(self, found: tuple[BrokerRow | None, bool]) -> None:
        seconds = self._away.over()
        if seconds is not None:
            log.info("the database answers again, after {seconds:.0f} s", seconds=seconds)
        seen, joined = found
        if joined:
            self._machine.joined()
        elif seen is None:
            self._machine.held()  # another process has put it in at the same moment
        elif (reason := self._vacancy.refusal(seen)) is not None:
            self._refuse(reason)
        elif seen.state in BEING_TAKEN:
            self._wait_for_taker(seen)
        else:
            self._watch_process(seen)

    def _look_failed(self, failure: Failure) -> None:
        if not isinstance(failure.value, DatabaseAwayError):
            self._refuse(f"the table of the members cannot be used: {failure.getErrorMessage()}")
            return
        if self._away.is_told():
            log.warn("{error}; it is asked again", error=failure.getErrorMessage())
        self._machine.held()

    def _watch_process(self, seen: BrokerRow) -> None:
        self._taken_since = None
        if self._vacancy.watch(seen):
            text = "the broker {id} was at {url}, and may be there: this one starts when it stamps its row no more"
            log.info(text, id=seen.broker, url=seen.url)
        self._machine.held()

    def _wait_for_taker(self, seen: BrokerRow) -> None:
        limit = self._settings.takeover_wait
        now = self._clock.monotonic()
        if self._taken_since is None:
            self._taken_since = now
            log.info("{taker} is taking this broker over: the start waits for that", taker=seen.taker)
        if 0 <= limit <= now - self._taken_since:
            self._refuse(f"{seen.taker} has been taking this broker over for {limit:g} s (imq.cluster.ha.takeoverWaitTimeout)")
        else:
            self._machine.taken_over()

    def _refuse(self, reason: str) -> None:
        self._machine.refused()
        self._owner.row_refused(reason)

    def look_later(self, taken_over: bool) -> None:
        pause = TAKEN_PAUSE if taken_over else self._settings.monitor_interval
        self._timer = self._clock.call_later(pause, self._machine.look)

    def grant(self) -> None:
        self.state = State.INITIALIZING
        self._owner.row_granted()

    def write(self, state: str) -> None:
        self.state = State[state]
        self._write(self.state).addCallbacks(self._written, self._not_written)

    def _write(self, state: State) -> Deferred[int | None]:
        me, table, node_id = self.me, self._table, self._node_id()
        return self._desk.ask(lambda connection: table.stamp(connection, me, state, node_id))

    def _written(self, stamp: int | None) -> None:
        if stamp is None:
            self._machine.lost()

    def _not_written(self, failure: Failure) -> None:
        """The database is away: the state is written with the next stamp, if there is one."""
        log.warn("the own row was not written: {error}", error=failure.getErrorMessage())

    def write_end(self) -> None:
        self.state = None
        state = State.SHUTDOWN_FAILOVER if self._failover else State.SHUTDOWN_COMPLETE
        me, table, node_id = self.me, self._table, self._node_id()
        ended = self._desk.ask(lambda connection: table.end(connection, me, state, node_id))
        ended.addErrback(self._not_written).addBoth(self._end_written)

    def _end_written(self, result: object) -> None:
        done, self._ended = self._ended, None
        if done is not None:
            done()

    def give_up(self) -> None:
        self._owner.row_lost(f"another member has taken over {self.me.broker}")

    def rest(self) -> None:
        self.state = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
