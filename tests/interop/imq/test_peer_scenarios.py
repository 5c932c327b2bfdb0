"""The scenarios of clusters of peers, on home brokers with PostgreSQL; `make interop-imq` plays them on a real Open Message Queue, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.imq.clusters import HomeBrokers
from tests.interop.imq.conftest import home_brokers
from tests.interop.imq.models import peers
from tests.interop.imq.scenarios import MASTER, PEERS, SCENARIOS, play
from tests.interop.puppet import Puppet
from tests.support.postgresql import PostgresqlServer


@pytest.fixture(scope="module")
def cluster(server: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeBrokers]:
    with home_brokers(tmp_path_factory.mktemp("peers"), peers(server)) as made:
        yield made


@pytest.mark.parametrize("name", [each for each in SCENARIOS[PEERS] if each not in SCENARIOS[MASTER]])
def test_peers(name: str, cluster: HomeBrokers, client: Puppet) -> None:
    assert play(SCENARIOS[PEERS][name], cluster, client).reason is None
