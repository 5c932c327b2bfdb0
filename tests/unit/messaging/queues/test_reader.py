"""How much of a queue a reader lets go."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.queues.reader import Reader


class ReaderTests(SynchronousTestCase):
    def test_a_reader_that_has_settled_nothing_lets_nothing_go_not_even_what_lies_before_its_beginning(self) -> None:
        self.assertEqual(Reader("r", settled=50, reserved=70, begin=50).removable, 0)

    def test_what_was_settled_may_go_and_what_was_only_handed_out_may_not(self) -> None:
        self.assertEqual(Reader("r", settled=51, reserved=70, begin=50).removable, 51)
