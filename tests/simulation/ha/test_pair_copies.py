"""Messages count as put away after a split: those in queues, and those in doubt that the active broker does not know."""

from __future__ import annotations

import unittest
from unittest import mock

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import BranchRecord, BranchState
from mqbroker.storage.mirror.former import keep_for_good
from mqbroker.storage.mirror.roots import Roots
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.properties import STRING
from mqclient.xa import XAER_NOTA, XAER_RMFAIL, XAError, Xid
from tests.simulation.ha.actors import HaBranchWorker
from tests.simulation.ha.pair import PairGroup
from tests.simulation.ha.run import HaSimulation
from tests.simulation.ha.seeds import has_locks, is_of_pairs, is_one_group
from tests.simulation.model import Outcome, Sent
from tests.simulation.settings import STORE
from tests.simulation.workload import IDENTITY
from tests.simulation.world import Process
from tests.unit.storage.support import Rig

SEED = next(seed for seed in range(100) if is_one_group(seed) and is_of_pairs(seed) and not has_locks(seed))
XID = Xid(7, b"transaction", b"branch")


class PutAwayTests(unittest.TestCase):
    def setUp(self) -> None:
        self.simulation = HaSimulation(SEED)
        self.ledger = self.simulation.ledger
        self.ledger.is_split = True
        assert isinstance(self.simulation.group, PairGroup)
        self.group = self.simulation.group
        self.rig = Rig()
        self.rig.start()
        self.orders = self.rig.queue("orders", "orders")

    def sent(self, identity: str) -> Message:
        """A message for ``orders`` that counts as confirmed."""
        self.ledger.send(Sent(identity, "branches", 1, 4, True, ("orders",), Outcome.DONE))
        plain = CoreMessage(address="orders", durable=True, body=b"body")
        plain.properties[IDENTITY] = (STRING, identity)
        return Message.received(encode_message(plain), self.rig.store.next_id())

    def prepare(self, identity: str) -> int:
        """A message in a branch that is in doubt; returns the id of the branch."""
        branch_id = self.rig.store.next_id()
        message = self.sent(identity)
        batch = self.rig.store.begin()
        batch.put_branch(BranchRecord(branch_id, XID.to_wire(), BranchState.PREPARED, 5))
        batch.add_prepared(branch_id, message, [self.orders])
        self.rig.store.commit(batch)
        return branch_id

    def put_away(self) -> None:
        """The broker gives way: what it has is kept for an operator."""
        self.rig.stop()
        keep_for_good(self.rig.disk, Roots.of(STORE))
        self.group.disks[0] = self.rig.disk
        node = self.group.nodes[0]
        node.node_id = self.rig.store.node_id
        node.process = Process(self.simulation.world, node.name, self.rig.rng)

    def asked_again(self, code: int, is_calm: bool = True) -> bool:
        """The transaction manager commits the branch at the broker that goes on, which says this."""
        worker = HaBranchWorker(self.simulation, "branches")  # type: ignore[arg-type]
        with mock.patch.object(PairGroup, "is_calm", is_calm):
            return worker.is_over(XID, XAError(code, "no"))

    def lost(self) -> list[str]:
        return [text.partition(" is lost")[0] for text in self.ledger.problems()]

    def test_what_is_in_a_queue_is_put_away(self) -> None:
        message = self.sent("branches-1")
        batch = self.rig.store.begin()
        batch.add_message(message, [self.orders])
        self.rig.store.commit(batch)
        self.assertEqual(self.lost(), ["('orders', 'branches-1')"])
        self.put_away()
        self.assertEqual(self.lost(), [])

    def test_what_is_in_doubt_is_put_away_when_the_active_broker_knows_no_such_branch(self) -> None:
        self.prepare("branches-1")
        self.put_away()
        self.assertTrue(self.asked_again(XAER_NOTA))
        self.assertEqual(self.lost(), [])

    def test_what_is_in_doubt_is_lost_when_a_broker_has_confirmed_the_commit(self) -> None:
        self.prepare("branches-1")
        self.put_away()
        self.assertEqual(self.lost(), ["('orders', 'branches-1')"])

    def test_what_a_former_holder_says_and_other_errors_decide_nothing(self) -> None:
        self.prepare("branches-1")
        self.put_away()
        self.assertFalse(self.asked_again(XAER_NOTA, is_calm=False))
        self.assertFalse(self.asked_again(XAER_RMFAIL))
        self.assertEqual(self.lost(), ["('orders', 'branches-1')"])

    def test_what_was_rolled_back_is_lost(self) -> None:
        branch_id = self.prepare("branches-1")
        batch = self.rig.store.begin()
        batch.end_branch(branch_id, False)
        self.rig.store.commit(batch)
        self.put_away()
        self.assertTrue(self.asked_again(XAER_NOTA))
        self.assertEqual(self.lost(), ["('orders', 'branches-1')"])
