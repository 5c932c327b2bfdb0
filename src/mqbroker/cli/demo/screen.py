"""The screen that the demonstrations share, and that of ``mqbroker demo cluster``: its brokers, and the messages between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from mqbroker.cli.cluster.nodes import Link
from mqbroker.cli.demo.brokers import QUEUE, Node
from mqbroker.cli.demo.traffic import Consumer, Ending, Ledger, Producer, Worker
from mqbroker.cli.management import Management, json_object
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

POLL_SECONDS: Final = 0.5
_AT_ONCE: Final = 0.2
F = TypeVar("F")


@dataclass(slots=True)
class Figures:
    """The last answer of one broker; ``waiting``, ``consumers`` and ``redistributed`` are of its own queue."""

    node_id: str
    waiting: int = 0
    consumers: int = 0
    redistributed: int = 0
    links: list[Link] = field(default_factory=list)


def cluster_figures(broker: Management) -> Figures:
    queue = f"queue.{QUEUE}"
    links = json_object(broker.attribute("clusterconnection.demo", "LinksAsJSON"))
    waiting, consumers, moved = (int(broker.attribute(queue, name)) for name in ("MessageCount", "ConsumerCount", "MessagesRedistributed"))
    return Figures(str(broker.attribute("broker", "NodeID")), waiting, consumers, moved, [Link("demo", values) for values in links])


class Watcher(Ending, Generic[F]):
    """Asks one broker for its figures as long as it is there; ``figures`` is None while it is not, ``last`` what was known last."""

    def __init__(self, node: Node, ask: Callable[[Management], F]) -> None:
        super().__init__(f"watch {node.name}")
        self.node = node
        self.figures: F | None = None
        self.last: F | None = None
        self._ask = ask

    def run(self) -> None:
        from mqclient.jms import ConnectionFactory, JMSException

        while not self._ending.is_set():
            try:
                with ConnectionFactory(f"{self.node.url}&callTimeout=5000").create_connection() as connection:
                    connection.start()
                    broker = Management(connection)
                    while not self._ending.is_set() and self.node.running:
                        self.figures = self.last = self._ask(broker)
                        self._ending.wait(POLL_SECONDS)
            except (JMSException, CommandError):
                pass
            self.figures = None
            self._ending.wait(_AT_ONCE)


class Rates:
    """The growth of counters over the last seconds."""

    SPAN: Final = 2.0

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, int]]] = {}

    def of(self, name: str, count: int) -> float:
        """Per second; a counter that begins anew (its broker was restarted) begins at nothing."""
        now = time.monotonic()
        seen = self._seen.setdefault(name, [])
        if seen and count < seen[-1][1]:
            seen.clear()
        seen.append((now, count))
        while len(seen) > 2 and now - seen[1][0] > self.SPAN:
            del seen[0]
        seconds = now - seen[0][0]
        return (count - seen[0][1]) / seconds if seconds > 0.1 else 0.0


class Screen(Generic[F]):
    """Makes the live picture and the plain lines of the demonstration ``demo`` from the same figures."""

    demo: str

    def __init__(self, watchers: Sequence[Watcher[F]], workers: Sequence[Worker], ledger: Ledger) -> None:
        self._watchers = watchers
        self._workers = workers
        self._ledger = ledger
        self._rates = Rates()

    def flowing(self) -> bool:
        """Do messages go where they should?"""
        raise NotImplementedError

    def line(self, seconds: float) -> str:
        """All figures in one line."""
        sent, read = self._ledger.totals()
        return " | ".join([f"{seconds:6.1f} s: sent {sent}, read {read}, {self._flow(sent, read)}", *self._states()])

    def picture(self, seconds: float, limit: float | None, note: str) -> Group:
        """For a terminal."""
        from rich.console import Group
        from rich.text import Text

        sent, read = self._ledger.totals()
        until = "" if limit is None else f" of {limit:g}"
        counts = f"sent {sent}   read {read}   on the way {max(sent - read, 0)}"
        head = Text(f"mqbroker demo {self.demo}   {seconds:.0f}{until} s   {counts}", "bold")
        past = [Text(line, "cyan") for line in self._past()]
        return Group(
            head, *self._tables(), self._clients(), *past, Text(note, "yellow"), Text(f"{self._keys()}  q: end and compare", "dim")
        )

    def _flow(self, sent: int, read: int) -> str:
        return f"on the way {max(sent - read, 0)}"

    def _states(self) -> list[str]:
        """The parts of a plain line about brokers."""
        raise NotImplementedError

    def _tables(self) -> list[Table]:
        """The tables about brokers."""
        raise NotImplementedError

    def _past(self) -> list[str]:
        """The events so far."""
        return []

    def _keys(self) -> str:
        return "  ".join(f"{number}: kill or restart {watcher.node.name}" for number, watcher in enumerate(self._watchers))

    def _clients(self) -> Table:
        found = table("producers and consumers", ("client", "node", "does"), ("messages", "per second"))
        for worker in self._workers:
            kind = "producer" if isinstance(worker, Producer) else "consumer" if isinstance(worker, Consumer) else ""
            rate = self._rates.of(worker.name, worker.count)
            found.add_row(f"{kind} {worker.name}", worker.node.name, worker.status, str(worker.count), f"{rate:.0f}")
        return found


class ClusterScreen(Screen[Figures]):
    """The brokers of a cluster, and the links between them."""

    demo = "cluster"

    def state(self, watcher: Watcher[Figures]) -> str:
        if not watcher.node.running:
            return "killed"
        return "running" if watcher.figures is not None else "starting"

    def flowing(self) -> bool:
        """Are all links up, has one of them forwarded a message, and was one read?"""
        links = [link for watcher in self._watchers if watcher.figures is not None for link in watcher.figures.links]
        up = sum(link.state == "connected" for link in links)
        forwarded = any(link.values["messagesForwarded"] for link in links)
        count = len(self._watchers)
        return up == count * (count - 1) and forwarded and self._ledger.totals()[1] > 0

    def _names(self) -> Mapping[str, str]:
        return {watcher.last.node_id: watcher.node.name for watcher in self._watchers if watcher.last is not None}

    def _states(self) -> list[str]:
        parts = []
        names = self._names()
        for watcher in self._watchers:
            figures = watcher.figures
            if figures is None:
                parts.append(f"{watcher.node.name} {self.state(watcher)}")
                continue
            links = " ".join(
                f"→{names.get(link.node_id, link.node_id[:8])} {link.values['messagesForwarded']}"
                + ("" if link.state == "connected" else f" ({link.state}, backlog {link.backlog})")
                for link in figures.links
            )
            parts.append(f"{watcher.node.name} has {figures.waiting}, redistributed {figures.redistributed} {links}".rstrip())
        return parts

    def _tables(self) -> list[Table]:
        return [self._brokers(), self._links()]

    def _brokers(self) -> Table:
        found = table("brokers", ("broker", "state"), ("messages waiting", "consumers", "redistributed"))
        colours = {"running": "green", "starting": "yellow", "killed": "red"}
        for watcher in self._watchers:
            figures, state = watcher.figures, self.state(watcher)
            shown = ("", "", "") if figures is None else (str(figures.waiting), str(figures.consumers), str(figures.redistributed))
            found.add_row(watcher.node.name, f"[{colours[state]}]{state}[/]", *shown)
        return found

    def _links(self) -> Table:
        names = self._names()
        found = table("links", ("from", "to", "state"), ("forwarded", "per second", "backlog"))
        for watcher in self._watchers:
            for link in [] if watcher.figures is None else watcher.figures.links:
                target, count = names.get(link.node_id, link.node_id[:8]), int(link.values["messagesForwarded"])
                rate = self._rates.of(f"{watcher.node.name}>{target}", count)
                colour = "green" if link.state == "connected" else "red"
                found.add_row(watcher.node.name, target, f"[{colour}]{link.state}[/]", str(count), f"{rate:.0f}", str(link.backlog))
        return found


def table(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """An empty table with these columns."""
    from rich.table import Table

    found = Table(title=title, title_justify="left", expand=False)
    for name in (*texts, *numbers):
        found.add_column(name, justify="left" if name in texts else "right")
    return found
