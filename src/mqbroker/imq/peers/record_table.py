"""The change record in a database [B9]: every broker appends to it, and the others read from it.

The row of the cluster is the lock: each append writes it first, provided that the generation is still the one that its broker has joined,
and that nobody has locked the table.  So appends follow one another, positions have no gaps that are filled later, and a record that has
taken the place of another one is noticed.  The rules of the record are those of :mod:`mqbroker.imq.record.record`, which has all of it in
memory and reads on from where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mqbroker.imq.record.changes import Recorded, Wish
from mqbroker.imq.record.codec import change_from, text_of
from mqbroker.imq.record.record import SLACK_MAX, Appended, ChangeRecord
from mqbroker.storage.sql.database import Connection, Database, DatabaseError, Row, transaction
from mqbroker.storage.sql.schema import prepare, table
from mqbroker.storage.sql.texts import given, kept
from mqclient.errors import MQError

_CREATE = table(
    "INSERT INTO {cluster} (cluster, generation, last, floor, holder) VALUES (?, '', 0, 0, '') ON CONFLICT (cluster) DO NOTHING"
)
_READ = table(
    "SELECT c.generation, c.floor, c.last, r.position, r.value FROM {cluster} c "
    "LEFT JOIN {record} r ON r.cluster = c.cluster AND r.position > ? WHERE c.cluster = ? ORDER BY r.position"
)
"""One statement, so that what it finds belongs together."""
_ENTER = table("UPDATE {cluster} SET last = last WHERE cluster = ? AND generation = ? AND holder = ?")
_HEAD = table("SELECT generation, last, holder FROM {cluster} WHERE cluster = ?")
_BEGUN = table("UPDATE {cluster} SET generation = ?, last = ?, floor = ? WHERE cluster = ?")
_APPENDED = table("UPDATE {cluster} SET last = ?, floor = ? WHERE cluster = ?")
_HOLDER = table("UPDATE {cluster} SET holder = ? WHERE cluster = ?")
_ADD = table("INSERT INTO {record} (cluster, position, value, token) VALUES (?, ?, ?, ?)")
_FIND = table("SELECT value FROM {record} WHERE cluster = ? AND token = ?")
_DROP = table("DELETE FROM {record} WHERE cluster = ? AND position = ?")
_DROP_ALL = table("DELETE FROM {record} WHERE cluster = ?")
_DELETE = table("DELETE FROM {cluster} WHERE cluster = ?")


class LockedError(Exception):
    """Somebody has locked the table; the text says who."""


class OtherRecordError(Exception):
    """Another record than the one that this broker follows is in the table now."""


class RecordTable:
    """The record of the cluster of this name.

    All methods block, use the connection that they get, and raise DatabaseAwayError and DatabaseError, the latter also for a cluster that
    has no table; one object is used by one thread.
    """

    def __init__(self, database: Database, cluster: str) -> None:
        self.cluster = cluster
        self._database = database
        self._record: ChangeRecord | None = None
        """The record as it was read last."""

    # --- the table

    def create(self, connection: Connection) -> bool:
        """Make an empty table.  Returns False where there is one."""
        prepare(self._database, connection)
        return connection.run(_CREATE, (self.cluster,)) == 1

    def delete(self, connection: Connection) -> None:
        """Remove the table with the record.  Raises LockedError."""
        with transaction(connection):
            self._enter_any(connection)
            self._check_free(connection)
            connection.run(_DROP_ALL, (self.cluster,))
            connection.run(_DELETE, (self.cluster,))

    def lock(self, connection: Connection, holder: str) -> None:
        """Let nobody append but ``holder``.  Raises LockedError when somebody else has locked the table."""
        with transaction(connection):
            self._enter_any(connection)
            self._check_free(connection, holder)
            connection.run(_HOLDER, (holder, self.cluster))

    def unlock(self, connection: Connection) -> str:
        """Clear the lock, whoever has it.  Returns who had, '' = nobody."""
        with transaction(connection):
            self._enter_any(connection)
            holder: str = self._head(connection)[2]
            connection.run(_HOLDER, ("", self.cluster))
        return holder

    def put(self, connection: Connection, record: ChangeRecord) -> bool:
        """Write the whole of ``record`` into an empty table, whoever has locked it.  Returns False where there is a record."""
        with transaction(connection):
            if self._enter_any(connection):
                return False
            self._put(connection, record)
        return True

    # --- the record

    def holder(self, connection: Connection) -> str:
        """The broker that has locked the table; '' = none."""
        found: str = self._head(connection)[2]
        return found

    def position(self, connection: Connection) -> tuple[str, int]:
        """The generation ('' = the table is empty) and how far the record has come."""
        generation, last, _ = self._head(connection)
        return generation, last

    def read(self, connection: Connection) -> ChangeRecord | None:
        """The record as it is now, None = the table is empty.  It is not to be changed."""
        known = self._record
        if known is not None:
            rows = self._rows(connection, known.last)
            generation, floor, last = rows[0][:3]
            if (generation, floor) == (known.generation, known.floor) and last >= known.last:
                self._checked(lambda: known.extend(_changes(rows)))
                return known
        self._record = None
        rows = self._rows(connection, 0)
        if rows[0][0]:
            self._checked(lambda: self._load(rows))
        return self._record

    def begin(self, connection: Connection, record: ChangeRecord) -> ChangeRecord:
        """The record that is there, or else ``record``, which is written.  Raises LockedError."""
        holder = self.holder(connection)
        if holder:
            raise self._locked(holder)
        self.put(connection, record)
        found = self.read(connection)
        if found is None:
            raise DatabaseError(f"{self._database.name}: the change record of {self.cluster} was removed while it was begun")
        return found

    def append(
        self,
        connection: Connection,
        generation: str,
        token: str,
        wish: Wish,
        origin: str,
        time_ms: int,
        known: int,
        deployed: bool,
        *,
        again: bool,
    ) -> Appended:
        """As :meth:`ChangeRecord.append`, in one transaction.

        ``token`` names this append; ``again``: it was tried before, and may have been committed although its answer was lost.  Raises
        LockedError, and OtherRecordError when the record is not that of ``generation`` any more.
        """
        try:
            with transaction(connection):
                self._enter(connection, generation)
                if again and (found := connection.rows(_FIND, (self.cluster, token))):
                    change = change_from(given(found[0][0]))
                    return Appended(change.position, change)
                return self._append(connection, token, wish, origin, time_ms, known, deployed)
        except MQError:
            raise
        except BaseException:
            self._record = None  # it may have what the table does not
            raise

    def _append(self, connection: Connection, token: str, wish: Wish, origin: str, time_ms: int, known: int, deployed: bool) -> Appended:
        record = self.read(connection)
        assert record is not None  # of this generation
        appended = record.append(wish, origin, time_ms, known, deployed)
        if appended.change is not None:
            connection.run(_ADD, (self.cluster, appended.position, kept(text_of(appended.change)), token))
            if record.slack > SLACK_MAX + len(record):
                connection.run_many(_DROP, [(self.cluster, position) for position in record.compress()])
            connection.run(_APPENDED, (record.last, record.floor, self.cluster))
        return appended

    # --- statements

    def _enter(self, connection: Connection, generation: str) -> None:
        """Take the lock of the row, within a transaction."""
        if connection.run(_ENTER, (self.cluster, generation, "")) == 1:
            return
        found, _, holder = self._head(connection)
        if holder:
            raise self._locked(holder)
        raise OtherRecordError(f"{self._database.name} has another change record ({found or 'an empty one'}) than {generation}")

    def _enter_any(self, connection: Connection) -> str:
        """Take the lock of the row whatever it says.  Returns the generation."""
        connection.run(table("UPDATE {cluster} SET last = last WHERE cluster = ?"), (self.cluster,))
        generation: str = self._head(connection)[0]
        return generation

    def _check_free(self, connection: Connection, own: str = "") -> None:
        holder = self._head(connection)[2]
        if holder not in ("", own):
            raise self._locked(holder)

    def _locked(self, holder: str) -> LockedError:
        return LockedError(f"the change record in {self._database.name} is locked by {holder}")

    def _put(self, connection: Connection, record: ChangeRecord) -> None:
        rows = [(self.cluster, change.position, kept(text_of(change)), "") for change in record.changes]
        connection.run(_DROP_ALL, (self.cluster,))
        connection.run_many(_ADD, rows)
        connection.run(_BEGUN, (record.generation, record.last, record.floor, self.cluster))

    def _head(self, connection: Connection) -> Row:
        return self._found(connection.rows(_HEAD, (self.cluster,)))[0]

    def _rows(self, connection: Connection, behind: int) -> list[Row]:
        return self._found(connection.rows(_READ, (behind, self.cluster)))

    def _found(self, rows: list[Row]) -> list[Row]:
        if not rows:
            raise DatabaseError(f"{self._database.name} has no table for the change record of the cluster {self.cluster}")
        return rows

    def _load(self, rows: list[Row]) -> None:
        self._record = ChangeRecord.load(_changes(rows))

    def _checked(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ValueError as error:
            self._record = None
            raise DatabaseError(f"{self._database.name}: the change record of {self.cluster} cannot be used: {error}") from error


def _changes(rows: Iterable[Row]) -> Iterable[Recorded]:
    return (change_from(given(row[4])) for row in rows if row[3] is not None)
