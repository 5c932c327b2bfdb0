"""The active side of replication, for one replica: a copy of all files, and every change from then on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.mirror.changes import Buffer
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from mqbroker.storage.tickets import Condition, Tickets


class Progress(NamedTuple):
    """How far a copy has come, in bytes; ``all`` grows as long as the files are being looked at."""

    done: int
    all: int


class ReplicaFeed:
    """Everything that one replica is sent, in one stream.

    ``send(buffers)`` takes bytes of the stream, to be sent one after the other.  ``call(function)`` lets another thread call on the loop.
    ``copied()``: the replica has all of it, durably.  ``lost(reason)`` is called when the stream cannot go on; it has stopped then.
    """

    def __init__(
        self,
        mirrored: MirroredFileSystem,
        writer: DiskWriter,
        tickets: Tickets,
        call: Callable[[Callable[[], object]], object],
        send: Callable[[Sequence[Buffer]], object],
        copied: Callable[[], object],
        lost: Callable[[str], object],
    ) -> None:
        self.behind = 0
        """Bytes that were sent and are not answered."""

    @property
    def progress(self) -> Progress:
        raise NotImplementedError

    def start(self) -> None:
        """Begin the copy."""
        raise NotImplementedError

    def answered(self, number: int) -> None:
        """The replica has done the changes up to this one.  Raises ValueError for one that was not sent."""
        raise NotImplementedError

    def demand(self) -> Condition:
        """From now on work counts as durable only when the replica has it, too.  To be called after ``copied``.

        When the feed is stopped or lost the condition holds for nothing more, and durable work waits until it is withdrawn.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Tell the replica nothing more."""
        raise NotImplementedError
