"""The settings of a broker whose cluster keeps messages at their homes: Open Message Queue's conventional clusters.

Names and defaults are those of OpenMQ's code, which differ in places from its guide.  Durations are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqbroker.config.model.database import DatabaseStoreConfiguration


@dataclass(frozen=True, slots=True)
class SharedRecord:
    """The change record of a cluster of peers, a table of ``database``; ``cluster`` is its name there.

    ``create``: the table is made where there is none.  A start looks ``retries`` times (-1 = for ever) for a database that is away, every
    ``retry_s``.
    """

    database: DatabaseStoreConfiguration
    cluster: str
    create: bool = True
    retries: int = 60
    retry_s: float = 5


FAILURES = 30
"""Attempts without an answer after which a broker alone gives its database up, where nothing is set."""


@dataclass(frozen=True, slots=True)
class EnhancedCluster:
    """The brokers of a cluster on one database, of which one takes over the messages and clients of another one that has failed.

    A link without a sign of life for ``heartbeat_interval`` × ``heartbeat_threshold`` makes a suspect.  Each member stamps its row in the
    database every ``monitor_interval``; a suspect whose stamp has not changed for ``monitor_threshold`` of them is taken over.  A broker
    that alone has no database for ``failures`` of them gives up.  A start waits ``takeover_wait`` for a takeover of it (below 0: for ever),
    and a takeover ``takeover_delay`` before it begins.
    """

    heartbeat_interval: float = 5
    heartbeat_threshold: int = 3
    monitor_interval: float = 30
    monitor_threshold: int = 3
    failures: int = FAILURES
    takeover_wait: float = 300
    takeover_delay: float = 0

    @property
    def patience_s(self) -> float:
        """For how long a suspect may leave its stamp as it is."""
        return self.monitor_interval * self.monitor_threshold

    @property
    def detection_s(self) -> float:
        """How long it takes at most until a broker that has died, and whose links are silent, is taken over."""
        return self.heartbeat_interval * self.heartbeat_threshold + self.monitor_interval * (self.monitor_threshold + 1)


@dataclass(frozen=True, slots=True)
class HomeCluster:
    """The part of this broker in a cluster of home brokers; the links are the cluster connection of the same configuration named ``imq``.

    ``brokers`` are the members as host:port, this broker among them or not; ``master`` is the member that keeps the change record, None
    without a record; ``address`` is this broker as the others name it.
    """

    brokers: tuple[str, ...]
    master: str | None
    address: str

    dynamic_change_master: bool = False
    """May the master be changed while the cluster runs?"""
    master_from_command_line: bool = False
    """Does the command line name the master?  Then it is not changed while the cluster runs, as in OpenMQ."""
    nowait_for_master: bool = False
    """Does this broker serve clients before it has the record?  What needs the record waits up to ``nowait_for_master_s`` for it."""
    nowait_for_master_s: float = 90
    change_master_wait_s: float = 180
    """How long a change of the master waits for changes that are under way."""
    consumer_flow_limit: int = 1000
    """Messages at most that are under way to one remote consumer."""
    autocreate_queue: bool = True
    """May queues be created because somebody uses them?"""
    autocreate_topic: bool = True
    reconnect_interval_multiplier: int = 5
    """Temporary destinations of a connection outlive a restart of its broker for this many of its reconnect intervals."""
    wait_reply_s: float = 180
    """How long a request to another member waits for its answer."""
    lock_timeout_s: float = 60
    """How long the reservation of a name waits for the other members."""
    pending_transaction_check_s: float = 180
    """Between two questions about a transaction of several homes whose outcome is not known."""
    cluster_id: str | None = None
    broker_id: str | None = None
    """The name of this broker in a database."""
    record: SharedRecord | None = None
    """The place of the change record of a cluster of peers; None in every other cluster."""
    finds_members: bool = False
    """Do the members find each other through the database of the record?"""
    enhanced: EnhancedCluster | None = None
    """None in a conventional cluster."""
    services: frozenset[str] = frozenset(("jms", "admin"))
    """The services that are active, by the names of ``imq.service.activelist``."""

    @property
    def is_master(self) -> bool:
        """Does this broker keep the change record, as configured?"""
        return self.master == self.address
