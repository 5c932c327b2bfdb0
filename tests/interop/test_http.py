"""Unmodified Java clients, and the Python client, through HTTP (``httpEnabled=true``); the acceptor is an ordinary one."""

from __future__ import annotations

import contextlib
import time
import uuid

import pytest

from mqclient.jms import ConnectionFactory
from tests.interop import instance
from tests.interop.maven import GENERATIONS
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.peers import Peer
from tests.interop.puppet import Puppet

POLL = "httpClientIdleTime=100;httpClientIdleScanPeriod=100"
RECEIVE_MS = 20_000


def exchange(java: Puppet, url: str) -> None:
    """Messages there and back, also large ones, and one that comes while the client is silent."""
    queue = f"queue://http.{uuid.uuid4()}"
    java.connect("c", url)
    java.send("c", queue, 200)
    java.send("c", queue, 3, first=200, size=300_000)
    java.consume("in", "c", queue)
    assert java.take("in", 203) == list(range(203))
    time.sleep(1.5)
    java.send("c", queue, 1, first=500)
    assert java.take("in", 1) == [500]
    java.close("in")
    java.close("c")


@pytest.fixture(autouse=True)
def answering(peer: Peer) -> None:
    if not isinstance(peer, MqbrokerProcess):
        pytest.skip("Artemis 2.44 closes the connection when a client asks by GET, and answers no request that comes before the preamble")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_java_sends_and_receives(peer: Peer, generation: str) -> None:
    with Puppet(generation) as java:
        exchange(java, f"{peer.url}?httpEnabled=true;{POLL}")


@pytest.mark.parametrize("more", ["", ";httpRequiresSessionId=true"])
def test_python_sends_and_receives(peer: Peer, more: str) -> None:
    url = f"{peer.url}?httpEnabled=true;{POLL}{more}"
    with contextlib.ExitStack() as stack:
        factory = stack.enter_context(ConnectionFactory(url, user=instance.USER, password=instance.PASSWORD))
        context = stack.enter_context(factory.create_context())
        queue = context.create_queue(f"http.{uuid.uuid4()}")
        bodies = [*(f"{number}" for number in range(100)), "x" * 300_000]
        producer, consumer = context.create_producer(), context.create_consumer(queue)
        for body in bodies:
            producer.send(queue, body)
        assert [consumer.receive_body(RECEIVE_MS) for _ in bodies] == bodies
        time.sleep(1.5)
        producer.send(queue, "after a silence")
        assert consumer.receive_body(RECEIVE_MS) == "after a silence"
