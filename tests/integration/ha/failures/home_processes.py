"""Home brokers as processes that reach each other through proxies, and what each says of its links and of what it keeps."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from mqbroker.cli.management import Management
from mqclient.jms import Connection, ConnectionFactory
from tests.integration.ha.failures.home_member import LOSSES, UNDECIDED
from tests.integration.ha.failures.network import Network
from tests.integration.imq.members import Processes
from tests.integration.kill.left import message_counts
from tests.integration.kill.verdict import Event, read_logs
from tests.integration.kill.worker import PASSWORD, USER
from tests.interop.cutting_proxy import CuttingProxy

LINKS = re.compile(r"127\.0\.0\.1:(\d+) \((\S+)\) is linked|the link to (\S+) was lost|(\S+) has left the cluster")
OWN_QUEUES = ("kill.", "paged.queue", "imq.")
"""Beginnings of the names of queues that a member makes for itself: because somebody uses them, or for the answers of another member."""


def ports_linked(written: str) -> set[int]:
    """The ports of the members to which the broker that has written this has a link."""
    ports: dict[str, int] = {}
    linked = set()
    for port, node, *lost in LINKS.findall(written):
        if port:
            ports[node] = int(port)
            linked.add(node)
        else:
            linked.discard("".join(lost))
    return {ports[node] for node in linked}


@dataclass(frozen=True)
class Kept:
    """What a member has: durable queues that all have to have, messages, prepared branches, and branches that it has not decided."""

    shared: frozenset[str]
    messages: int
    prepared: int
    undecided: int


class HomeProcesses(Processes):
    """``record`` is the number of the master, or the URL of the database with the change record."""

    def __init__(self, record: str) -> None:
        self._record = record
        self.proxies: list[CuttingProxy] = []
        super().__init__()

    def begin(self) -> None:
        """Start all, and wait for nothing."""
        self.proxies += [CuttingProxy(reserved.number) for reserved in self.reserved]
        self.network = Network(self.proxies, self.processes)
        for number in range(self.count):
            self.launch(number)

    def announced(self, number: int) -> str:
        return str(self.proxies[number].port)

    def program(self, number: int, folder: str) -> list[str]:
        return ["tests.integration.ha.failures.home_member", str(number), folder, self.port(number), self._record]

    def launch(self, number: int) -> None:
        """Start a member, and wait for nothing."""
        self.start(number, line="")

    def processes(self) -> dict[int, int]:
        """The ids of those that run, by number."""
        return {number: broker.pid for number, broker in self.running.items()}

    def losses(self) -> list[Event]:
        """Marks of the moments in which members have lost links."""
        return read_logs(self.folder.glob(f"*/{LOSSES}"))

    def linked(self, number: int) -> set[int]:
        """The members to which this one has links."""
        numbers = {proxy.port: other for other, proxy in enumerate(self.proxies)}
        return {numbers[port] for port in ports_linked(self.running[number].written)}

    def kept(self, number: int) -> Kept:
        """The work that the member still has in the end; raises JMSException."""
        with self.connected(number) as connection:
            return self._asked(connection, number)

    @contextlib.contextmanager
    def connected(self, number: int) -> Iterator[Connection]:
        """To a member; raises JMSException."""
        url = self.url(number, "useTopologyForLoadBalancing=false")
        with ConnectionFactory(url) as factory, factory.create_connection(USER, PASSWORD) as connection:
            connection.start()
            yield connection

    def _asked(self, connection: Connection, number: int) -> Kept:
        counts = message_counts(connection)
        prepared = Management(connection).invoke("broker", "listPreparedTransactions")
        shared = frozenset(name for name in counts if not name.startswith(OWN_QUEUES))
        return Kept(shared, sum(counts.values()), len(prepared), self._undecided(number))

    def _undecided(self, number: int) -> int:
        broker = self.running[number]
        told = broker.written.count(UNDECIDED)
        broker.send_signal(signal.SIGUSR1)
        return int(broker.wait_for(UNDECIDED, told + 1).rpartition(UNDECIDED)[2].split()[0])

    def close(self) -> None:
        self.network.heal(lost=True)
        super().close()
        for proxy in self.proxies:
            proxy.close()
