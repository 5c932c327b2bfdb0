"""A member of a home cluster as a process of its own: ``python -m tests.integration.imq.member NUMBER FOLDER [URL] PORT…``.

With the URL of a database it is one of a cluster of peers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.logger import globalLogBeginner, textFileLogObserver

from mqbroker.app import Broker, BrokerSettings
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import HomeCluster, SharedRecord
from mqclient.urls import parse_transport_uri

reactor: Any = _reactor


def configuration_of(number: int, ports: list[int], url: str | None = None, **options: Any) -> Configuration:
    """Member ``number`` of those on these ports of the loopback address; ``url`` is that of the database of peers."""
    record = None if url is None else SharedRecord(DatabaseStoreConfiguration(url), "c")
    places = [f"127.0.0.1:{port}" for port in ports]
    others = tuple(f"member-{other}" for other in range(len(ports)) if other != number)
    connection = ClusterConnectionConfiguration(
        "imq",
        f"member-{number}",
        retry_interval=50,
        max_retry_interval=100,
        notification_interval=200,
        reconnect_attempts=-1,
        initial_connect_attempts=-1,
        static_connectors=others,
    )
    return Configuration(
        name=f"member-{number}",
        cluster_user="cluster",
        cluster_password="secret",
        security_enabled=False,
        journal_datasync=False,
        acceptors=[parse_transport_uri(f"tcp://{places[number]}", "jms")],
        connectors={f"member-{other}": parse_transport_uri(f"tcp://{place}", f"member-{other}") for other, place in enumerate(places)},
        cluster_connections=[connection],
        home_cluster=HomeCluster(tuple(places), None, places[number], record=record),
        **options,
    )


def main(number: str, folder: str, *ports: str) -> None:
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout)], redirectStandardIO=False)
    url = ports[0] if ports[0].startswith("jdbc:") else None
    numbers = [int(port) for port in (ports if url is None else ports[1:])]
    broker = Broker(BrokerSettings(configuration_of(int(number), numbers, url), Path(folder)), reactor)
    broker.start()
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
