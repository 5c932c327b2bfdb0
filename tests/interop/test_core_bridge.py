"""Core bridges between mqbroker and a real Artemis: with bridge duplicate detection, through a kill of the target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqclient.jms import ConnectionFactory
from tests.integration.cluster.test_core_bridge import BridgedBrokers, received, wait_until
from tests.interop import instance
from tests.interop.artemis import ArtemisBroker


@pytest.fixture
def artemis(tmp_path: Path) -> Iterator[ArtemisBroker]:
    broker = ArtemisBroker(tmp_path / "artemis")
    broker.start()
    yield broker
    broker.stop()


def test_messages_reach_a_real_broker_once_although_it_is_killed(artemis: ArtemisBroker) -> None:
    bridged = BridgedBrokers(artemis.port, "bridged", user=instance.USER, password=instance.PASSWORD, min_large_message_size=50_000)
    try:
        first = [f"{number}" for number in range(2000)]
        bridged.send(*first[:1000])
        bridge = bridged.bridges.find("bridge")
        assert bridge is not None
        wait_until(lambda: bridge.messages_acknowledged > 100)
        artemis.kill()
        bridged.send(*first[1000:], bytes(300_000))
        artemis.start()
        wait_until(lambda: bridge.messages_acknowledged >= 2002 and not bridge.messages_pending)
        with ConnectionFactory(artemis.url, user=instance.USER, password=instance.PASSWORD).create_context() as context:
            expected = ["kept for the bridge", *first, bytes(300_000)]
            assert received(context, "bridged", len(expected)) == expected
    finally:
        bridged.stop()
