"""A home broker whose links can be cut: ``python -m tests.integration.ha.failures.home_member NUMBER FOLDER PORT RECORD ANNOUNCED…``.

PORT is its own one, ANNOUNCED those at which all members look for each other.  RECORD is what keeps the change record: the number of the
master, or the URL of a database.  SIGUSR1 makes it write how many branches of transactions it has not decided.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.logger import globalLogBeginner, textFileLogObserver

from mqbroker.app import Broker, BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqclient.urls import parse_transport_uri
from tests.integration.ha.failures.verdict import SUSPECTED
from tests.integration.imq.enhanced_member import FOR_ROUNDS
from tests.integration.imq.member import configuration_of

reactor: Any = _reactor

ADDRESSES: dict[str, dict[str, Any]] = {
    # The duplicate ids of an address go with its last queue.
    "#": {"auto_delete_queues": False, "auto_delete_addresses": False},
    **FOR_ROUNDS,
    "paged.#": {"max_delivery_attempts": -1, "max_size_bytes": 5000, "page_size_bytes": 10_000, "address_full_policy": "PAGE"},
}
NOTICED_MS = 2000
"""How long a link may be silent."""
UNDECIDED = "undecided branches:"
LOSSES = "losses.log"
"""In the folder of a member: marks of the moments in which it has lost a link, as in the logs of clients."""
UNNOTICED_NS = 30_000_000_000
"""How long a link may have been lost at its other end before, on a busy machine."""
LOST = "the link to {node} was lost"


def configuration(number: int, port: int, record: str, announced: list[int]) -> Configuration:
    url = record if record.startswith("jdbc:") else None
    made = configuration_of(number, announced, url, address_settings=ADDRESSES)
    [connection] = made.cluster_connections
    made.cluster_connections = [replace(connection, check_period=NOTICED_MS // 2, connection_ttl=NOTICED_MS)]
    made.acceptors = [parse_transport_uri(f"tcp://127.0.0.1:{port}", "jms")]
    assert made.home_cluster is not None
    if url is None:
        made.home_cluster = replace(made.home_cluster, master=made.home_cluster.brokers[int(record)])
    return made


def note_losses(folder: Path, event: Mapping[str, Any]) -> None:
    """Hear of what is logged."""
    if (event.get("log_format") or "").startswith(LOST):
        now = time.monotonic_ns()
        with (folder / LOSSES).open("a") as log:
            log.write("".join(f"{moment} {SUSPECTED} link\n" for moment in (now - UNNOTICED_NS, now)))


def main(number: str, folder: str, port: str, record: str, *announced: str) -> None:
    losses: Any = partial(note_losses, Path(folder))
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout), losses], redirectStandardIO=False)

    def failed(reason: str) -> None:
        print(f"FAILED: {reason}", flush=True)
        reactor.callFromThread(reactor.stop)

    places = [int(each) for each in announced]
    broker = Broker(BrokerSettings(configuration(int(number), int(port), record, places), Path(folder)), reactor, failed)

    def tell(*_: object) -> None:
        assert broker.clustering is not None and broker.clustering.homes is not None
        # In one write: a reader may come between two.
        os.write(sys.stdout.fileno(), f"{UNDECIDED} {broker.clustering.homes.delivery.coordination.undecided}\n".encode())

    broker.start()
    signal.signal(signal.SIGUSR1, tell)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
