from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.voters import Voters
from mqbroker.ha.replication.kept_voters import kept_voters
from tests.unit.storage.support import Rig


class KeptVotersTests(SynchronousTestCase):
    def test_the_list_is_read_without_the_store(self) -> None:
        rig = Rig()
        self.assertEqual(kept_voters(rig.disk, rig.settings), ())
        rig.start()
        voters = Voters(rig.store, "own", {})
        for node_id in ("own", "b", "c"):
            voters.join(node_id)
        rig.settle()
        self.assertEqual(kept_voters(rig.disk, rig.settings), ("b", "c"))
        rig.stop()
        self.assertEqual(kept_voters(rig.disk, rig.settings), ("b", "c"))
