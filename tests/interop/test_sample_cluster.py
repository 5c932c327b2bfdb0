"""The sample ``config/cluster-with-artemis``: it starts, and the commands of its README move messages from the mqbroker to the Artemis."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.examples.samples import SampleCluster
from tests.interop.artemis import distribution


@pytest.mark.usefixtures("java")
def test_messages_go_from_mqbroker_to_artemis(tmp_path: Path) -> None:
    sample = SampleCluster("cluster-with-artemis", tmp_path, ARTEMIS_HOME=str(distribution()))
    try:
        sample.await_start()
        produce, consume = sample.commands()
        sent = sample.run(produce)
        assert sent.status == 0, sent.err
        got = sample.run([*consume, "--receive-timeout", "30000", "--break-on-null"])
        assert "Consumed: 30 messages" in got.out, sample.text()[-5000:]
    finally:
        status = sample.stop()
    assert status == 0, sample.text()[-3000:]
