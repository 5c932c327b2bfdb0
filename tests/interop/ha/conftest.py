"""Servers of ZooKeeper, which take seconds to start: the tests of high availability share them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.ha.zookeeper import Ensemble


@pytest.fixture(scope="package")
def ensemble(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three servers that are not started yet."""
    servers = Ensemble(tmp_path_factory.mktemp("ensemble"))
    yield servers
    servers.kill()
