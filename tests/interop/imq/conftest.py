"""Fixtures of the scenarios: a Java program, a PostgreSQL server or a visible skip, and home brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.cluster.nodes import ReservedPort
from tests.interop.imq.clusters import COUNT, HomeBrokers
from tests.interop.imq.models import MakeModel
from tests.interop.maven import java_classpath
from tests.interop.puppet import Puppet
from tests.support.postgresql import PostgresqlServer, refuse_without


@pytest.fixture(scope="module")
def client(java: None) -> Iterator[Puppet]:
    with Puppet(classpath=java_classpath("jakarta-2.44.0")) as made:
        yield made


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    refuse_without()
    made = PostgresqlServer()
    yield made
    made.close()


@contextmanager
def home_brokers(folder: Path, make_model: MakeModel) -> Iterator[HomeBrokers]:
    """Three of them, at ports of loopback that nobody else has."""
    ports = [ReservedPort() for _ in range(COUNT)]
    made = HomeBrokers(folder / "cluster", [f"127.0.0.1:{port.number}" for port in ports], make_model)
    try:
        yield made
    finally:
        made.close()
        for port in ports:
            port.close()
