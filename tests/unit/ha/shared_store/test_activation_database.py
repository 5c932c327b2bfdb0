"""Brokers that share a database do what those do that share a folder; and what happens to their leases."""

from __future__ import annotations

from tests.unit.ha.shared_store import test_activation as shared
from tests.unit.ha.shared_store.nodes import DatabaseWorld, NodeCase, World


class InDatabase(NodeCase):
    def make_world(self) -> World:
        return DatabaseWorld(self.addCleanup)


class HoldBackTests(InDatabase, shared.HoldBackTests):
    pass


class GivenAwayTests(InDatabase, shared.GivenAwayTests):
    pass


class TakeoverTests(InDatabase, shared.TakeoverTests):
    lost = "another broker has taken the data"


class NewStoreTests(InDatabase, shared.NewFolderTests):
    pass


class FailoverOnShutdownTests(InDatabase, shared.FailoverOnShutdownTests):
    pass


class FailbackTests(InDatabase, shared.FailbackTests):
    pass


class TimeoutTests(InDatabase, shared.TimeoutTests):
    pass
