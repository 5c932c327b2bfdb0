"""The connection that driver and executors use, against a real broker: discovery, queues, management, clear errors, reconnecting."""

from __future__ import annotations

import pickle
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqspark.broker.broker import Broker, connect, nodes
from mqspark.errors import (
    BadOptionError,
    BrokerUnreachableError,
    FencedError,
    LoginError,
    MissingQueueError,
    MqsparkError,
    PermissionDeniedError,
    ReaderMissingError,
    ReaderRefusedError,
)
from mqspark.options import Options, Use
from mqspark.reading.plain_source import PlainBroker
from tests.interop.artemis import ArtemisBroker
from tests.interop.processes import free_port
from tests.spark.support import (
    POWERLESS_PASSWORD,
    POWERLESS_USER,
    Additions,
    MqbrokerProcess,
    context,
    login,
    new_broker,
    new_cluster,
    send_numbered,
)

SECONDS = 60.0
"""Within which a user is told at the very latest what is wrong; on a machine without other work it is seconds."""


def options(url: str, **more: str) -> Options:
    return Options.parse({**login(url), **more}, Use.JOB)


@contextmanager
def opened(url: str, **more: str) -> Iterator[Broker]:
    with connect(options(url, **more)) as broker:
        yield broker


def test_a_broker_that_is_alone_is_found_by_its_node_id(broker: MqbrokerProcess) -> None:
    found = nodes(options(broker.url))
    with opened(broker.url) as connection:
        assert [node.node_id for node in found] == [connection.node_id] == [connection.attribute("broker", "NodeID")]
    with connect(options(broker.url), pickle.loads(pickle.dumps(found[0]))) as connection:
        assert connection.node_id == found[0].node_id


def test_queues_are_created_once_and_asked_for(broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "broker.asked", 3)
    with opened(broker.url) as connection:
        connection.create_queue("broker.made")
        connection.create_queue("broker.made")
        assert connection.queue_query("broker.made").exists
        assert not connection.queue_query("broker.none").exists
        assert connection.queue_query("broker.asked").message_count == 3
        assert connection.address_query("broker.asked").queue_names == ("broker.asked",)


def test_a_subscription_keeps_what_is_sent_to_its_topic(broker: MqbrokerProcess) -> None:
    with opened(broker.url) as connection:
        name = connection.subscribe_topic("broker.topic", "first")
        assert connection.subscribe_topic("broker.topic", "first") == name
        odd = connection.subscribe_topic("broker.topic", "odd.ones", "odd = TRUE")
        send_numbered(broker.url, "topic://broker.topic", 4, properties=lambda number: {"odd": number % 2 == 1})
        assert [connection.queue_query(queue).message_count for queue in (name, odd)] == [4, 2]
        with pytest.raises(BadOptionError, match=r"belongs to the address broker\.topic, not to broker\.other"):
            connection.subscribe_topic("broker.other", "first")
        with pytest.raises(BadOptionError, match="has the selector 'odd = TRUE', not 'odd = FALSE'"):
            connection.subscribe_topic("broker.topic", "odd.ones", "odd = FALSE")


def test_a_wrong_selector_is_told_though_the_queue_is_empty(broker: MqbrokerProcess) -> None:
    with opened(broker.url) as connection:
        connection.create_queue("broker.selected")
        for place in (connection, PlainBroker(connection, options(broker.url))):
            place.check_selector("broker.selected", "price > 3")
            with pytest.raises(BadOptionError, match=r"the option selector: .*AMQ229020: Invalid filter"):
                place.check_selector("broker.selected", "price >")
        with pytest.raises(BadOptionError, match=r"the option selector: .*AMQ229020: Invalid filter"):
            connection.subscribe_topic("broker.topic", "wrong", "price >")


def test_management_answers_and_says_why_not(broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "broker.managed", 2)
    with opened(broker.url) as connection:
        listed = connection.manage("queue.broker.managed", "listMessages", "", repeat=True)
        assert [message["number"] for message in listed] == [0, 1]
        with pytest.raises(MqsparkError, match=r"listMessages of queue\.broker\.none .*Cannot find resource"):
            connection.manage("queue.broker.none", "listMessages", "")


def test_wrong_credentials_and_missing_permissions_are_told_at_once(broker: MqbrokerProcess) -> None:
    started = time.monotonic()
    with pytest.raises(LoginError, match=r"logging in at 127\.0\.0\.1:\d+: AMQ229031"):
        connect(options(broker.url, password="wrong"))
    with opened(broker.url, user=POWERLESS_USER, password=POWERLESS_PASSWORD) as connection:
        with pytest.raises(PermissionDeniedError, match="CREATE_DURABLE_QUEUE"):
            connection.create_queue("broker.forbidden")
        with pytest.raises(PermissionDeniedError, match=r"attribute NodeID of broker"):
            connection.attribute("broker", "NodeID")
    assert time.monotonic() - started < SECONDS


def test_a_broker_that_is_not_there_is_told_within_seconds() -> None:
    started = time.monotonic()
    port = free_port()
    with pytest.raises(BrokerUnreachableError, match=rf"127.0.0.1:{port} within 1500 ms: .*refused"):
        nodes(options(f"tcp://127.0.0.1:{port}", connectTimeout="1500"))
    assert 1 < time.monotonic() - started < SECONDS


def test_the_first_broker_of_a_list_that_answers_is_used(broker: MqbrokerProcess) -> None:
    with opened(f"(tcp://127.0.0.1:{free_port()},{broker.url})?retryInterval=50") as connection:
        assert connection.place == broker.url.removeprefix("tcp://")


def test_a_node_must_be_the_one_that_was_found(broker: MqbrokerProcess, tmp_path: Path) -> None:
    (found,) = nodes(options(broker.url))
    impostor = type(found)("another-node", found.connectors)
    with pytest.raises(BrokerUnreachableError, match=r"node another-node cannot be reached .*another node answers there"):
        connect(options(broker.url, reconnectTimeout="500"), impostor)


def test_a_connection_cannot_be_sent_to_another_process(broker: MqbrokerProcess) -> None:
    with opened(broker.url) as connection, pytest.raises(TypeError, match="send the Options and the Node"):
        pickle.dumps(connection)


def test_calls_wait_for_a_broker_that_is_started_again(tmp_path: Path) -> None:
    process = new_broker(tmp_path / "broker")
    process.start()
    try:
        send_numbered(process.url, "kept", 5)
        (node,) = nodes(options(process.url))
        with connect(options(process.url), node) as connection:
            assert connection.attribute("broker", "NodeID") == node.node_id
            process.kill()
            restart = threading.Timer(0.5, process.start)
            restart.start()
            assert connection.queue_query("kept").message_count == 5
            restart.join()
            assert connection.attribute("broker", "NodeID") == node.node_id
            own = connection.session()
            process.kill()
            process.start()
            assert connection.queue_query("kept").message_count == 5
            assert own.closed
    finally:
        process.stop()


def test_tls_comes_from_the_url(tmp_path: Path) -> None:
    port = free_port()
    process = new_broker(tmp_path / "broker", Additions(name="spark", tls_port=port))
    process.start()
    try:
        etc = tmp_path / "broker" / "etc"
        trusted = f"tcp://127.0.0.1:{port}?sslEnabled=true;trustStoreType=PEM;trustStorePath={etc / 'authority.pem'}"
        with opened(trusted) as connection:
            assert not connection.queue_query("none").exists
            assert [node.node_id for node in connection.members()] == [connection.node_id]
        stranger = trusted.replace("authority.pem", "stranger.pem")
        with pytest.raises(BrokerUnreachableError) as raised:
            connect(options(stranger, connectTimeout="1000"))
        assert re.search("certificate", str(raised.value), re.IGNORECASE), raised.value
    finally:
        process.stop()


def test_every_member_of_a_cluster_is_found_from_any(cluster: list[MqbrokerProcess]) -> None:
    deadline = time.monotonic() + 20
    while len(found := nodes(options(cluster[0].url))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(found) == 2
    assert [str(node) for node in nodes(options(cluster[1].url))] == [str(node) for node in found]
    for node in found:
        with connect(options(cluster[0].url), node) as connection:
            assert connection.attribute("broker", "NodeID") == node.node_id == connection.node_id
            assert connection.place in str(node)


def test_members_are_told_by_others_when_the_one_of_the_url_is_away(tmp_path: Path) -> None:
    brokers = new_cluster(tmp_path)
    try:
        for process in brokers:
            process.start()
        with opened(brokers[0].url) as connection:
            deadline = time.monotonic() + 20
            while len(found := connection.members()) < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            lost = connection.node_id
            assert len(found) == 2
            brokers[0].kill()
            started = time.monotonic()
            (other,) = [node for node in found if node.node_id != lost]
            assert str(other) in [str(node) for node in connection.members()]
            assert connection.node_id == other.node_id
            assert time.monotonic() - started < SECONDS
    finally:
        for process in brokers:
            process.stop()


def test_artemis_has_no_readers_and_all_the_rest(artemis: ArtemisBroker) -> None:
    with opened(artemis.url) as connection:
        assert not connection.has_readers
        assert connection.node_id == connection.attribute("broker", "NodeID")
        connection.create_queue("made")
        connection.create_queue("made")
        assert connection.queue_query("made").exists
        assert connection.manage("queue.made", "listMessages", "") == []
        assert connection.id_cache("made").size == 20_000
        connection.subscribe_topic("topic", "subscription")
        connection.subscribe_topic("topic", "subscription")


def test_a_range_is_reserved_read_again_and_settled(broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "broker.read", 2000, body=lambda number: b"x" * 100)
    with opened(broker.url) as connection:
        assert connection.has_readers
        state = connection.open_reader("broker.read", "reader")
        found = connection.reserve("broker.read", "reader", state.epoch, state.settled, parts=3)
        assert (found.messages, found.ends[-1], len(found.ends)) == (2000, found.until, 3)
        for _ in range(2):
            blocks = list(connection.blocks("broker.read", found.after, found.until, max_bytes=50_000))
            assert len(blocks) > 3
            assert sum(block.count for block in blocks) == 2000
        selected = connection.read("broker.read", found.after, found.until, selector="number < 5")
        assert (selected.count, selected.end) == (5, True)
        connection.settle("broker.read", "reader", state.epoch, found.ends[0])
        assert connection.survey("broker.read", -1).messages == connection.queue_query("broker.read").message_count < 2000
        assert list(connection.blocks("broker.read", found.until, found.until)) == []


def test_a_large_body_is_read_in_pieces(broker: MqbrokerProcess) -> None:
    body = bytes(range(256)) * 4000
    send_numbered(broker.url, "broker.large", 1, body=lambda number: body)
    with opened(broker.url) as connection:
        found = connection.survey("broker.large", -1)
        pieces = [connection.body("broker.large", found.until, offset, 300_000) for offset in range(0, len(body), 300_000)]
        assert b"".join(pieces) == body


def test_two_readers_of_one_name_and_other_refusals(broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "broker.fenced", 3)
    with opened(broker.url) as first, opened(broker.url) as second:
        old = first.open_reader("broker.fenced", "reader")
        new = second.open_reader("broker.fenced", "reader")
        with pytest.raises(FencedError, match=r"was opened by another one: epoch 2, yours is 1"):
            first.reserve("broker.fenced", "reader", old.epoch, old.settled)
        found = second.reserve("broker.fenced", "reader", new.epoch, new.settled)
        second.remove_reader("broker.fenced", "reader")
        with pytest.raises(ReaderMissingError, match=r"has no reader reader"):
            second.settle("broker.fenced", "reader", new.epoch, found.until)
        with pytest.raises(MissingQueueError, match=r"opening reader r of queue broker\.none"):
            first.open_reader("broker.none", "r")
        with pytest.raises(BadOptionError, match=r"1 to 256 characters"):
            first.open_reader("broker.fenced", "")
        with pytest.raises(BadOptionError, match=r"Invalid filter"):
            first.read("broker.fenced", -1, 1 << 60, selector="number <")
        with context(broker.url) as session:
            session.create_consumer(session.create_queue("broker.fenced"))
            with pytest.raises(ReaderRefusedError, match=r"it has 1 consumers"):
                first.open_reader("broker.fenced", "reader")
    with opened(broker.url, user=POWERLESS_USER, password=POWERLESS_PASSWORD) as powerless:
        with pytest.raises(PermissionDeniedError, match=r"CONSUME"):
            powerless.open_reader("broker.fenced", "reader")
        with pytest.raises(PermissionDeniedError, match=r"BROWSE"):
            powerless.survey("broker.fenced", -1)


def test_a_range_goes_on_where_it_was_when_the_broker_comes_back(tmp_path: Path) -> None:
    process = new_broker(tmp_path / "broker")
    process.start()
    try:
        send_numbered(process.url, "kept", 3000, body=lambda number: b"x" * 100)
        (node,) = nodes(options(process.url))
        with connect(options(process.url), node) as connection:
            state = connection.open_reader("kept", "reader")
            found = connection.reserve("kept", "reader", state.epoch, state.settled)
            blocks = connection.blocks("kept", found.after, found.until, max_bytes=50_000)
            count = next(blocks).count
            process.kill()
            process.start()
            for block in blocks:
                assert not block.lost
                count += block.count
            assert count == 3000
            connection.settle("kept", "reader", state.epoch, found.until)
            assert connection.queue_query("kept").message_count == 0
    finally:
        process.stop()


def test_the_duplicate_id_cache_is_told(tmp_path: Path) -> None:
    setting = '<address-setting match="few"><id-cache-size>7</id-cache-size></address-setting>'
    process = new_broker(tmp_path / "broker", Additions(name="spark", address_settings=setting))
    process.start()
    try:
        with opened(process.url) as connection:
            assert (connection.id_cache("few").size, connection.id_cache("many").size) == (7, 20_000)
            assert connection.id_cache("few").persisted
    finally:
        process.stop()
