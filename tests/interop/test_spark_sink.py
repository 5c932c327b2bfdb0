"""What the sink of the data sources asks of a broker, on real Artemis and on mqbroker: duplicate ids, prepared branches, decisions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from mqspark.broker.broker import Broker, connect
from mqspark.messages.rows import RowEncoder, RowSettings
from mqspark.options import Options, Use
from mqspark.transactions.branches import BranchTask, NodeBranches, finish, undo
from mqspark.transactions.decisions import Batch, Branch, new_xid
from mqspark.writing.sending import Sender
from mqspark.writing.targets import id_cache_size, resolve
from tests.interop.artemis import ArtemisBroker
from tests.interop.instance import PASSWORD, USER
from tests.interop.mqbroker_process import MqbrokerProcess

ROWS = 500


@pytest.fixture(scope="module", params=(ArtemisBroker, MqbrokerProcess), ids=("artemis", "mqbroker"))
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, java: None) -> Iterator[str]:
    started = request.param(tmp_path_factory.mktemp("broker"))
    started.start()
    try:
        yield started.url
    finally:
        started.stop()


@pytest.fixture
def broker(url: str) -> Iterator[Broker]:
    with connect(options(url)) as found:
        yield found


def options(url: str) -> Options:
    return Options.parse({"url": url, "user": USER, "password": PASSWORD, "queue": f"sink.{uuid.uuid4()}"}, Use.WRITE)


def encoded(address: str, prefix: str | None, large: bool = False) -> list[bytes]:
    rows = pa.record_batch({"text": [f"row {number}" for number in range(ROWS - 1)] + ["x" * (300_000 if large else 1)]})
    return RowEncoder(rows.schema, RowSettings(address=address, routing_type=1, id_prefix=prefix)).encode(rows, 0, 0).messages


def count(broker: Broker, queue: str) -> int:
    return broker.queue_query(queue).message_count


def prepared(broker: Broker, batch: Batch, queue: str) -> Branch:
    """What a task leaves."""
    xid = new_xid(batch, "home", 0, 0, uuid.uuid4().bytes[:8])
    task = BranchTask(broker, xid, 60)
    sender = Sender(broker.runtime, lambda: task.session, in_transaction=True)
    sender.send(encoded(queue, None, large=True), queue)
    sender.flush()
    assert task.prepare()
    return Branch("home", xid)


def test_known_duplicate_ids_are_confirmed_and_dropped(broker: Broker, url: str) -> None:
    target = resolve(options(url), broker)
    assert target is not None
    assert id_cache_size(target.address, broker) == 20_000
    for _ in range(2):
        sender = Sender(broker.runtime, broker.session)
        sender.send(encoded(target.address, "query/0/0/", large=True), target.address)
        sender.flush()
        assert sender.confirmed == ROWS
        assert count(broker, target.address) == ROWS


def test_branches_follow_the_decision(broker: Broker, url: str) -> None:
    target = resolve(options(url), broker)
    assert target is not None
    queue = target.address
    nodes = {"home": NodeBranches(broker)}
    batch = Batch(str(uuid.uuid4()), 7)
    given_up, lost, decided = (prepared(broker, batch, queue) for _ in range(3))
    undo(batch, [given_up], nodes, "home")
    assert set(nodes["home"].in_doubt()) == {lost.xid, decided.xid}
    nodes["home"].decide(batch, [decided], 0)
    nodes["home"].decide(batch, [lost], 0)
    assert nodes["home"].decision(batch) == [decided]
    assert count(broker, queue) == 0
    late = prepared(broker, batch, queue)
    assert not finish(batch, [late], nodes, "home", 0)
    assert (count(broker, queue), nodes["home"].in_doubt()) == (ROWS, [])
    following = Batch(batch.query, 8)
    assert finish(following, [prepared(broker, following, queue)], nodes, "home", 0)
    assert (count(broker, queue), nodes["home"].in_doubt()) == (2 * ROWS, [])
    assert (nodes["home"].decision(batch), nodes["home"].decision(following) is None) == (None, False)
    nodes["home"].roll_back(decided.xid)
    nodes["home"].commit(decided.xid)


def test_a_branch_ends_with_its_connection(url: str, broker: Broker) -> None:
    target = resolve(options(url), broker)
    assert target is not None
    batch = Batch(str(uuid.uuid4()), 0)
    with connect(options(url)) as own:
        task = BranchTask(own, new_xid(batch, "home", 0, 0, bytes(8)), 60)
        sender = Sender(own.runtime, lambda: task.session, in_transaction=True)
        sender.send(encoded(target.address, None), target.address)
        sender.flush()
    assert (count(broker, target.address), NodeBranches(broker).in_doubt()) == (0, [])
