"""A member of an enhanced cluster as a process of its own: ``python -m tests.integration.imq.enhanced_member NUMBER FOLDER URL PORT…``.

URL names the database of all members in the spelling of Java.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.logger import globalLogBeginner, textFileLogObserver

from mqbroker.app import Broker, BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import EnhancedCluster, HomeCluster, SharedRecord
from tests.integration.imq.member import configuration_of

reactor: Any = _reactor

INTERVAL = 0.4
"""Between two stamps, and between two pings."""
HELD_UP_SECONDS = 5.0
"""How long SIGUSR1 holds up the loop."""

FOR_ROUNDS = {"kill.#": {"max_delivery_attempts": -1, "max_size_messages": 100, "address_full_policy": "BLOCK"}}
"""Failures count as attempts, and queues stay short."""

ENHANCED = EnhancedCluster(heartbeat_interval=INTERVAL, heartbeat_threshold=2, monitor_interval=INTERVAL, monitor_threshold=2, failures=5)


def configuration(number: int, url: str, ports: list[int]) -> Configuration:
    """Member ``number``, which finds the others in the database."""
    store = DatabaseStoreConfiguration(url, "tests", idle_timeout=1000)
    made = configuration_of(number, ports, database_store=store, address_settings=FOR_ROUNDS)
    [connection] = made.cluster_connections
    ping, name = round(INTERVAL * 1000), f"member-{number}"
    made.cluster_connections = [replace(connection, static_connectors=None, check_period=ping, connection_ttl=2 * ping)]
    made.connectors["imq"] = made.connectors[name]
    made.large_messages_directory = f"large-{number}"
    assert made.database_store is not None
    record = SharedRecord(made.database_store, "tests")
    own = f"127.0.0.1:{ports[number]}"
    made.home_cluster = HomeCluster(
        (own,), None, own, cluster_id="tests", broker_id=f"b{number}", record=record, finds_members=True, enhanced=ENHANCED
    )
    return made


def main(number: str, folder: str, url: str, *ports: str) -> None:
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout)], redirectStandardIO=False)

    def failed(reason: str) -> None:
        print(f"FAILED: {reason}", flush=True)
        reactor.callFromThread(reactor.stop)

    settings = BrokerSettings(configuration(int(number), url, [int(port) for port in ports]), Path(folder))
    broker = Broker(settings, reactor, failed)
    broker.start()
    # In the loop's thread, as anything that keeps a machine busy; other threads go on.
    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(HELD_UP_SECONDS))
    reactor.run(installSignalHandlers=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
