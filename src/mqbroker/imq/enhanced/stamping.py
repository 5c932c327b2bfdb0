"""A thread that stamps the own row and reads all others, however busy the loop is: a starved broker is not taken over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqbroker.imq.enhanced.own_row import OwnRow
from mqbroker.storage.shared.brokers import BrokerRow, BrokerTable
from mqbroker.storage.sql.connections import Line
from mqbroker.storage.sql.database import Connection, Database

if TYPE_CHECKING:
    from mqbroker.ha.shared_store.lease import Beat
    from mqbroker.messaging.ports import Clock


@dataclass(frozen=True, slots=True)
class Look:
    """The answer of the database at ``when`` (s, of the clock of this process): all rows, and the broker with the data of each node id.

    ``own``: is the own row still this process's?
    """

    when: float
    own: bool
    rows: Sequence[BrokerRow]
    owners: Mapping[str, str]


class Stamping:
    """``tell`` gets, on the loop, each :class:`Look`, or the error in its place; ``call`` lets another thread call there."""

    def __init__(
        self,
        database: Database,
        table: BrokerTable,
        row: OwnRow,
        beat: Beat,
        clock: Clock,
        call: Callable[[Callable[[], object]], object],
        tell: Callable[[Look | Exception], object],
    ) -> None:
        self._line = Line(database)
        self._table = table
        self._row = row
        self._beat = beat
        self._clock = clock
        self._call = call
        self._tell = tell

    def start(self, interval: float) -> None:
        """Stamp every ``interval`` seconds."""
        self._beat.start(interval, self._step, self._line.close)

    def stop(self) -> None:
        self._beat.stop()

    # --- in the thread

    def _step(self) -> None:
        state = self._row.state
        if state is None:
            return
        try:
            connection = self._line.get()
            own = self._row.stamp(connection, state) is not None
            found: Look | Exception = self.look(connection, own)
        except Exception as error:
            self._line.close()
            found = error
        self._call(lambda: self._tell(found))

    def look(self, connection: Connection, own: bool) -> Look:
        """Read everything."""
        rows = self._table.rows(connection, self._row.me.cluster)
        return Look(self._clock.monotonic(), own, rows, self._table.owners(connection))
