"""Enhanced clusters of processes on one database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, TypeVar

from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.shared.brokers import BrokerRow, BrokerTable, State
from mqbroker.storage.sql.database import Connection, Database
from mqbroker.storage.sql.schema import table
from tests.integration.brokers import Broker
from tests.integration.imq.members import Members, Processes

T = TypeVar("T")


class EnhancedProcesses(Processes):
    """Members ``b0``, ``b1`` and so on.  ``url`` names their database; None = a new file of SQLite."""

    def __init__(self, count: int = 3, url: str | None = None, database: Database | None = None) -> None:
        self._url = url
        self._database = database
        super().__init__(count)

    @property
    def url_of_database(self) -> str:
        return self._url or f"jdbc:sqlite:{self.folder / 'mq.db'}"

    def program(self, number: int, folder: str) -> list[str]:
        return ["tests.integration.imq.enhanced_member", str(number), folder, self.url_of_database]

    @property
    def database(self) -> Database:
        return self._database or SqliteDatabase(str(Path(self.folder) / "mq.db"))

    def ask(self, use: Callable[[Connection], T]) -> T:
        """What ``use`` returns for a connection to the database."""
        connection = self.database.connect()
        try:
            return use(connection)
        finally:
            connection.close()

    def rows(self) -> dict[int, BrokerRow]:
        """The members by number, as the database has them."""
        found = self.ask(lambda connection: BrokerTable(self.database).rows(connection, "tests"))
        return {int(row.broker[1:]): row for row in found}

    def left(self) -> tuple[int, int]:
        """Messages, and branches of transactions, in the database."""

        def count(connection: Connection) -> tuple[int, int]:
            messages, branches = (connection.rows(table(f"SELECT COUNT(*) FROM {{{name}}}"))[0][0] for name in ("message", "branch"))
            return messages, branches

        return self.ask(count)

    def state(self, number: int) -> State:
        return self.rows()[number].state

    def taker(self, number: int) -> int:
        """Who has taken over a member."""
        return int(self.rows()[number].taker[1:])

    def freeze(self, number: int) -> Broker:
        """Let a member do nothing, outside of its transactions.

        SQLite would let one that stands still within a transaction hold up all others (docs/imq.md), its taker too.
        """
        frozen = self.running[number]

        def while_nobody_else_writes(connection: Connection) -> None:
            connection.begin()
            frozen.hold_up()
            connection.rollback()

        self.ask(while_nobody_else_writes)
        return frozen

    def following(self, number: int) -> int:
        """The member that stands in for another one: the next in the circle of the node ids."""
        rows = self.rows()
        order = sorted(rows, key=lambda each: rows[each].node_id)
        return order[(order.index(number) + 1) % len(order)]


class EnhancedMembers(Members):
    """Tests with members of one enhanced cluster.  Each test finds all of them at work; their clients go on elsewhere."""

    count = 3
    enhanced: ClassVar[EnhancedProcesses]

    @classmethod
    def make_cluster(cls) -> EnhancedProcesses:
        return EnhancedProcesses(cls.count)

    @classmethod
    def setUpClass(cls) -> None:
        cls.enhanced = cls.make_cluster()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.enhanced.close()

    def make_members(self) -> Processes:
        self.enhanced.restore()
        return self.enhanced

    def setUp(self) -> None:
        super().setUp()
        self.until(lambda: all(self.enhanced.state(number) is State.OPERATING for number in range(self.count)), "all are at work")
        self.before = {number: broker.written for number, broker in self.enhanced.running.items()}

    def url(self, number: int, options: str = "") -> str:
        follow = "ha=true&reconnectAttempts=-1&retryInterval=100&useTopologyForLoadBalancing=false&callTimeout=10000"
        return self.members.url(number, follow + options)

    def wait_for(self, number: int, line: str) -> str:
        """Wait until a member that was not started in this test has written ``line`` in it.  Returns its log of the test."""
        before = self.before[number]
        return self.enhanced.running[number].wait_for(line, before.count(line) + 1)[len(before) :]

    def taken_over(self, number: int) -> None:
        """Wait until a member is taken over, and its taker serves all clients."""
        self.until(lambda: self.enhanced.state(number) is State.FAILOVER_COMPLETE, f"b{number} is taken over")
        self.wait_for(self.enhanced.taker(number), f"has taken over b{number}")
