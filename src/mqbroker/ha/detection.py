"""How long the silent death of an active broker goes unnoticed, and how long it takes until others go on, added up by setting.

A broker dies silently when its machine or the network does: no connection is closed, and nobody is told.  All times are upper bounds.
Source: the Artemis manual, chapters "High Availability and Failover" and "Detecting Dead Connections".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mqbroker.ha.shared_store.activation import LOOK_SECONDS

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import ClusterConnectionConfiguration, ReplicationConfiguration, SharedStoreConfiguration
    from mqbroker.config.model.configuration import Configuration
    from mqbroker.config.model.database import DatabaseStoreConfiguration
    from mqbroker.config.model.home_cluster import EnhancedCluster

LIMIT_SECONDS = 10.0
"""A warning tells of what takes longer."""

BUILT_IN = "built in"


class Share(NamedTuple):
    """The part of one setting in a delay."""

    setting: str
    seconds: float


VOTES = Share(f"{BUILT_IN}: the voters are asked twice, and those that live answer at once", 0.0)
"""A majority of the voters lives: otherwise nobody goes on before it does."""


@dataclass(frozen=True, slots=True)
class Delay:
    """``what`` is a sentence without its end, such as "A backup takes the folder of a dead broker"."""

    what: str
    shares: tuple[Share, ...]

    @property
    def seconds(self) -> float:
        return sum(share.seconds for share in self.shares)

    def warning(self) -> str | None:
        """A sentence with the settings to change, the largest share first; None for a delay within the limit."""
        if self.seconds <= LIMIT_SECONDS:
            return None
        told = [share for share in sorted(self.shares, key=lambda share: -share.seconds) if share.seconds]
        listed = ", ".join(f"{share.setting}: {share.seconds:g} s" for share in told)
        return f"{self.what} after up to {self.seconds:g} s, more than {LIMIT_SECONDS:g} s ({listed})"


@dataclass(frozen=True, slots=True)
class Detection:
    """``traps`` are sentences about settings with which nobody goes on, or nobody learns of it."""

    delays: tuple[Delay, ...]
    traps: tuple[str, ...]

    @property
    def warnings(self) -> list[str]:
        return [*self.traps, *filter(None, (delay.warning() for delay in self.delays))]


def detection(configuration: Configuration, nfs: Share | None, session: Share | None = None) -> Detection | None:
    """None for a broker without anybody that could go on.

    ``nfs`` is how long a dead file server of the shared folder goes unnoticed, ``session`` how long the lock manager keeps the lock of a
    broker that it does not hear of; None: it is free at once.
    """
    home = configuration.home_cluster
    if home is not None and home.enhanced is not None:
        return Detection((_member(home.enhanced),), ())
    shared, copied = configuration.shared_store, configuration.replication
    links = tuple(_link(configuration, connection) for connection in configuration.cluster_connections)
    if shared is not None:
        store = configuration.database_store
        takes = _folder(nfs) if store is None else _lease(store)
        return Detection((takes, *links), tuple(_traps(configuration, shared)))
    if copied is not None:
        return Detection((*_copies(configuration, copied, session), *links), ())
    return None


def _member(cluster: EnhancedCluster) -> Delay:
    """A broker that has died makes no suspect before its links are silent, and is not taken over before its stamp has stood still."""
    silent = cluster.heartbeat_interval * cluster.heartbeat_threshold
    shares = (
        Share("imq.cluster.heartbeat.interval × imq.cluster.heartbeat.threshold", silent),
        Share("imq.cluster.monitor.interval × (imq.cluster.monitor.threshold + 1)", cluster.detection_s - silent),
    )
    return Delay("Another member of the enhanced cluster begins to take over a dead broker", shares)


def _folder(nfs: Share | None) -> Delay:
    look = Share(f"{BUILT_IN}: a backup looks for the lock", LOOK_SECONDS)
    return Delay("A backup takes the folder of a dead broker", (look,) if nfs is None else (nfs, look))


def _lease(store: DatabaseStoreConfiguration) -> Delay:
    """The lease of a dead broker ends by itself.  One that is frozen may be in a transaction, which PostgreSQL ends."""
    shares = [Share("jdbc-lock-expiration", store.lock_expiration / 1000)]
    if store.vendor == "postgresql":
        more = max(store.network_timeout - store.lock_expiration, 0)
        shares.append(Share("jdbc-network-timeout of a transaction under way, beyond jdbc-lock-expiration", more / 1000))
    return Delay("A backup takes the data of a dead broker", (*shares, Share(f"{BUILT_IN}: a backup looks for the lock", LOOK_SECONDS)))


def _copies(configuration: Configuration, policy: ReplicationConfiguration, session: Share | None) -> Iterator[Delay]:
    """The time until a replica has the proof that it may go on, and until a primary without a replica has it, whose answers wait meanwhile.

    Nobody knows from the settings whether there are voters, so both cases are added up.
    """
    from mqbroker.ha.proof.noted_copy import AGAIN_SECONDS, ANSWER_SECONDS, DIAL_SECONDS
    from mqbroker.ha.proof.rules import LOCK_RETRY_SECONDS

    connections = {connection.name: connection for connection in configuration.cluster_connections}
    connection = connections[policy.cluster_name] if policy.cluster_name is not None else next(iter(connections.values()))
    asked = Share(f"{BUILT_IN}: the dead copy is asked for its word", ANSWER_SECONDS)
    twice = Share(f"{BUILT_IN}: the dead copy is looked for twice", 2 * DIAL_SECONDS + AGAIN_SECONDS)
    cases = (
        ("A replica takes over from a dead primary", silence(connection), asked),
        ("A primary goes on without a dead replica", _replica_silence(configuration, connection), twice),
    )
    if policy.manager is not None:
        again = Share(f"{BUILT_IN}: the lock manager is asked again", 1.5 * LOCK_RETRY_SECONDS)
        (takes, dead, _), (goes_on, noticed, _) = cases
        yield Delay(f"{takes}, with the lock manager", (*dead, *_rest_of_session(session, dead), again))
        yield Delay(f"{goes_on}, with the lock manager", (*noticed, again))
        return
    for what, noticed, alone in cases:
        yield Delay(f"{what}, in a pair alone", (*noticed, alone))
        yield Delay(f"{what}, with voters", (*noticed, asked, VOTES))


def _rest_of_session(session: Share | None, noticed: tuple[Share, ...]) -> Iterator[Share]:
    """The lock manager waits for the dead broker at the same time as others do."""
    if session is not None:
        rest = session.seconds - sum(share.seconds for share in noticed)
        yield Share(f"{session.setting}, beyond the time until it is noticed", max(rest, 0.0))


def _replica_silence(configuration: Configuration, connection: ClusterConnectionConfiguration) -> tuple[Share, ...]:
    """How long a replica is kept that has fallen silent while a durable write waits for it: as a connection, or for an answer, whichever
    ends first."""
    from mqbroker.ha.replication.replica import look_seconds

    ttl = Share("connection-ttl", connection.connection_ttl / 1000)
    if configuration.connection_ttl_override >= 0:
        ttl = Share("connection-ttl-override", configuration.connection_ttl_override / 1000)
    # A sign of life counts from the check that finds it.
    checks = Share("connection-ttl-check-interval, twice", 2 * configuration.connection_ttl_check_interval / 1000)
    call = connection.call_timeout / 1000
    unanswered = Share("call-timeout", call), Share(f"{BUILT_IN}: the primary looks at its replica", look_seconds(call))
    checked = (ttl, checks)
    if not checks.seconds:
        return unanswered
    return min(checked, unanswered, key=lambda shares: sum(each.seconds for each in shares))


def _link(configuration: Configuration, connection: ClusterConnectionConfiguration) -> Delay:
    """The time until another broker asks the backup."""
    pauses = connection.retry_interval, connection.max_retry_interval
    grows = connection.retry_interval_multiplier > 1 and pauses[0] < pauses[1]
    shares = (
        *silence(connection),
        _connecting(configuration, connection),
        Share("max-retry-interval" if grows else "retry-interval", pauses[1] / 1000 if grows else min(pauses) / 1000),
    )
    return Delay(f"Another broker of the cluster-connection {connection.name} follows to the backup of a dead one", shares)


def silence(connection: ClusterConnectionConfiguration) -> tuple[Share, ...]:
    """How long a link of the cluster connection lasts after its peer has fallen silent.

    The next ping comes within a check period, and stays without an answer for as long, or for the TTL if that is less.
    """
    ttl, period = connection.connection_ttl / 1000, connection.check_period / 1000
    more = period + min(ttl, period) - ttl
    return Share("connection-ttl", ttl), Share("check-period, beyond connection-ttl", max(more, 0.0))


def _connecting(configuration: Configuration, connection: ClusterConnectionConfiguration) -> Share:
    """The first attempt goes to the dead broker again, and nothing answers it."""
    connector = configuration.connectors[connection.connector_ref]
    limit = connector.parameters.get("connect-timeout-millis", "")
    if limit.isdecimal():
        return Share(f"connect-timeout-millis of the connector {connector.name}", int(limit) / 1000)
    return Share("connection-ttl, of an attempt to connect to the dead broker", connection.connection_ttl / 1000)


def _traps(configuration: Configuration, shared: SharedStoreConfiguration) -> Iterator[str]:
    timeout = configuration.journal_lock_acquisition_timeout
    if shared.backup and timeout >= 0:
        yield (
            f"journal-lock-acquisition-timeout: this backup ends after it has waited for {timeout / 1000:g} s, and nobody goes on then "
            "(-1 waits without a limit)"
        )
    if not configuration.cluster_connections:
        yield "without a cluster-connection clients do not learn of the backup, and a primary that is back does not get its store back"
