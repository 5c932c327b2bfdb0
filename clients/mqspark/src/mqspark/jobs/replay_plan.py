"""The plan of a replay: the target of each address, and the rounds in which messages are sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from mqspark.errors import BadOptionError
from mqspark.jobs.archives import ADDRESS, SIZE, millis
from mqspark.jobs.brokers import Brokers
from mqspark.jobs.status import JobError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ONE_TASK_RATE: Final = 10_000
"""Messages a second up to which one task sends alone, which makes the rate exact."""
QUEUES_MAX: Final = 1_000
"""Queues on nodes in one replay: more would make conditions that Spark takes long to plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The messages that are to be sent again, and how."""

    archive: str
    where: str | None = None
    """An expression of SQL over the archive's columns."""
    since: datetime | None = None
    until: datetime | None = None
    new_timestamps: bool = False
    """Messages get the time of sending, and the rest of their time to live begins again.  If false, both stay as they were."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """Addresses and where their messages go instead; ``*`` in a key matches any text, and stands for it in the value."""
    rate: float | None = None
    """Messages a second at most; no part of the id."""
    id: str = ""
    """The name of the replay; empty: made from all the rest, so that the same replay has the same."""

    def arguments(self) -> dict[str, object]:
        """The arguments that tell this replay from another one."""
        return {
            "where": self.where,
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
            "newTimestamps": self.new_timestamps,
            "mapping": dict(self.mapping),
        }

    def name(self) -> str:
        """The id, given or made: with the same one a replay goes on, with another one it begins again."""
        return self.id or hashlib.sha256(json.dumps([self.archive.rstrip("/"), self.arguments()], sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Lane:
    """The messages of one round that come from one queue of one node: ids from ``first`` to ``last``."""

    node_id: str
    queue: str
    first: int
    last: int
    messages: int


@dataclass(frozen=True, slots=True)
class Part:
    """The messages of one address: how many there are, and their target."""

    address: str
    target: str
    messages: int
    size: int
    expired: int
    """Messages whose expiration has passed; with their original timestamps the broker expires them at once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The rounds of a replay, and their sums."""

    parts: tuple[Part, ...]
    rounds: tuple[tuple[Lane, ...], ...]
    nodes: tuple[str, ...] = ()
    tasks: int = 1
    """Members of the cluster and tasks that send.  A broker knows the duplicate ids of the messages that it was sent itself: a run that
    continues the replay has to send each message to the same node again, which is the node of its task."""

    @property
    def messages(self) -> int:
        return sum(part.messages for part in self.parts)


def make_plan(frame: DataFrame, request: Replay, targets: Brokers) -> Plan:
    """Count the messages and cut them into rounds: two passes over the columns that this needs.

    Raises :class:`mqspark.jobs.JobError` when there are messages of more than :data:`QUEUES_MAX` queues.
    """
    parts = count_parts(frame, request)
    if not parts:
        return Plan((), ())
    limit = max(1, targets.smallest_id_cache(sorted({part.target for part in parts})) // 2)
    rounds = -(-sum(part.messages for part in parts) // limit)
    small = tuple(small for lanes in cut(frame, rounds) for small in within(lanes, limit))
    alone = request.rate is not None and request.rate <= ONE_TASK_RATE
    queues = len({(lane.node_id, lane.queue) for lanes in small for lane in lanes})
    tasks = 1 if alone else max(1, min(queues, frame.sparkSession.sparkContext.defaultParallelism))
    return Plan(parts, small, targets.node_ids(), tasks)


def count_parts(frame: DataFrame, request: Replay) -> tuple[Part, ...]:
    """The messages of each address and their target, the address with most messages first."""
    from pyspark.sql import functions as f

    expired = f.coalesce(millis(frame, "expiration") < f.unix_millis(f.current_timestamp()), f.lit(False)) & (
        millis(frame, "expiration") > 0
    )
    rows = (
        frame.groupBy(ADDRESS)
        .agg(f.count(f.lit(1)).alias("messages"), f.sum(SIZE).alias("bytes"), f.count(f.when(expired, 1)).alias("expired"))
        .collect()
    )
    parts = [Part(row[ADDRESS], target_of(row[ADDRESS], request.mapping), row["messages"], row["bytes"], row["expired"]) for row in rows]
    return tuple(sorted(parts, key=lambda part: (-part.messages, part.address)))


def cut(frame: DataFrame, rounds: int) -> Iterator[tuple[Lane, ...]]:
    """Cut the rows into ``rounds`` rounds of about the same size, each with its share of every queue."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    queue = Window.partitionBy("node_id", "queue")
    place = f.row_number().over(queue.orderBy("message_id")) - 1
    count = f.count(f.lit(1)).over(queue)
    rows = (
        frame.select("node_id", "queue", "message_id", f.floor(place * rounds / count).cast("int").alias("round"))
        .groupBy("round", "node_id", "queue")
        .agg(f.min("message_id").alias("first"), f.max("message_id").alias("last"), f.count(f.lit(1)).alias("messages"))
        .orderBy("round", "node_id", "queue")
    )
    lanes: list[Lane] = []
    current = 0
    for row in rows.toLocalIterator():
        if row["round"] != current:
            yield tuple(lanes)
            lanes, current = [], row["round"]
        lanes.append(Lane(row["node_id"], row["queue"], row["first"], row["last"], row["messages"]))
        if len(lanes) > QUEUES_MAX:
            raise JobError(f"the messages come from more than {QUEUES_MAX} queues: choose some of them by a condition")
    if lanes:
        yield tuple(lanes)


def within(lanes: Iterable[Lane], limit: int) -> Iterator[tuple[Lane, ...]]:
    """A round as rounds of at most ``limit`` messages: many small queues may have made it too large.  A lane stays whole."""
    small: list[Lane] = []
    count = 0
    for lane in lanes:
        if small and count + lane.messages > limit:
            yield tuple(small)
            small, count = [], 0
        small.append(lane)
        count += lane.messages
    if small:
        yield tuple(small)


def target_of(address: str, mapping: Mapping[str, str]) -> str:
    """The target of an address: its own entry of the mapping, else the longest pattern that matches, else the address itself."""
    if address in mapping:
        return mapping[address]
    for pattern in sorted((key for key in mapping if "*" in key), key=lambda key: (-len(key), key)):
        head, tail = pattern.split("*")
        if len(address) >= len(head) + len(tail) and address.startswith(head) and address.endswith(tail):
            return mapping[pattern].replace("*", address[len(head) : len(address) - len(tail)])
    return address


def parse_mapping(pairs: Iterable[str]) -> dict[str, str]:
    """``("orders=copy.orders", "*=test.*")`` as a mapping.  Raises :class:`mqspark.errors.BadOptionError`."""
    mapping: dict[str, str] = {}
    for pair in pairs:
        source, separator, target = (part.strip() for part in pair.partition("="))
        if not separator or not source or not target:
            raise BadOptionError(f"'{pair}' does not say where messages go: expected ADDRESS=TARGET")
        if source.count("*") > 1 or target.count("*") > source.count("*"):
            raise BadOptionError(f"'{pair}': one * at most, and in the target only when there is one in the address")
        if source in mapping:
            raise BadOptionError(f"'{source}' is mapped twice: to {mapping[source]} and to {target}")
        mapping[source] = target
    return mapping


def plan_text(plan: Plan, request: Replay) -> str:
    """The plan as it is kept."""
    return json.dumps(
        {
            "version": 1,
            "arguments": request.arguments(),
            "parts": [[part.address, part.target, part.messages, part.size, part.expired] for part in plan.parts],
            "nodes": plan.nodes,
            "tasks": plan.tasks,
            "rounds": [[[lane.node_id, lane.queue, lane.first, lane.last, lane.messages] for lane in lanes] for lanes in plan.rounds],
        }
    )


def read_plan(text: str, request: Replay) -> Plan:
    """The plan that was kept under this id.  Raises :class:`mqspark.jobs.JobError` when it is one of another replay."""
    kept: dict[str, Any] = json.loads(text)
    if kept.get("version") != 1:
        raise JobError(f"the plan of the replay {request.name()} was written by another version of mqspark")
    if kept["arguments"] != request.arguments():
        raise JobError(
            f"the id {request.name()} is that of another replay of this archive, with the arguments {json.dumps(kept['arguments'])}"
        )
    rounds = tuple(tuple(Lane(*lane) for lane in lanes) for lanes in kept["rounds"])
    return Plan(tuple(Part(*part) for part in kept["parts"]), rounds, tuple(kept["nodes"]), kept["tasks"])
