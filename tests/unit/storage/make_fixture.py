"""Writes the fixture journal of the present format version: ``python -m tests.unit.storage.make_fixture``.

A fixture is made once per format version and then kept for good: that a later version can still read it is the point.
"""

from __future__ import annotations

import pathlib

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, BranchRecord, BranchState, QueueRecord
from mqclient.storageformat.files import folder_name
from mqclient.storageformat.frames import FORMAT_VERSION
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import STRING
from tests.unit.storage.support import BINDINGS, JOURNAL, LARGE, PAGING, Rig, settings

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
FOLDERS = {"journal": JOURNAL, "bindings": BINDINGS, "large-messages": LARGE, "pages": f"{PAGING}/{folder_name('paged')}"}


def fill(rig: Rig) -> None:
    """One of everything, some of it over and done with."""
    rig.start()
    store = rig.store
    batch = store.begin()
    batch.put_address(AddressRecord(store.next_id(), "orders", frozenset({0, 1})))
    queue, other = store.next_id(), store.next_id()
    batch.put_queue(QueueRecord(queue, "q", "orders", 1, "color = 'red'", {"exclusive": True, "max-consumers": -1}))
    batch.put_queue(QueueRecord(other, "other", "orders", 0, None, {"user": "bob"}))
    batch.put_queue(QueueRecord(store.next_id(), "gone", "orders", 1))
    batch.put_setting("address-settings", "orders.#", '{"maxSizeBytes":1000}')
    store.commit(batch)
    for number in range(20):
        content = CoreMessage(address="orders", durable=True, priority=number % 10, body=b"%d" % number * 100)
        content.properties["color"] = (STRING, "red")
        message = Message.received(encode_message(content), store.next_id())
        batch = store.begin()
        batch.add_message(message, [queue] if number % 2 else [queue, other])
        batch.add_duplicate_id("orders", b"dup-%d" % number, store.next_id())
        store.commit(batch)
        rig.settle()
        batch = store.begin()
        if number % 3 == 0:
            batch.acknowledge(queue, message)
        if number == 2:
            batch.delivery_count(queue, message, 5)
            batch.schedule(other, message, 1_800_000_000_000)
        store.commit(batch)
    body = store.create_large_body(store.next_id())
    body.append(b"large" * 100)
    body.complete()
    batch = store.begin()
    batch.add_message(Message.of(CoreMessage(message_id=store.next_id(), address="elsewhere", durable=True), body), [queue])
    batch.delete_queue(queue + 2)
    store.commit(batch)
    rig.settle()
    fill_branches(rig, queue)


def fill_branches(rig: Rig, queue: int) -> None:
    """What came with format 2: branches of XA transactions, one in doubt, one committed, one rolled back, one decided by management."""
    store = rig.store
    prepared, committed, rolled_back, decided = (store.next_id() for _ in range(4))
    for branch_id in (prepared, committed, rolled_back, decided):
        message = Message.received(encode_message(CoreMessage(address="orders", durable=True, body=b"%d" % branch_id)), store.next_id())
        xid = Xid(7, b"branch", b"%d" % branch_id)
        batch = store.begin()
        batch.put_branch(BranchRecord(branch_id, xid, BranchState.PREPARED, 1_700_000_000_000, ((queue, 1),), (2, 3)))
        batch.add_prepared(branch_id, message, [queue])
        batch.schedule(queue, message, 1_900_000_000_000)
        store.commit(batch)
    batch = store.begin()
    batch.end_branch(committed, True)
    batch.end_branch(rolled_back, False)
    batch.end_branch(decided, True)
    batch.put_branch(BranchRecord(decided, Xid(7, b"branch", b"%d" % decided), BranchState.COMMITTED, 1_700_000_000_000))
    store.commit(batch)
    rig.settle()


def fill_pages(rig: Rig, compress: bool) -> None:
    """What came with format 3: pages, plain and packed, of which something was acknowledged, tried and delayed."""
    store = rig.store
    assert store.pager is not None
    queue, other = (store.next_id() for _ in range(2))
    batch = store.begin()
    batch.put_queue(QueueRecord(queue, f"p{compress:d}", "paged", 0))
    batch.put_queue(QueueRecord(other, f"o{compress:d}", "paged", 0))
    store.commit(batch)
    folder = store.pager.folder("paged")
    batch = store.begin()
    for number in range(30):
        message = Message.received(encode_message(CoreMessage(address="paged", durable=True, body=b"%d" % number * 50)), store.next_id())
        batch.add_paged(folder, message, [queue, other], [queue, other], 2000)
    large = store.create_large_body(store.next_id())
    large.append(b"large" * 100)
    large.complete()
    message = Message.of(CoreMessage(message_id=store.next_id(), address="paged", durable=True), large)
    batch.add_paged(folder, message, [queue], [queue], 2000)
    store.commit(batch)
    large.release()
    rig.settle()
    reader = folder.reader(queue)
    first, second, third, *_ = reader.read() or []
    batch = store.begin()
    batch.acknowledge(queue, first.message)
    batch.acknowledge(queue, third.message)
    batch.delivery_count(queue, second.message, 4)
    batch.schedule(queue, second.message, 1_900_000_000_000)
    store.commit(batch)
    batch = store.begin()
    batch.acknowledge_unread(folder.reader(other))
    store.commit(batch)
    rig.settle()


def main() -> None:
    rig = Rig(seed=1)
    fill(rig)
    fill_pages(rig, compress=False)
    rig.stop()
    rig.settings = settings(compress_pages=True)
    rig.start()
    fill_pages(rig, compress=True)
    rig.stop()
    for name, folder in FOLDERS.items():
        target = FIXTURES / f"version-{FORMAT_VERSION}" / name
        target.mkdir(parents=True)
        for file in rig.disk.list(folder):
            (target / file).write_bytes(rig.disk.read(f"{folder}/{file}"))


if __name__ == "__main__":
    main()
