"""Whatever happens to brokers, links and the database: soon after all is well again, every peer has what the record says."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.peers import record_table
from mqbroker.imq.peers.record_table import RecordTable
from tests.unit.imq.master.test_recording_model import HEALED_SECONDS, PLACES, ClusterMachine, definitions, essential
from tests.unit.imq.net import peers


class PeersMachine(ClusterMachine):
    """As a cluster with a master, which is a database here."""

    def __init__(self) -> None:
        super().__init__()
        self.small_table = patch.object(record_table, "SLACK_MAX", 3)
        self.small_table.start()
        self.net = peers(retries=-1)

    @property
    def database(self) -> Any:
        return self.net.database

    @rule(away=st.booleans())
    def database_away(self, away: bool) -> None:
        self.database.away = away

    @rule(breaks=st.lists(st.sampled_from(("before", "after", "")), max_size=4))
    def connections_break(self, breaks: list[str]) -> None:
        self.database.breaks = breaks

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.small_table.stop()
            self.database.close()

    def heal(self) -> None:
        self.database.away = False
        self.database.breaks = []
        for place in PLACES:
            self.start(place)
            self.quick_disk(place)
        for place in PLACES:
            self.net.link_all(self.node(place))
        self.net.settle(HEALED_SECONDS)
        record = RecordTable(self.database, "c").read(self.database.connect())
        assert record is not None
        wanted = {change.key: essential(change.form) for change in record.definitions}
        for node in self.net.nodes.values():
            assert not node.left, node.left
            assert node.recording.synchronised, (node.place, node.recording.state)
            assert node.recording.standing.position == record.last, (node.place, node.recording.standing.position, record.last)
            assert definitions(node) == wanted, (node.place, definitions(node), wanted)


class ModelTests(SynchronousTestCase):
    def test_all_peers_agree_with_the_record_after_all_is_well_again(self) -> None:
        machine: Any = PeersMachine.TestCase
        machine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
        machine().runTest()
