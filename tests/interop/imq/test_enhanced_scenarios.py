"""The scenarios of enhanced clusters, on home brokers with PostgreSQL; `make interop-imq` plays them on a real Open Message Queue, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.imq.clusters import HomeBrokers
from tests.interop.imq.conftest import home_brokers
from tests.interop.imq.models import enhanced
from tests.interop.imq.scenarios import ENHANCED, MASTER, PEERS, SCENARIOS, play
from tests.interop.puppet import Puppet
from tests.support.postgresql import PostgresqlServer


@pytest.fixture(scope="module")
def cluster(server: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeBrokers]:
    with home_brokers(tmp_path_factory.mktemp("enhanced"), enhanced(server, interval=1, reconnects=1)) as made:
        yield made


OF_OTHER_KINDS = SCENARIOS[MASTER].keys() | SCENARIOS[PEERS].keys()
"""These are played there by pytest, and here by the command."""


@pytest.mark.parametrize("name", [each for each in SCENARIOS[ENHANCED] if each not in OF_OTHER_KINDS])
def test_enhanced(name: str, cluster: HomeBrokers, client: Puppet) -> None:
    assert play(SCENARIOS[ENHANCED][name], cluster, client).reason is None
