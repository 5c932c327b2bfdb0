"""Branches of distributed transactions whose broker is killed: what was prepared is there at the backup, and a commit under way ends."""

from __future__ import annotations

from tests.integration.ha import following_branches
from tests.integration.ha.pair import BACKUP, PRIMARY, SharedPairCase
from tests.integration.ha.replicated_pair import IN_SYNC, ReplicatedPairCase


class SharedStoreBranchTests(following_branches.FollowingBranches, SharedPairCase):
    pass


class ReplicatedBranchTests(following_branches.FollowingBranches, ReplicatedPairCase):
    def setUp(self) -> None:
        super().setUp()
        self.start("voter")
        self.primary = self.start(PRIMARY)
        self.backup = self.start(BACKUP, IN_SYNC)
        self.primary.wait_for(IN_SYNC)
