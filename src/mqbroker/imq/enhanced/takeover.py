"""Taking over a member that has failed [B10.6]: the lock, the switch, and its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.logger import Logger

from mqbroker.imq.enhanced.desk import Desk
from mqbroker.imq.links.requests import Peers
from mqbroker.storage.shared.brokers import BrokerRow, BrokerTable, Myself, State
from mqbroker.storage.sql import session
from mqbroker.storage.sql.connections import Trouble
from mqbroker.storage.sql.database import Connection, DatabaseAwayError, DatabaseError
from mqbroker.storage.sql.schema import SESSIONS
from mqbroker.storage.sql.session import StoreSession

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Clock

TOLD_SECONDS = 2.0
"""How long a taker waits until the other members have heard of it.  The others notice at the latest when their link ends."""

PAUSE = 0.5
"""Seconds until a database that is away during the switch is asked again."""

FOLLOW_SECONDS = 30.0
"""How long a takeover waits until the change record is read; new clients are told to come again meanwhile."""

log = Logger(namespace="mqbroker.imq")


class TakeoverError(Exception):
    """Nothing was taken over; the text says why."""


class BehindError(Exception):
    """The lost member has followed the change record up to ``position``, and this one, so far as it is stored, has not."""

    def __init__(self, position: int) -> None:
        super().__init__(f"the change record is not followed up to {position} yet")
        self.position = position


class Data(Protocol):
    """The store and the messaging of this broker."""

    @property
    def session(self) -> StoreSession:
        """The current session of the store."""

    def check(self, connection: Connection, sessions: Sequence[StoreSession]) -> None:
        """Raises BehindError where a former owner of these sessions knows of changes that this broker has not stored yet.

        The queues there are of the same life as those of this broker, or of an earlier one, and never of a later one.
        """

    def come_to(self, position: int) -> Deferred[None]:
        """Follow the change record, and store what it says.  Fails with MQError."""

    def inherit(self, sessions: Sequence[StoreSession], done: Callable[[Exception | None], object]) -> None:
        """Make everything that these sessions have this broker's; ``done`` is called in a turn, when clients may have it."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """``nodes`` are the node ids whose data came, also those of which nothing is left: their clients may have work that is not answered."""

    sessions: list[StoreSession]
    nodes: list[str]


class TakeoverEvents(Protocol):
    """The listener to a takeover."""

    def takeover_begins(self, target: BrokerRow) -> None:
        """Links to ``target`` end; new clients are told to come again."""

    def takeover_failed(self, target: BrokerRow) -> None:
        """The member ``target`` keeps its data."""

    def takeover_ends(self, target: BrokerRow, node_ids: Sequence[str]) -> None:
        """The data of ``target`` are here: clients of these nodes are served."""


class Takeover:
    """One takeover at a time.

    ``me`` gives this process as a member, ``delay`` the seconds before the lock.  ``end_writers`` is the statement that ends transactions
    which stand still (:class:`mqbroker.storage.sql.database.Database`).
    """

    def __init__(
        self,
        me: Callable[[], Myself],
        table: BrokerTable,
        desk: Desk,
        peers: Peers,
        data: Data,
        events: TakeoverEvents,
        clock: Clock,
        delay: float,
        end_writers: str = "",
    ) -> None:
        self._me = me
        self._table = table
        self._desk = desk
        self._peers = peers
        self._data = data
        self._events = events
        self._clock = clock
        self._delay = delay
        self._end_statement = end_writers
        self._target: str | None = None
        self._stopped = False

    @property
    def target(self) -> str | None:
        """The id of the member that is being taken over now."""
        return self._target

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True

    async def take(self, seen: BrokerRow) -> None:
        """Take over the member whose row was ``seen``.  Raises TakeoverError; after that nothing has changed."""
        if self._target is not None:
            raise TakeoverError(f"{self._me().broker} is taking over {self._target} now")
        self._target = seen.broker
        log.info(
            "{me} takes over {broker} at {url} ({state})", me=self._me().broker, broker=seen.broker, url=seen.url, state=seen.state.name
        )
        self._events.takeover_begins(seen)
        try:
            await self._inherit(seen, await self._get_or_restore(seen))
        finally:
            self._target = None

    async def _get_or_restore(self, seen: BrokerRow) -> _Taken:
        try:
            return await self._get(seen)
        except Exception as error:
            self._events.takeover_failed(seen)
            self._tell("takeoverAbort", seen.broker, seen.node_id)
            raise TakeoverError(str(error)) from error

    async def _get(self, seen: BrokerRow) -> _Taken:
        me = self._me()
        await self._at_most(TOLD_SECONDS, self._tell("takeoverPending", seen.broker, seen.node_id, me.broker))
        if self._delay > 0:
            await self._pause(self._delay)
        if self._stopped:
            raise TakeoverError("this broker stops")
        if not await self._lock(me, seen):
            raise TakeoverError(f"{seen.broker} is back, or another member takes it over")
        try:
            return await self._switch(me, seen)
        except Exception:
            await self._restore(me, seen)
            raise

    async def _lock(self, me: Myself, seen: BrokerRow) -> bool:
        """Where the answer is lost, the row says whether it was changed.

        If not, nothing is tried again: the database may have been away for the other member, too, which has not stamped its row for that.
        """
        try:
            return await self._desk.ask(lambda connection: self._table.lock(connection, seen, me.broker)) is not None
        except DatabaseAwayError as error:
            log.warn("{error}; whether {broker} is being taken over is looked up", error=error, broker=seen.broker)
        while not self._stopped:
            await self._pause(PAUSE)
            try:
                row = await self._desk.ask(lambda connection: self._table.settled(connection, seen.broker))
            except DatabaseAwayError:
                continue
            return row is not None and (row.state, row.taker, row.owner) == (State.FAILOVER_PENDING, me.broker, seen.owner)
        raise TakeoverError("this broker stops")

    async def _switch(self, me: Myself, seen: BrokerRow) -> _Taken:
        """The one transaction.  Where its answer is lost, the row or the nodes of this broker say whether it was committed."""
        before, nodes_before = await self._desk.ask(lambda connection: (self._sessions(connection), self._nodes(connection)))
        numbers_before = {each.number for each in before}
        again = False

        def switch(connection: Connection) -> _Taken:
            sessions = look_or_take(connection) if again else take(connection)
            nodes = sorted(self._nodes(connection) - nodes_before)
            return _Taken(sessions, nodes)

        def take(connection: Connection) -> list[StoreSession]:
            return self._table.switch(connection, me, seen.broker, self._data.session.owner, self._data.check)

        def look_or_take(connection: Connection) -> list[StoreSession]:
            row = self._table.settled(connection, seen.broker)
            taken = row is not None and row.state is State.FAILOVER_COMPLETE and row.taker == me.broker
            # A member that has started again since has a row of its own; what it had before is here all the same.
            if taken or self._nodes(connection) - nodes_before:
                return [each for each in self._sessions(connection) if each.number not in numbers_before]
            return take(connection)

        follow_until: float | None = None
        away, refused = Trouble(self._clock.monotonic), Trouble(self._clock.monotonic)
        while not self._stopped:
            try:
                taken = await self._desk.ask(switch)
            except BehindError as error:
                if follow_until is None:
                    follow_until = self._clock.monotonic() + FOLLOW_SECONDS
                    log.info("the takeover of {broker} waits: {reason}", broker=seen.broker, reason=error)
                await self._follow(error, follow_until)
                continue
            except DatabaseAwayError as error:
                if away.is_told():
                    log.warn("{error}; the takeover of {broker} goes on when the database answers", error=error, broker=seen.broker)
                await self._end_writers(seen, refused)
            else:
                seconds = away.over()
                if seconds is not None:
                    log.info("the database lets the takeover of {broker} go on, after {seconds:.0f} s", broker=seen.broker, seconds=seconds)
                return taken
            again = True
            await self._pause(PAUSE)
        raise TakeoverError("this broker stops")

    async def _follow(self, behind: BehindError, until: float) -> None:
        """Read the change record; after that time nothing is taken over."""
        followed = self._data.come_to(behind.position)
        limit = self._clock.call_later(max(until - self._clock.monotonic(), 0), followed.cancel)
        try:
            await followed
        except CancelledError:
            raise TakeoverError(f"{behind}, after {FOLLOW_SECONDS:g} s") from behind
        finally:
            limit.cancel()

    async def _end_writers(self, seen: BrokerRow, refused: Trouble) -> None:
        """The target may stand still in the middle of a transaction.  Other brokers whose transactions end with its one do them again."""
        statement = self._end_statement
        if not statement:
            return
        try:
            ended = await self._desk.ask(lambda connection: connection.rows(statement, (SESSIONS,)))
        except (DatabaseAwayError, DatabaseError) as error:
            if refused.is_told():
                log.warn("a transaction of {broker} that stands still cannot be ended: {error}", broker=seen.broker, error=error)
        else:
            if ended:
                log.warn("the transactions that hold up the takeover of {broker} are ended", broker=seen.broker)

    def _sessions(self, connection: Connection) -> list[StoreSession]:
        return session.inherited(connection, self._data.session, self._me().broker)

    def _nodes(self, connection: Connection) -> set[str]:
        """The node ids whose data this broker has."""
        me = self._me().broker
        return {node_id for node_id, broker in self._table.owners(connection).items() if broker == me}

    async def _restore(self, me: Myself, seen: BrokerRow) -> None:
        """Nobody else takes the member over, and it does not start again, before this is done."""
        while True:
            try:
                await self._desk.ask(lambda connection: self._table.restore(connection, seen, me.broker))
                return
            except Exception as error:
                if self._stopped or not isinstance(error, DatabaseAwayError):
                    log.warn("the row of {broker} is not restored before the next start: {error}", broker=seen.broker, error=error)
                    return
            await self._pause(PAUSE)

    async def _inherit(self, seen: BrokerRow, taken: _Taken) -> None:
        """From here on the data are this broker's, whatever happens: its next start goes on."""
        inherited: Deferred[Exception | None] = Deferred()
        self._data.inherit(taken.sessions, inherited.callback)
        error = await inherited
        if error is not None:
            text = "the messages of {broker} are this broker's, and could not be read: {error}; its next start tries again"
            log.critical(text, broker=seen.broker, error=error)
        self._events.takeover_ends(seen, [] if error is not None else taken.nodes)
        self._tell("takeoverComplete", seen.broker, taken.nodes)
        log.info("{me} has taken over {broker}", me=self._me().broker, broker=seen.broker)

    # --- other members

    def _tell(self, operation: str, *parameters: object) -> Deferred[Any]:
        asked = [peer.ask(operation, *parameters) for peer in list(self._peers.by_id.values())]
        return DeferredList(asked, consumeErrors=True)

    def _at_most(self, seconds: float, result: Deferred[Any]) -> Deferred[None]:
        over: Deferred[None] = Deferred()

        def end(_: object = None) -> None:
            if not over.called:
                limit.cancel()
                over.callback(None)

        limit = self._clock.call_later(seconds, end)
        result.addCallback(end)
        return over

    def _pause(self, seconds: float) -> Deferred[None]:
        over: Deferred[None] = Deferred()
        self._clock.call_later(seconds, over.callback, None)
        return over
