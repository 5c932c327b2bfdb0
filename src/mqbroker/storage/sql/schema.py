"""The tables, and their version.

=====================  ================================================================================================================
version                the version of the tables
ids                    the next number that nobody has drawn
session                a broker's data: the broker ('' = it has no id) and the process that own them now, the epoch of that ownership,
                       and the number of its last transaction; of several sessions of a broker one is current (1), the others
                       were taken from other brokers, in this order
address, queue         definitions, as the records of the bindings have them (JSON)
setting                what management has set
message                a message: its bytes, its place in the order, its id (NULL = the place), the folder of pages it belongs to, its
                       branch (0 = it counts)
reference              a message on a queue: deliveries, the time of delivery (-1 = the message's own), whether it survives a restart
body                   the bodies of large messages, in pieces
duplicate, branch      duplicate ids and prepared branches
removal                references that go: nobody counts or reads them any more, and they are removed a piece at a time
broker                 the members of enhanced clusters (:mod:`mqbroker.storage.shared.brokers`)
former                 node ids of sessions that were taken over, which go when they are empty, and the broker that their clients find
record                 the change record of a cluster: its changes by position, as the backup file has them
cluster                the record as a whole: generation ('' = it is empty), last position, floor, and who has locked it ('' = nobody)
member                 the brokers of a cluster that find each other here: place, and when they were last there (ms since 1970)
pair                   of brokers of which one is active: its state, a letter as in ``server.lock``, by the broker of their session
lease                  the locks of such brokers: who has each ('' = nobody), and until when (ms since 1970, in the time of the database)
=====================  ================================================================================================================

``place`` orders the messages of a session, and names a message in other tables.  Rows with a negative session are damaged, and set aside
(:mod:`mqbroker.storage.sql.damage`).
"""

from __future__ import annotations

from mqbroker.storage.sql.database import Connection, Database, DatabaseError, transaction

VERSION = 1

PRIMARY_LEASE = "primary"
"""The name of the lease whose holder may be active."""
BACKUP_LEASE = "backup"
"""The name of the lease whose holder is the next backup."""
NEVER_ACTIVE = "0"
"""The state of brokers of which none has been active yet."""

PREFIX = "mqbroker_"
SESSIONS = f"{PREFIX}session"
"""The table that each transaction of a store begins with."""

_TABLES = (
    "version (version {number} NOT NULL)",
    "ids (next_id {number} NOT NULL)",
    "session (session {number} NOT NULL PRIMARY KEY, node_id TEXT NOT NULL, broker TEXT NOT NULL, current {number} NOT NULL, "
    "taken {number} NOT NULL, owner TEXT NOT NULL, epoch {number} NOT NULL, batch {number} NOT NULL)",
    "address (session {number} NOT NULL, id {number} NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session, id))",
    "queue (session {number} NOT NULL, id {number} NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session, id))",
    "setting (session {number} NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session, kind, name))",
    "message (session {number} NOT NULL, place {number} NOT NULL, id {number}, folder TEXT NOT NULL, address TEXT, "
    "headers {number} NOT NULL, buffer {binary} NOT NULL, durable {number} NOT NULL, "
    "branch {number} NOT NULL, body {number}, body_size {number}, "
    "PRIMARY KEY (session, place))",
    "reference (session {number} NOT NULL, queue {number} NOT NULL, place {number} NOT NULL, folder TEXT NOT NULL, "
    "paged {number} NOT NULL, durable {number} NOT NULL, deliveries {number} NOT NULL, due {number} NOT NULL, "
    "PRIMARY KEY (session, queue, place))",
    "body (session {number} NOT NULL, body {number} NOT NULL, piece {number} NOT NULL, data {binary} NOT NULL, "
    "PRIMARY KEY (session, body, piece))",
    "duplicate (session {number} NOT NULL, record {number} NOT NULL, cache TEXT NOT NULL, size {number} NOT NULL, ids {binary} NOT NULL, "
    "PRIMARY KEY (session, record))",
    "branch (session {number} NOT NULL, branch {number} NOT NULL, record {binary} NOT NULL, PRIMARY KEY (session, branch))",
    "removal (session {number} NOT NULL, queue {number} NOT NULL, number {number} NOT NULL, folder TEXT, behind {number} NOT NULL, "
    "until {number} NOT NULL, adopted {number} NOT NULL, PRIMARY KEY (session, queue, number))",
    "broker (broker TEXT NOT NULL PRIMARY KEY, cluster TEXT NOT NULL, url TEXT NOT NULL, node_id TEXT NOT NULL, version TEXT NOT NULL, "
    "state {number} NOT NULL, taker TEXT NOT NULL, stamp {number} NOT NULL, owner TEXT NOT NULL, folder TEXT NOT NULL)",
    "former (node_id TEXT NOT NULL PRIMARY KEY, broker TEXT NOT NULL, since {number} NOT NULL)",
    "record (cluster TEXT NOT NULL, position {number} NOT NULL, value TEXT NOT NULL, token TEXT NOT NULL, PRIMARY KEY (cluster, position))",
    "cluster (cluster TEXT NOT NULL PRIMARY KEY, generation TEXT NOT NULL, last {number} NOT NULL, floor {number} NOT NULL, "
    "holder TEXT NOT NULL)",
    "member (cluster TEXT NOT NULL, place TEXT NOT NULL, seen {number} NOT NULL, PRIMARY KEY (cluster, place))",
    "pair (broker TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL)",
    "lease (name TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, expires {number} NOT NULL)",
)
_INDEXES = (
    "reference_place ON {prefix}reference (session, place)",
    "reference_due ON {prefix}reference (session, place) WHERE due > 0",
    "reference_transient ON {prefix}reference (session, place) WHERE durable = 0",
    "message_body ON {prefix}message (session, body) WHERE body IS NOT NULL",
    "message_branch ON {prefix}message (session, branch) WHERE branch <> 0",
)


OF_SESSIONS = tuple(each.split(" ", 1)[0] for each in _TABLES if " (session " in each and not each.startswith("session "))
"""The tables whose rows belong to a session."""

NAMES = tuple(each.split(" ", 1)[0] for each in _TABLES)
"""The tables, without their prefix."""


def columns(name: str) -> list[str]:
    """The columns of a table."""
    definition = next(each for each in _TABLES if each.startswith(f"{name} ("))
    listed = definition.partition(" (")[2].partition(", PRIMARY KEY")[0]
    return [each.split(" ", 1)[0] for each in listed.split(", ")]


def key(name: str) -> list[str]:
    """The columns of the primary key of a table; none of a table that has one row."""
    definition = next(each for each in _TABLES if each.startswith(f"{name} ("))
    named = definition.partition(", PRIMARY KEY (")[2].rstrip(")")
    if named:
        return named.split(", ")
    return [each.split(" ", 1)[0] for each in definition.partition(" (")[2].split(", ") if each.endswith(" PRIMARY KEY")]


def table(statement: str) -> str:
    """A statement with the names of the tables in the place of ``{message}`` and so on."""
    names = {each.split(" ", 1)[0]: PREFIX + each.split(" ", 1)[0] for each in _TABLES}
    return statement.format_map(names)


def prepare(database: Database, connection: Connection) -> None:
    """Make the tables of a database that has none.  Raises DatabaseError for those of another version.

    Tables that are there are not touched: even a look by ``IF NOT EXISTS`` waits for the transactions of other brokers.
    """
    version = version_of(connection)
    if version is None:
        try:
            _make(database, connection)
        except DatabaseError:
            # Another broker may have been making them at the same time: this one has waited for its end then.
            if version_of(connection) is None:
                raise
    check(database, connection)


def prepare_pair(connection: Connection, broker: str) -> None:
    """Make the state and the leases of the brokers that have the data of ``broker`` in common, where there are none."""
    if not connection.rows(table("SELECT 1 FROM {pair} WHERE broker = ?"), (broker,)):
        with transaction(connection):
            _add_pair(connection, broker)


def lease_of(name: str, broker: str) -> str:
    """The name of a lease of the brokers that have the data of ``broker`` in common."""
    return f"{name} {broker}".strip()


def _add_pair(connection: Connection, broker: str) -> None:
    connection.run(table("INSERT INTO {pair} (broker, state) VALUES (?, ?) ON CONFLICT (broker) DO NOTHING"), (broker, NEVER_ACTIVE))
    for name in (PRIMARY_LEASE, BACKUP_LEASE):
        insert = table("INSERT INTO {lease} (name, holder, expires) VALUES (?, '', 0) ON CONFLICT (name) DO NOTHING")
        connection.run(insert, (lease_of(name, broker),))


def check(database: Database, connection: Connection) -> None:
    """Raises DatabaseError for tables of another version."""
    version = version_of(connection)
    if version != VERSION:
        raise DatabaseError(f"{database.name}: its tables have version {version}; this broker reads and writes version {VERSION}")


def version_of(connection: Connection) -> int | None:
    """The version of the tables; None where there are none.  Not within a transaction, unless they are there."""
    try:
        found = connection.rows(table("SELECT version FROM {version}"))
    except DatabaseError:
        return None
    return found[0][0] if found else None


def _make(database: Database, connection: Connection) -> None:
    with transaction(connection):
        for each in _TABLES:
            connection.run(f"CREATE TABLE IF NOT EXISTS {PREFIX}{each.format(number=database.number, binary=database.binary)}")
        for each in _INDEXES:
            connection.run(f"CREATE INDEX IF NOT EXISTS {PREFIX}{each.format(prefix=PREFIX)}")
        if not connection.rows(table("SELECT version FROM {version}")):
            connection.run(table("INSERT INTO {version} (version) VALUES (?)"), (VERSION,))
            connection.run(table("INSERT INTO {ids} (next_id) VALUES (1)"))
            _add_pair(connection, "")
