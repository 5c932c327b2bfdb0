"""The kinds of clusters: what the brokers of each share, in the words of Open Message Queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.postgresql import PostgresqlServer

MASTER = 0
"""The number of the master."""
_USER = "tests"


@dataclass(frozen=True)
class Model:
    """The text of the cluster file, the server of the database that is named there, and whether brokers have an ``imq.brokerid``.

    In an enhanced cluster a failure is noticed within ``noticed_seconds``.
    """

    shared: str
    server: PostgresqlServer | None = None
    enhanced: bool = False
    noticed_seconds: float = 0.0


MakeModel = Callable[[Sequence[str]], Model]
"""Takes the places (host:port) of the brokers."""


def with_master(places: Sequence[str]) -> Model:
    """The change record is the first broker's."""
    return Model(
        f"imq.cluster.brokerlist={','.join(places)}\nimq.cluster.masterbroker={places[MASTER]}\n"
        "imq.cluster.dynamicChangeMasterBrokerEnabled=true\n"
    )


def peers(server: PostgresqlServer) -> MakeModel:
    """The change record is a table of a new database of this server."""

    def made(places: Sequence[str]) -> Model:
        lines = [f"imq.cluster.brokerlist={','.join(places)}", "imq.cluster.nomasterbroker=true", "imq.cluster.clusterid=peers"]
        prefix = "imq.cluster.sharecc.persist.jdbc."
        lines += [*_database(prefix, server), f"{prefix}connection.retry.max=5", f"{prefix}connection.retry.delay=1000"]
        return Model("\n".join(lines) + "\n", server)

    return made


def enhanced(server: PostgresqlServer, interval: int = 2, reconnects: int = 5) -> MakeModel:
    """Everything is in a new database of this server; each broker stamps its row every ``interval`` s.

    Temporary destinations of a broker that has gone wait ``reconnects`` times 10 s for their clients.
    """

    def made(places: Sequence[str]) -> Model:
        lines = ["imq.cluster.ha=true", "imq.cluster.clusterid=enhanced", "imq.persist.store=jdbc", *_database("imq.persist.jdbc.", server)]
        lines += ["imq.cluster.heartbeat.interval=1", f"imq.cluster.heartbeat.threshold={interval + 1}"]
        lines += [f"imq.cluster.monitor.interval={interval}", "imq.cluster.monitor.threshold=2", f"imq.reconnect.interval={reconnects}"]
        return Model("\n".join(lines) + "\n", server, enhanced=True, noticed_seconds=interval + 1 + 4 * interval)

    return made


def _database(prefix: str, server: PostgresqlServer) -> list[str]:
    url = f"jdbc:{server.database().name}"
    vendor = f"{prefix}postgresql."
    return [f"{prefix}dbVendor=postgresql", f"{vendor}opendburl={url}", f"{vendor}user={_USER}", f"{vendor}needpassword=false"]
