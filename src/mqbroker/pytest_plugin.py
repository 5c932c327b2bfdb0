"""The pytest fixture ``embedded_broker``: a broker for one test, in memory, without a port."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mqbroker.embedded import EmbeddedBroker


@pytest.fixture
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """A running broker; ``embedded_broker.url`` is where to connect."""
    # Imported here: pytest loads this module in every run, also where no test wants a broker.
    from mqbroker.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker
