"""The rows of the members of enhanced clusters, and all tables as a whole, on a real PostgreSQL."""

from __future__ import annotations

from typing import ClassVar

from mqbroker.storage.sql.database import Database
from tests.support.postgresql import PostgresqlServer, common_server
from tests.unit.storage.shared import test_brokers, test_tables


class _OnPostgresql:
    server: ClassVar[PostgresqlServer]

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = common_server()


class PostgresqlBrokerTests(_OnPostgresql, test_brokers.BrokerTests):
    def database(self) -> Database:
        return self.server.database_with_tables()


class PostgresqlTableTests(_OnPostgresql, test_tables.TableTests):
    def new_database(self) -> Database:
        return self.server.database()
