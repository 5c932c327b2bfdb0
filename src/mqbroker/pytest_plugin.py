"""The pytest fixture ``embedded_broker``: a broker for one test, in memory, without a port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqbroker.embedded import EmbeddedBroker


@pytest.fixture
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """A running broker; ``embedded_broker.url`` is where to connect."""
    with EmbeddedBroker() as broker:
        yield broker
