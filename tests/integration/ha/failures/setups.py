"""The groups of brokers that meet failures under load, each with the kinds of its failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.interop.ha.pairs import REPLICATION, SHARED_STORE

RETRY = "<retry-replication-wait>200</retry-replication-wait>"
GIVE_WAY = "<allow-failback>true</allow-failback>"
MANAGER = "{manager}"
"""In options: the element of the lock manager."""
FILE, ZOOKEEPER = "file", "zookeeper"
"""Lock managers."""
FILE_MANAGER = """<manager>
<class-name>org.apache.activemq.artemis.lockmanager.file.FileBasedLockManager</class-name>
<properties><property key="locks-folder" value="{}"/></properties>
</manager>"""
SESSION_MS = 3000
"""Of a broker at ZooKeeper: it has lost its lock when it stands still for longer."""
ENHANCED = "enhanced"
"""The kind of groups of which all brokers are active, on one database."""
HOMES = "homes"
"""The kind of groups of which all brokers are active, and each keeps its own messages, in files."""
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
"""Databases."""


@dataclass(frozen=True)
class Setup:
    """A pair or a cluster, and the kinds of failures that it meets in turn: methods of its :class:`Turns`."""

    name: str
    kind: str
    failures: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    voters: int = 0
    manager: str = ""
    keeps_lock: bool = False
    """Does an active broker that stands still keep others from taking over?"""
    database: str = ""
    """What the messages of all are in, if not in files; of home brokers their record, if no master keeps it."""


SETUPS = (
    Setup("shared store", SHARED_STORE, ("killed", "lock_lost", "both_killed", "held_up", "held_up_for_long"), keeps_lock=True),
    Setup(
        "pair alone",
        REPLICATION,
        ("held_up_for_long", "both_killed", "killed", "passive_held_up", "held_up"),
        {"primary": RETRY, "backup": RETRY},
    ),
    Setup(
        "pair with a voter",
        REPLICATION,
        ("cut", "killed", "both_killed", "held_up_for_long", "passive_held_up", "held_up"),
        {"primary": RETRY, "backup": RETRY + GIVE_WAY},
        voters=1,
    ),
    Setup(
        "pair with a lock manager",
        REPLICATION,
        ("killed", "held_up_for_long", "both_killed", "cut", "passive_held_up"),
        {"primary": MANAGER + RETRY, "backup": MANAGER + RETRY},
        manager=FILE,
        keeps_lock=True,
    ),
)
WITH_ZOOKEEPER = Setup(
    "pair with ZooKeeper",
    REPLICATION,
    ("killed", "session_lost", "leader_killed", "both_killed", "passive_held_up", "cut"),
    {"primary": MANAGER + RETRY, "backup": MANAGER + RETRY + GIVE_WAY},
    manager=ZOOKEEPER,
)
"""Three servers of ZooKeeper in Java take too long to start for the test suite."""
ON_DATABASES = (
    Setup("pair on SQLite", SHARED_STORE, ("killed", "both_killed"), database=SQLITE),
    Setup("enhanced cluster on SQLite", ENHANCED, ("killed", "two_killed"), database=SQLITE),
    Setup(
        "pair on PostgreSQL",
        SHARED_STORE,
        ("held_in_transaction", "server_restarted", "killed", "session_lost", "both_killed"),
        database=POSTGRESQL,
    ),
    Setup(
        "enhanced cluster on PostgreSQL",
        ENHANCED,
        ("held_in_transaction", "server_restarted", "killed", "held_up", "two_killed"),
        database=POSTGRESQL,
    ),
)

OF_HOMES = (
    Setup("home brokers with a master", HOMES, ("master_killed", "cut", "killed", "held_up", "two_killed")),
    Setup("home brokers on SQLite", HOMES, ("two_killed", "killed", "cut"), database=SQLITE),
)


def shares(rounds: int, setups: Sequence[Setup] = SETUPS) -> list[tuple[Setup, int]]:
    """The rounds of each set-up, of so many in all."""
    each, more = divmod(rounds, len(setups))
    counts = [(setup, each + (number >= len(setups) - more)) for number, setup in enumerate(setups)]
    return [(setup, count) for setup, count in counts if count]
