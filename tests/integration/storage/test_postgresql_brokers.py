"""The rows of the members of enhanced clusters on a real PostgreSQL."""

from __future__ import annotations

from typing import ClassVar

from mqbroker.storage.sql.database import Database
from tests.support.postgresql import PostgresqlServer, refuse_without
from tests.unit.storage.shared import test_brokers


class PostgresqlBrokerTests(test_brokers.BrokerTests):
    server: ClassVar[PostgresqlServer]

    @classmethod
    def setUpClass(cls) -> None:
        refuse_without()
        cls.server = PostgresqlServer()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    def database(self) -> Database:
        return self.server.database()
