"""Every message type, property type and header from Java to the Python client and back, through the broker under test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqclient import jms
from tests.interop import instance
from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.java_driver import Harness, run_scenarios
from tests.interop.maven import GENERATIONS
from tests.interop.messages import Description, catalogue, describe, send_all
from tests.interop.peers import Peer, kill_and_start, restart

RECEIVE_MS = 20_000


@pytest.fixture
def session(peer: Peer) -> Iterator[jms.Session]:
    with (
        jms.ConnectionFactory(peer.url) as factory,
        factory.create_connection(instance.USER, instance.PASSWORD) as connection,
        connection.create_session() as made,
    ):
        connection.start()
        yield made


@pytest.fixture
def harness(peer: Peer) -> Iterator[Harness]:
    proxy = CuttingProxy(peer.port)
    yield Harness(peer.url, proxy, lambda: restart(peer), lambda: kill_and_start(peer))
    proxy.close()


def by_id(descriptions: list[Description]) -> dict[str, Description]:
    return {one["message_id"]: one for one in descriptions}


def without_group(descriptions: list[Description]) -> list[Description]:
    """Client 2.6 keeps the group under other keys than later clients and shows it differently, even to the sender: leave it out."""
    hidden = {"JMSXGroupID", "JMSXGroupSeq", "_AMQ_GROUP_SEQUENCE"}
    return [{**one, "properties": {key: item for key, item in one["properties"].items() if key not in hidden}} for one in descriptions]


def assert_same(sent: list[Description], received: list[Description], *, group: bool = True) -> None:
    assert len(sent) == len(received)
    found = by_id(received if group else without_group(received))
    for one in sent if group else without_group(sent):
        assert found[one["message_id"]] == one
    orders = [[one["message_id"] for one in group if one["priority"] == 4] for group in (sent, received)]
    assert orders[0] == orders[1]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_java_to_python(generation: str, harness: Harness, session: jms.Session) -> None:
    result = run_scenarios(generation, harness, ["exchange-send"])["exchange-send"]
    assert result.ok, result.error
    sent: list[Description] = result.reported["sent"]
    received: list[Description] = []
    with session.create_consumer("queue://interop.exchange.from-java") as consumer:
        while len(received) < len(sent):
            message = consumer.receive(timeout=RECEIVE_MS)
            assert message is not None, f"{len(received)} of {len(sent)} came"
            received.append(describe(message))
        assert consumer.receive_no_wait() is None
    assert_same(sent, received, group=generation != "jms-2.6.4")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_python_to_java(generation: str, harness: Harness, session: jms.Session) -> None:
    with session.create_producer("queue://interop.exchange.to-java") as producer:
        sent = send_all(session, producer)
    answers = {"count": str(len(sent))}
    result = run_scenarios(generation, harness, ["exchange-receive"], answers)["exchange-receive"]
    assert result.ok, result.error
    assert_same(sent, result.reported["received"], group=generation != "jms-2.6.4")


def test_python_to_python(session: jms.Session) -> None:
    with session.create_producer("queue://interop.exchange.python") as producer:
        sent = send_all(session, producer)
    with session.create_consumer("queue://interop.exchange.python") as consumer:
        received = [describe(message) for _ in sent if (message := consumer.receive(timeout=RECEIVE_MS)) is not None]
    assert_same(sent, received)


def test_the_catalogue_has_every_kind(session: jms.Session) -> None:
    assert {type(message) for message in catalogue(session)} == {
        *(jms.Message, jms.TextMessage, jms.BytesMessage, jms.MapMessage, jms.StreamMessage, jms.ObjectMessage),
    }
