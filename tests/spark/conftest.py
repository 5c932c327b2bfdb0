"""One Spark session and one broker for all tests of this folder: a session takes six seconds to start, and its first query ten.

Tests that kill a broker or a driver make their own (:mod:`tests.spark.support`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.artemis import ArtemisBroker
from tests.interop.maven import java_missing as maven_missing
from tests.spark.support import (
    QUICK_JAVA,
    Additions,
    MqbrokerProcess,
    java_missing,
    new_broker,
    new_cluster,
    new_session,
    paged,
    wait_for_members,
)
from tests.spark.warm_python import warm_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINK_SETTINGS = (
    '<address-setting match="strict.#"><auto-create-queues>false</auto-create-queues>'
    "<auto-create-addresses>false</auto-create-addresses></address-setting>"
    '<address-setting match="tiny.#"><id-cache-size>10</id-cache-size></address-setting>'
    '<address-setting match="small.#"><id-cache-size>2000</id-cache-size></address-setting>'
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without Java all tests are skipped for the same reason; with CI=true they fail."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    missing = java_missing() if here else None
    if missing is None:
        return
    if os.environ.get("CI", "").lower() == "true":
        pytest.exit(f"the tests of the data sources need Java 17, and CI=true demands them: {missing}", returncode=1)
    for item in here:
        item.add_marker(pytest.mark.skip(reason=f"the tests of the data sources need Java 17: {missing}"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session: two tasks at a time."""
    folder = tmp_path_factory.mktemp("spark")
    session = new_session(folder, python=warm_python(folder), spark__driver__extraJavaOptions=QUICK_JAVA)
    try:
        yield session
    finally:
        for query in session.streams.active:
            query.stop()
        session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[MqbrokerProcess]:
    """A broker that tests share: they use names of their own.

    Addresses that begin with ``deep.`` are paged early; those with ``strict.`` are not created on demand; ``tiny.`` and ``small.`` remember
    10 and 2,000 duplicate ids.
    """
    with tempfile.TemporaryDirectory(prefix="mqbroker-spark-") as folder:
        shared = new_broker(Path(folder), Additions(name="spark", address_settings=paged("deep.#") + SINK_SETTINGS))
        shared.start()
        try:
            yield shared
        finally:
            shared.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[list[MqbrokerProcess]]:
    """Two brokers of a cluster that tests share; messages stay where they were sent."""
    with tempfile.TemporaryDirectory(prefix="mqbroker-spark-") as folder:
        shared = new_cluster(Path(folder))
        try:
            for broker in shared:
                broker.start()
            for broker in shared:
                wait_for_members(broker.url, len(shared))
            yield shared
        finally:
            for broker in shared:
                broker.stop()


@pytest.fixture(scope="session")
def artemis() -> Iterator[ArtemisBroker]:
    """A real Artemis that tests share; needs Maven."""
    missing = maven_missing()
    if missing is not None:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"the tests with a real Artemis need Maven: {missing}")
        pytest.skip(f"the tests with a real Artemis need Maven: {missing}")
    with tempfile.TemporaryDirectory(prefix="mqbroker-spark-artemis-") as folder:
        shared = ArtemisBroker(Path(folder) / "artemis", Additions(name="spark"))
        shared.start()
        try:
            yield shared
        finally:
            shared.stop()
