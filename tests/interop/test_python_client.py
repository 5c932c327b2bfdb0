"""The Python client where brokers refuse or hold back: credentials, permissions, TLS, full addresses; and a browser that is cut off."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqclient import jms
from mqclient.jms.messages.message import DeliveryMode
from mqclient.xa import XAER_NOTA, XAER_RMFAIL, XAError, Xid
from tests.interop import instance
from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.peers import Peer, kill_and_start

RECEIVE_MS = 20_000
"""Of waiting for a message that has to come."""
MORE_MS = 1000
"""Of waiting for one behind the last."""
BODY = b"x" * 5000
TAKES = 4
"""Messages with that body fit into an address of 20000 bytes, or fewer."""


def count_of(consumer: jms.MessageConsumer, awaited: int = 1) -> int:
    """How many messages come; so many have to."""
    received = 0
    while True:
        message = consumer.receive(RECEIVE_MS if received < awaited else MORE_MS)
        if message is None and consumer.receive_no_wait() is None:  # asks the broker: the machine may stand still for as long as this waits
            return received
        received += 1


def connect(url: str, **settings: Any) -> jms.Connection:
    return jms.ConnectionFactory(url, **settings).create_connection(instance.USER, instance.PASSWORD)


@pytest.fixture
def connection(peer: Peer) -> Iterator[jms.Connection]:
    with connect(peer.url) as made:
        yield made


def name(part: str) -> str:
    return f"{part}.{uuid.uuid4()}"


@pytest.mark.parametrize("user", [instance.USER, "stranger", None])
def test_wrong_credentials(peer: Peer, user: str | None) -> None:
    with jms.ConnectionFactory(peer.url) as factory, pytest.raises(jms.JMSSecurityException) as refused:
        factory.create_connection(user, "wrong")
    assert refused.value.error_code == "105"


def test_missing_permissions(peer: Peer) -> None:
    with (
        jms.ConnectionFactory(peer.url) as factory,
        factory.create_connection(instance.POWERLESS_USER, instance.POWERLESS_PASSWORD) as connection,
    ):
        session = connection.create_session()
        with pytest.raises(jms.JMSSecurityException):
            session.create_producer("queue://DLQ").send("never")
        with pytest.raises(jms.JMSSecurityException):
            session.create_consumer("queue://DLQ")


def tls_url(peer: Peer, **parameters: str) -> str:
    given = "".join(f"&{key}={value}" for key, value in parameters.items())
    return f"tcp://127.0.0.1:{peer.tls_port}?sslEnabled=true{given}"


def test_tls(peer: Peer) -> None:
    etc = Path(peer.folder) / "etc"
    with connect(tls_url(peer, trustStorePath=str(etc / "authority.pem"))) as connection:
        session, queue = connection.create_session(), f"queue://{name('interop.tls')}"
        session.create_producer(queue).send(BODY * 100)
        received = session.create_consumer(queue).receive(RECEIVE_MS)
        assert received is not None
        assert received.body == BODY * 100


@pytest.mark.parametrize(
    "wrong", [{"trustStorePath": "stranger.pem"}, {}, {"trustStorePath": "authority.pem", "enabledProtocols": "TLSv1.1"}]
)
def test_tls_refused(peer: Peer, wrong: dict[str, str]) -> None:
    etc = Path(peer.folder) / "etc"
    parameters = {key: str(etc / value) if key.endswith("Path") else value for key, value in wrong.items()}
    with pytest.raises(jms.JMSException) as refused:
        connect(tls_url(peer, **parameters), call_timeout=RECEIVE_MS)
    assert refused.value.error_code == "2"


def test_plain_text_to_an_acceptor_with_tls(peer: Peer) -> None:
    with pytest.raises(jms.JMSException):
        connect(f"tcp://127.0.0.1:{peer.tls_port}", call_timeout=2000)


@pytest.mark.parametrize("mode", [DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT])
def test_a_full_address_that_fails(connection: jms.Connection, mode: DeliveryMode) -> None:
    session, queue = connection.create_session(), f"queue://{name('interop.full.fail')}"
    producer = session.create_producer(queue, delivery_mode=mode)
    sent = 0
    with pytest.raises(jms.JMSException) as refused:
        for _ in range(100):
            producer.send(BODY)
            sent += 1
    assert refused.value.error_code == "210"
    consumer = session.create_consumer(queue)
    received = count_of(consumer, sent if mode == DeliveryMode.PERSISTENT else 1)
    assert 0 < received <= sent
    assert mode == DeliveryMode.NON_PERSISTENT or received == sent, "what was accepted is there"
    if mode == DeliveryMode.NON_PERSISTENT:
        with contextlib.suppress(jms.JMSException):
            producer.send("perhaps another one was refused, too, which this one tells")
    producer.send("there is room again")
    assert consumer.receive(RECEIVE_MS) is not None


def test_a_full_address_in_a_transaction(connection: jms.Connection) -> None:
    queue = f"queue://{name('interop.full.fail')}"
    session = connection.create_session(transacted=True)
    producer = session.create_producer(queue)
    with pytest.raises(jms.JMSException):
        for _ in range(20):
            producer.send(BODY)
            session.commit()
    session.rollback()
    received = count_of(session.create_consumer(queue))
    session.commit()
    assert 0 < received <= TAKES + 1


def test_a_full_address_that_blocks(connection: jms.Connection) -> None:
    queue = f"queue://{name('interop.full.block')}"
    producer = connection.create_session().create_producer(queue)
    sent: list[int] = []

    def send() -> None:
        for number in range(TAKES * 4):
            producer.send(BODY)
            sent.append(number)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join(0.5)
    assert thread.is_alive(), "the producer waits for room"
    stuck = len(sent)
    assert stuck < TAKES * 4
    consumer = connection.create_session().create_consumer(queue)
    for _ in range(TAKES * 4):
        assert consumer.receive(RECEIVE_MS) is not None
    thread.join(RECEIVE_MS / 1000)
    assert not thread.is_alive()


def test_closing_ends_a_send_that_waits_for_room(peer: Peer) -> None:
    queue = f"queue://{name('interop.full.block')}"
    connection = connect(peer.url, call_timeout=5000)  # so long does a close wait for sends that were begun
    producer = connection.create_session().create_producer(queue)
    ended: list[BaseException] = []

    def send() -> None:
        try:
            for _ in range(TAKES * 4):
                producer.send(BODY)
        except jms.JMSException as error:
            ended.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()
    connection.close()
    thread.join(RECEIVE_MS / 1000)
    assert not thread.is_alive()
    assert len(ended) == 1


@pytest.mark.parametrize("window", [1024 * 1024, 0])
def test_a_browser_goes_on_after_a_reconnect(peer: Peer, connection: jms.Connection, window: int) -> None:
    queue = f"queue://{name('interop.browse')}"
    producer = connection.create_session().create_producer(queue)
    large = b"y" * 250_000
    for number in range(6):
        producer.send(large if number == 1 else b"%d" % number)
    proxy = CuttingProxy(peer.port)
    settings = {"reconnect_attempts": -1, "retry_interval": 20, "consumer_window_size": window}
    try:
        with connect(proxy.url, **settings) as browsing, browsing.create_session().create_browser(queue) as browser:
            shown = []
            for message in browser:
                shown.append(message.body)
                if len(shown) in (3, 4):
                    proxy.cut()
    finally:
        proxy.close()
    assert shown == [b"0", large, b"2", b"3", b"4", b"5"]


def test_branches_and_a_broker_that_is_killed(peer: Peer) -> None:
    """The same session goes on with the broker that was started again: prepared branches are there, all others are gone."""
    queue, transaction = name("interop.xa"), uuid.uuid4().bytes
    prepared, ended, begun = (Xid(1, transaction, part) for part in (b"prepared", b"ended", b"begun"))
    factory = jms.XAConnectionFactory(peer.url, reconnect_attempts=-1, retry_interval=100, call_failover_timeout=60_000)
    with factory, factory.create_xa_connection(instance.USER, instance.PASSWORD) as connection:
        session = connection.create_xa_session()
        resource, producer = session.xa_resource, session.create_producer(f"queue://{queue}")
        for branch in (prepared, ended, begun):
            resource.start(branch)
            producer.send(branch.branch_qualifier)
            if branch != begun:
                resource.end(branch)
        resource_of_another = connection.create_xa_session().xa_resource
        resource_of_another.prepare(prepared)
        kill_and_start(peer)
        with pytest.raises(XAError) as refused:
            resource.end(begun)
        assert refused.value.error_code == XAER_RMFAIL
        with pytest.raises(XAError) as refused:
            resource_of_another.prepare(ended)
        assert refused.value.error_code == XAER_NOTA
        assert [branch for branch in resource.recover() if branch.global_transaction_id == transaction] == [prepared]
        resource.commit(prepared)
        with session.create_browser(f"queue://{queue}") as browser:
            assert [message.body for message in browser] == [b"prepared"]
