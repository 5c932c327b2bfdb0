"""A pair of broker processes with one database, which tests may kill or hold up."""

from __future__ import annotations

from tests.integration.ha.pair import FOLDERS, SharedPairCase
from tests.support.postgresql import PostgresqlServer, refuse_without

STORE = """<store><database-store>
<jdbc-connection-url>{url}</jdbc-connection-url>
<jdbc-network-timeout>3000</jdbc-network-timeout>
<jdbc-lock-expiration>{expiration}</jdbc-lock-expiration>
<jdbc-lock-renew-period>500</jdbc-lock-renew-period>
</database-store></store>
"""
SOON_MS, NEVER_MS = 6_000, 600_000


class DatabasePairCase(SharedPairCase):
    """In a file of SQLite.  Each broker has local folders of its own."""

    expiration_ms = SOON_MS
    """How long a backup waits for the lease of a dead broker; the holder may renew it some seconds late on a busy machine."""

    def url(self) -> str:
        return f"jdbc:sqlite:{self.folder / 'pair.db'}"

    def store(self, name: str) -> str:
        return STORE.format(url=self.url(), expiration=self.expiration_ms) + FOLDERS.format(folder=self.folder / f"data-{name}")


class PostgresqlPairCase(DatabasePairCase):
    """In a new database of a server of PostgreSQL."""

    server: PostgresqlServer

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        refuse_without()
        cls.server = PostgresqlServer()
        cls.addClassCleanup(cls.server.close)

    def setUp(self) -> None:
        self._name = self.server.database().name
        super().setUp()

    def url(self) -> str:
        return f"jdbc:{self._name}?user=tests"
