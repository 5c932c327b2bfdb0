"""Positions in queues: the contents of a Spark offset, and of the options ``startingOffsets`` and ``endingOffsets``.

As JSON::

    {"version":1,"reader":"warehouse","nodes":{"<node id>":{"<queue>":1234}}}

A position is the id of the last message that was read: reading goes on behind it.  Ids ascend strictly on a node and are never used again,
so a position stays valid when messages are sent or removed.  -1 is "before the oldest message".  ``reader`` is the name of the reader on
the broker; a query without a given name makes one up when it begins, and finds it in its own checkpoint from then on.  ``begins``, laid out
like ``nodes``, has the first positions of queues that no earlier offset of the query names: Spark does not write down where a query begins.
``parts`` has, instead of one position, the end of each task's part of the batch that leads to this offset: a sink tells repeated rows by
their task, so a repeated batch is cut as before, even if options and broker have changed meanwhile.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mqspark.errors import BadOptionError, MqsparkError

T = TypeVar("T")

VERSION: Final = 1
OLDEST: Final = -1
POSITION_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Offset:
    """The position of a query in every queue of every node."""

    reader: str = ""
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    begins: dict[str, dict[str, int]] = field(default_factory=dict)
    parts: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, found: object) -> Offset:
        """Read a result of :meth:`as_json`; raises MqsparkError for other objects."""
        try:
            return cls._read(found)
        except ValueError as error:
            raise MqsparkError(f"the offset {json.dumps(found)} of the checkpoint cannot be read: {error}") from None

    @classmethod
    def from_option(cls, text: str, name: str) -> Offset:
        """Read the JSON of an option; raises BadOptionError."""
        try:
            return cls._read(json.loads(text))
        except ValueError as error:
            raise BadOptionError(
                f'the option {name}={text!r}: {error}; expected {{"version":1,"nodes":{{"<node id>":{{"<queue>":1234}}}}}}'
            ) from None

    @classmethod
    def _read(cls, found: object) -> Offset:
        if not isinstance(found, dict) or not isinstance(found.get("nodes"), dict):
            raise ValueError("there is no object 'nodes'")
        if found.get("version", VERSION) != VERSION:
            raise ValueError(f"its version is {found['version']}, this is version {VERSION}")
        reader = found.get("reader", "")
        if not isinstance(reader, str):
            raise ValueError("'reader' is not a name")
        return cls(reader, _positions(found["nodes"]), _positions(found.get("begins", {})), _parts(found.get("parts", {})))

    def as_json(self) -> dict[str, Any]:
        """Equal offsets give equal texts, in whatever order they were filled, because Spark compares the texts."""
        found = {"version": VERSION, "reader": self.reader, "nodes": _sorted(self.nodes)}
        if self.begins:
            found["begins"] = _sorted(self.begins)
        if self.parts:
            found["parts"] = _sorted(self.parts)
        return found

    def get(self, node: str, queue: str) -> int | None:
        """The position; None when the offset does not know the queue on this node."""
        return self.nodes.get(node, {}).get(queue)

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        for node, queues in self.nodes.items():
            for queue, position in queues.items():
                yield node, queue, position


def _positions(found: object) -> dict[str, dict[str, int]]:
    def check(queue: str, node: str, position: Any) -> None:
        if type(position) is not int or not OLDEST <= position <= POSITION_MAX:
            raise ValueError(f"the position {position!r} of queue {queue} on node {node} is not a message id")

    return _by_node(found, check)


def _parts(found: object) -> dict[str, dict[str, list[int]]]:
    def check(queue: str, node: str, ends: Any) -> None:
        good = isinstance(ends, list) and ends and all(type(end) is int and 0 <= end <= POSITION_MAX for end in ends)
        if not good or any(end <= before for before, end in itertools.pairwise(ends)):
            raise ValueError(f"the parts of queue {queue} on node {node} are not ascending message ids")

    return _by_node(found, check)


def _by_node(found: object, check: Callable[[str, str, Any], None]) -> dict[str, dict[str, Any]]:
    """A copy of values by node and queue, each of which is checked.  Raises ValueError for something else."""
    if not isinstance(found, dict):
        raise ValueError("there is no object of nodes")
    for node, queues in found.items():
        if not isinstance(queues, dict):
            raise ValueError(f"node {node} has no object of queues")
        for queue, value in queues.items():
            check(queue, node, value)
    return {node: dict(queues) for node, queues in found.items()}


def _sorted(nodes: Mapping[str, Mapping[str, T]]) -> dict[str, dict[str, T]]:
    return {node: dict(sorted(queues.items())) for node, queues in sorted(nodes.items())}


def split(ends: Sequence[int], parts: int) -> list[int]:
    """At most ``parts`` of the ends of parts of similar size, at similar distances; the last one stays."""
    count = len(ends)
    parts = max(1, min(parts, count))
    return [ends[(number + 1) * count // parts - 1] for number in range(parts)] if count else []


def parts_of(messages: int, size: int, least: int) -> int:
    """Into how many parts a range of so many messages and bytes is cut; ``least`` if it has as many messages."""
    wanted = max(-(-messages // PART_MESSAGES), -(-size // PART_BYTES), 1)
    return max(1, min(max(min(wanted, PARTS_MAX), least), messages))


PART_MESSAGES: Final = 50_000
"""Messages of one task: half a second of work, many times the cost of starting a task."""
PART_BYTES: Final = 32 << 20
PARTS_MAX: Final = 64
"""Tasks that a range of one queue is cut into without ``minPartitions``."""


def share(total: int, amounts: list[int]) -> list[int]:
    """``total`` shared out in proportion to ``amounts``, at most the amount to each, and one at least while there is some."""
    if sum(amounts) <= total:
        return list(amounts)
    shares = [min(amount, 1) for amount in amounts]
    left = total - sum(shares)
    if left < 0:
        firsts = itertools.accumulate(shares)
        return [each if first <= total else 0 for each, first in zip(shares, firsts, strict=True)]
    rests = [amount - each for amount, each in zip(amounts, shares, strict=True)]
    more = [left * rest // sum(rests) for rest in rests]
    left -= sum(more)
    for number, rest in enumerate(rests):
        if left and more[number] < rest:
            more[number] += 1
            left -= 1
    return [each + further for each, further in zip(shares, more, strict=True)]
