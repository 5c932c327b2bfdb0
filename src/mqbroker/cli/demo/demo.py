"""``mqbroker demo cluster``: three brokers, the messages between them, and the proof that no message is lost or doubled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from mqbroker.cli.demo.running import Run, at_work, checked, demonstrate, end, run_options, show, steps_at_thirds, toggled

if TYPE_CHECKING:
    from mqbroker.cli.demo.brokers import Nodes

NODES: Final = 3
_KILLED: Final = "; messages for it wait at the other brokers"


@click.command(epilog="Example: mqbroker demo cluster --seconds 30")
@run_options
@click.option("--kill", is_flag=True, help="Kill node2 after a third of --seconds, and start it again after two thirds.")
def cluster(seconds: float | None, plain: bool, kill: bool) -> None:
    """Show what a cluster of three brokers does.

    The demonstration starts three brokers on this machine, on free ports of 127.0.0.1 and with their data in a temporary folder, and two
    producers and two consumers. One of the consumers is slow and leaves now and then, so that messages are forwarded, wait, and are
    redistributed. The keys 0, 1 and 2 kill a broker, as a crash would, and start it again.

    At the end the sequence numbers of all messages that were sent are compared with those that were read: status 0 means that no message
    is missing and none came twice.
    """
    steps = steps_at_thirds("--kill", seconds, "2", "2") if kill else []
    from mqbroker.cli.demo.brokers import Nodes

    demonstrate("three brokers", lambda: Nodes(NODES), lambda brokers: _show(brokers, seconds, plain, steps))


def _show(brokers: Nodes, seconds: float | None, plain: bool, steps: Sequence[tuple[float, str]]) -> str:
    from mqbroker.cli.demo.screen import ClusterScreen, Watcher, cluster_figures
    from mqbroker.cli.demo.traffic import Consumer, Ledger, Producer

    nodes = brokers.nodes
    ledger = Ledger()
    producers = [Producer("quick", nodes[0], ledger, 40), Producer("steady", nodes[1], ledger, 15)]
    consumers = [Consumer("slow", nodes[1], ledger, 10, present=4, away=2), Consumer("fast", nodes[2], ledger, 80)]
    workers = [*producers, *consumers]
    watchers = [Watcher(node, cluster_figures) for node in nodes]
    screen = ClusterScreen(watchers, workers, ledger)
    with at_work(watchers, workers):
        show(lambda: Run(screen, seconds, lambda key: toggled(nodes, key, _KILLED, ""), steps), screen, plain)
        end("every broker is started", brokers.start, workers, ledger)
        return checked(ledger)
