"""All tables of a database as a whole: made, removed, counted, written out and filled again, while no broker uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mqbroker.storage.shared.brokers import RUNNING, BrokerTable, State
from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import Connection, Database, DatabaseError, Row, transaction
from mqbroker.storage.sql.schema import NAMES, PREFIX, columns, key, table, version_of

PAGE = 500
"""Rows that are put into a table at a time."""

READ_ROWS = 100
"""Rows that are read from a table at a time: a row may be a piece of a large body."""


def exist(connection: Connection) -> bool:
    """Are there tables of brokers?"""
    return version_of(connection) is not None


def delete(connection: Connection) -> None:
    """Remove all tables that there are."""
    with transaction(connection):
        for name in NAMES:
            connection.run(f"DROP TABLE IF EXISTS {PREFIX}{name}")


def running(connection: Connection) -> dict[str, int]:
    """The stamps of the brokers of enhanced clusters whose rows say that they run, by id.

    A broker that was killed says so for ever, but its stamp stands still.
    """
    rows = connection.rows(table("SELECT broker, state, stamp FROM {broker} ORDER BY broker"))
    return {broker: stamp for broker, state, stamp in rows if State(state) in RUNNING}


def others(database: Database, connection: Connection, broker: str, cluster: str | None) -> list[str]:
    """Names of others than ``broker`` ('' = it has no id) and the members of the enhanced ``cluster`` (None = in none) in the database.

    Counted are data of brokers, members and change records of other clusters, and leases that last.
    """
    clusters: dict[str, str] = dict(connection.rows(table("SELECT broker, cluster FROM {broker}")))
    with_data = {str(name) for (name,) in connection.rows(table("SELECT DISTINCT broker FROM {session}"))}
    names = sorted(with_data | set(clusters))
    found = [_named(name, clusters.get(name)) for name in names if name != broker and (cluster is None or clusters.get(name) != cluster)]
    for (name,) in connection.rows(table("SELECT cluster FROM {cluster} WHERE generation <> '' ORDER BY cluster")):
        if name != cluster:
            found.append(f"the change record of the cluster {name}")
    held = table(f"SELECT name FROM {{lease}} WHERE holder <> '' AND expires > {database.now} ORDER BY name")
    return [*found, *(f"a broker of a pair that runs (lease {name})" for (name,) in connection.rows(held))]


def _named(broker: str, cluster: str | None) -> str:
    if not broker:
        return "a broker without an id"
    if " " in broker:
        return f"a broker that is told apart by its {broker}"
    return f"the broker {broker}" if cluster is None else f"the broker {broker} of the cluster {cluster}"


def sizes(connection: Connection) -> list[tuple[str, int]]:
    """Each table with the number of its rows."""
    return [(PREFIX + name, connection.rows(f"SELECT COUNT(*) FROM {PREFIX}{name}")[0][0]) for name in NAMES]


def members(connection: Connection) -> list[tuple[str, str, str, str, str]]:
    """Each broker of an enhanced cluster: id, cluster, place, state, and who has taken it over."""
    rows = connection.rows(table("SELECT broker, cluster, url, state, taker FROM {broker} ORDER BY cluster, broker"))
    return [(broker, cluster, url, State(state).name, taker) for broker, cluster, url, state, taker in rows]


def contents(connection: Connection) -> Iterator[tuple[str, list[str], list[Row]]]:
    """Each table with its columns and rows, all as they are at one moment; a long table comes in pieces, one after the other."""
    connection.begin_reading()
    try:
        for name in NAMES:
            known = columns(name)
            for rows in _pieces(connection, name, known):
                yield name, known, rows
    finally:
        connection.rollback()


def _pieces(connection: Connection, name: str, known: Sequence[str]) -> Iterator[list[Row]]:
    """The rows of a table in the order of its primary key, at least one piece.

    A table of messages may have more bytes than there is memory, and take longer than one statement may.
    """
    wanted, ordered = f"SELECT {', '.join(known)} FROM {PREFIX}{name}", key(name)
    if not ordered:  # such a table has one row
        yield connection.rows(wanted)
        return
    listed, marks = ", ".join(ordered), ", ".join("?" for _ in ordered)
    tail = f"ORDER BY {listed} LIMIT {READ_ROWS}"
    places = [known.index(each) for each in ordered]
    rows = connection.rows(f"{wanted} {tail}")
    yield rows
    while len(rows) == READ_ROWS:
        rows = connection.rows(f"{wanted} WHERE ({listed}) > ({marks}) {tail}", [rows[-1][place] for place in places])
        yield rows


def check(read: Callable[[str], Iterator[Sequence[Any]]]) -> None:
    """Raises ValueError for a backup that is not whole: it is looked through before anything is removed for it."""
    for name in NAMES:
        found, known = read(name), columns(name)
        if list(next(found, ())) != known:
            raise ValueError(_OTHER_COLUMNS.format(name=name, columns=", ".join(known)))
        if any(len(row) != len(known) for row in found):
            raise ValueError(f"a row of the table {name} of the backup has not {len(known)} values")


_OTHER_COLUMNS = "the table {name} of the backup has other columns than {columns}"


def fill(connection: Connection, read: Callable[[str], Iterator[Sequence[Any]]]) -> int:
    """Put what ``read`` gives for a table, its columns and then its rows, into the tables, which are as new.  Returns the number of rows.

    Raises ValueError for a backup that is none; nothing has changed then.
    """
    count = 0
    with transaction(connection):
        for name in NAMES:
            connection.run(f"DELETE FROM {PREFIX}{name}")
            found = read(name)
            head, known = next(found, None), columns(name)
            if head is None:
                continue
            if list(head) != known:
                raise ValueError(_OTHER_COLUMNS.format(name=name, columns=", ".join(known)))
            statement = f"INSERT INTO {PREFIX}{name} ({', '.join(known)}) VALUES ({', '.join('?' for _ in known)})"
            count += _put(connection, statement, found)
    return count


def _put(connection: Connection, statement: str, rows: Iterator[Sequence[Any]]) -> int:
    count, page = 0, list[Sequence[Any]]()
    for row in rows:
        page.append(row)
        count += 1
        if len(page) == PAGE:
            connection.run_many(statement, page)
            page = []
    if page:
        connection.run_many(statement, page)
    return count


def remove_broker(database: Database, connection: Connection, broker: str) -> int:
    """Remove a broker of an enhanced cluster and what it still has, in one transaction.  Returns the number of its store sessions.

    Raises DatabaseError for a broker that runs, that another one is taking over, or that is not there.
    """
    members = BrokerTable(database)
    with transaction(connection):
        row = members.row(connection, broker)
        if row is None:
            raise DatabaseError(f"there is no broker {broker} in {database.name}")
        if not members.remove(connection, row):
            raise DatabaseError(f"{broker} has just changed its state")
        return session.clear(connection, broker)
