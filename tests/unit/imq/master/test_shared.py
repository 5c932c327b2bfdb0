"""The shared part of a broker as a whole: from its start to its stop."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.links.operations import PARAMETERS
from tests.unit.imq.net import ONE, TWO, Net, three


class SharedTests(SynchronousTestCase):
    def test_every_operation_is_answered(self) -> None:
        _, one, _, _ = three()
        others = {"reload", "matchProperties", "takeoverPending", "takeoverAbort", "takeoverComplete", "databaseAnswers", "hasDataOf"}
        self.assertEqual(set(one.shared.operations._answers), set(PARAMETERS) - others)
        self.assertEqual(one.shared.master, ONE)
        self.assertIsNone(Net(master=None).add(TWO).shared.master)

    def test_after_its_stop_nothing_is_left_to_be_done(self) -> None:
        net = Net()
        two = net.add(TWO)
        two.stop()
        self.assertEqual(two.recording.state, "stopped")
        self.assertEqual(net.clock.pending, 0)
