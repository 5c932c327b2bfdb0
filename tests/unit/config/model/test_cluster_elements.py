"""Roles of high availability that are made of others."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster_elements import REPLICATION
from mqbroker.config.schema.model import Block, Item, Support


def children(block: Block) -> dict[str, Item | Block]:
    return {child.name: child for child in block.children}


class RoleTests(SynchronousTestCase):
    def test_only_a_primary_and_a_backup_by_these_names_may_have_a_lock_manager(self) -> None:
        roles = {child.name: child for child in REPLICATION.children if isinstance(child, Block)}
        colocated = [child for child in roles["colocated"].children if isinstance(child, Block) and child.name in ("primary", "backup")]
        self.assertEqual(len(colocated), 2)
        for role in (roles["master"], roles["slave"], *colocated):
            self.assertIs(children(role)["manager"].support, Support.REFUSED, role.name)
        for role in (roles["primary"], roles["backup"]):
            self.assertIs(children(role)["manager"].support, Support.HONOURED, role.name)

    def test_competing_primaries_have_no_old_name(self) -> None:
        roles = {child.name: child for child in REPLICATION.children if isinstance(child, Block)}
        self.assertIs(children(roles["primary"])["coordination-id"].support, Support.HONOURED)
        self.assertIs(children(roles["master"])["coordination-id"].support, Support.REFUSED)
        self.assertEqual(roles["master"].instead, "primary")
