"""The members of a cluster that find each other through its database.  Times are those of the database; clocks of brokers do not matter."""

from __future__ import annotations

from mqbroker.storage.sql.database import Connection, Database, transaction
from mqbroker.storage.sql.schema import table

PRESENT_SECONDS = 60
"""A broker that was not there for so long is not dialled: when it starts, it dials the others."""

FORGOTTEN_SECONDS = 7 * 24 * 3600
"""A broker that was not there for so long is no member any more."""


class MemberTable:
    """The brokers of the cluster of this name; both methods block, and use the connection that they get."""

    def __init__(self, database: Database, cluster: str) -> None:
        self._cluster = cluster
        now = database.now
        self._note = table(
            f"INSERT INTO {{member}} (cluster, place, seen) VALUES (?, ?, {now}) ON CONFLICT (cluster, place) DO UPDATE SET seen = {now}"
        )
        self._forget = table(f"DELETE FROM {{member}} WHERE cluster = ? AND seen < {now} - {FORGOTTEN_SECONDS * 1000}")
        self._list = table(f"SELECT place, {now} - seen FROM {{member}} WHERE cluster = ? ORDER BY place")

    def note(self, connection: Connection, place: str) -> list[tuple[str, bool]]:
        """The broker at ``place`` is there.  Returns all members with whether they were there lately."""
        with transaction(connection):
            connection.run(self._note, (self._cluster, place))
            connection.run(self._forget, (self._cluster,))
        return [(str(found), age <= PRESENT_SECONDS * 1000) for found, age in connection.rows(self._list, (self._cluster,))]
