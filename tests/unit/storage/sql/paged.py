"""What the tests of pages in a database share: a queue whose messages go to the pages of the address ``a``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqbroker.messaging.message.message import Message
from mqbroker.storage.sql.folder import SqlFolder
from mqbroker.storage.sql.reader import SqlPageReader
from mqclient.wire.message import CoreMessage, encode_message
from tests.unit.storage.sql.support import SqlRig


def body_of(message: Message) -> bytes:
    return message.decoded().body


class Heard:
    """Hears of the pages of an address."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[int, int]] = []
        self.losses: list[tuple[int, int]] = []
        self.ends = 0

    def arrived(self, queue_id: int, messages: int) -> None:
        self.arrivals.append((queue_id, messages))

    def lost(self, queue_id: int, messages: int) -> None:
        self.losses.append((queue_id, messages))

    def emptied(self) -> None:
        self.ends += 1


class PagedTestCase:
    late = False
    addCleanup: Callable[..., Any]

    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup, late=self.late)
        self.rig.start()
        self.queue_id = self.rig.queue()
        self.bodies: list[bytes] = []
        self.begin()

    def begin(self) -> None:
        """Readers and folder of the store as it is now."""
        pager = self.rig.store.pager
        assert pager is not None
        self.folder: SqlFolder = pager.folder("a")
        self.heard = Heard()
        self.folder.listener = self.heard
        self.reader: SqlPageReader = self.folder.reader(self.queue_id)

    def page(self, count: int, durable: bool = True, page_size: int = 1000, **headers: Any) -> list[Message]:
        """Messages go to the pages, and arrive there."""
        messages = []
        for _ in range(count):
            body = str(len(self.bodies)).encode()
            self.bodies.append(body)
            encoded = encode_message(CoreMessage(address="a", durable=durable, body=body, **headers))
            message = Message.received(encoded, self.rig.store.next_id())
            batch = self.rig.store.begin()
            ids = (self.queue_id,)
            batch.add_paged(self.folder, message, ids, ids if durable else (), page_size)
            self.rig.store.commit(batch)
            messages.append(message)
        self.rig.settle()
        return messages

    def restart(self) -> None:
        self.rig.restart()
        self.begin()
