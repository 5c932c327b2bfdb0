"""Two copies of a node that have lost each other, on one simulated disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.merge.comparison import Comparison, compare
from mqbroker.cli.data.merge.split import Split, read_split
from mqbroker.messaging.message.message import Message
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.properties import TypedValue
from tests.unit.storage.support import Rig

OLD = "/data/{}/oldreplica.1"
NAMES = ("journal", "bindings", "large-messages", "paging")
RUNNING = DataFolders(*(Path(f"/data/{name}") for name in NAMES))
KEPT = DataFolders(*(Path(OLD.format(name)) for name in NAMES))


def move_to(rig: Rig, folders: DataFolders) -> None:
    """Let the store of ``rig`` have these folders, from its next start on."""
    own = folders.settings()
    rig.settings = replace(
        rig.settings,
        journal_directory=own.journal_directory,
        bindings_directory=own.bindings_directory,
        large_messages_directory=own.large_messages_directory,
        paging_directory=own.paging_directory,
    )


class Pair:
    """``kept`` is the copy that was active; :meth:`split` lets the replica take over as ``running``, while the other one goes on."""

    def __init__(self, **settings: int) -> None:
        self.kept = Rig(1, **settings)
        move_to(self.kept, KEPT)
        self.running = Rig(2, **settings)
        self.disk = self.running.disk = self.kept.disk
        move_to(self.running, RUNNING)

    def start(self, *queues: str) -> list[int]:
        """Start the pair with these queues; returns their ids."""
        self.kept.start()
        return [self.kept.queue(name, "a") for name in queues]

    def split(self) -> None:
        self.settle()
        self.copy()
        self.running.start()

    def copy(self) -> None:
        """The replica has what the active broker has written."""
        for path, content in self.disk.files().items():
            if "/oldreplica.1/" in path:
                target = path.replace("/oldreplica.1", "")
                self.disk.make_directory(target.rpartition("/")[0])
                file = self.disk.open(target)
                file.write(0, content)
                file.sync()
                file.close()
                self.disk.sync_directory(target.rpartition("/")[0])

    def settle(self) -> None:
        for rig in (self.kept, self.running):
            if hasattr(rig, "store"):
                rig.settle()

    def read(self) -> Split:
        self.settle()
        return read_split(self.disk, KEPT, RUNNING)

    def compare(self) -> Comparison:
        split = self.read()
        return compare(split.kept, split.running, split.common)


def add(rig: Rig, queue_ids: list[int], body: bytes = b"body", address: str = "a", **properties: TypedValue) -> Message:
    """Store a message with properties."""
    content = CoreMessage(address=address, durable=True, body=body, properties=properties)
    message = Message.received(encode_message(content), rig.store.next_id())
    batch = rig.store.begin()
    batch.add_message(message, queue_ids)
    rig.store.commit(batch)
    return message


def ids(comparison: Comparison) -> tuple[list[int], list[int], list[int]]:
    """The ids on the three lists of messages."""
    missing, undecided, unsendable = (
        [each.message_id for each in messages] for messages in (comparison.missing, comparison.undecided, comparison.unsendable)
    )
    return missing, undecided, unsendable
