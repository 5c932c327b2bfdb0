"""The part of two journals that both began with."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.merge.common import CommonPart
from mqbroker.storage.settings import JOURNAL_FILE_SIZE_MIN
from tests.unit.cli.data.merge.support import Pair


class CommonPartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pair = Pair(journal_compact_min_files=0, journal_file_size=JOURNAL_FILE_SIZE_MIN)
        (self.queue,) = self.pair.start("q")
        self.old = [self.pair.kept.add(self.queue) for _ in range(30)]

    def common(self) -> CommonPart:
        return self.pair.read().common

    def test_it_ends_at_the_cut(self) -> None:
        self.pair.split()
        later = self.pair.kept.add(self.queue)
        self.pair.running.add(self.queue)
        self.pair.running.acknowledge(self.queue, self.pair.running.recovered[self.old[0].message_id])
        self.pair.kept.acknowledge(self.queue, self.old[1])
        common = self.common()
        self.assertTrue(common.whole)
        self.assertEqual(sorted(common.state.messages), [message.message_id for message in self.old])
        self.assertGreater(common.ids_from or 0, later.message_id)

    def test_the_one_that_took_over_may_be_the_kept_one(self) -> None:
        self.pair.split()
        self.pair.running.add(self.queue)
        self.pair.kept.restart()
        late = self.pair.kept.add(self.queue)
        common = self.common()
        self.assertEqual(sorted(common.state.messages), [message.message_id for message in self.old])
        self.assertNotIn(late.message_id, common.state.messages)

    def test_a_segment_that_one_has_removed_comes_from_the_other(self) -> None:
        """The running broker has consumed what the first segment held."""
        self.pair.split()
        before = self.pair.running.files("/data/journal")
        consumed = self.old[:20]
        self.pair.running.acknowledge(self.queue, *(self.pair.running.recovered[each.message_id] for each in consumed))
        self.pair.settle()
        self.pair.running.clock.advance(60)
        self.pair.settle()
        self.assertNotEqual(self.pair.running.files("/data/journal")[0], before[0])
        common = self.common()
        self.assertTrue(common.whole)
        self.assertEqual(len(common.state.messages), len(self.old))

    def test_without_a_common_segment_the_ids_are_left(self) -> None:
        self.pair.split()
        self.pair.running.acknowledge(self.queue, *(self.pair.running.recovered[each.message_id] for each in self.old))
        given = [self.pair.running.add(self.queue).message_id for _ in range(40)]
        self.pair.settle()
        self.pair.running.clock.advance(60)
        common = self.common()
        self.assertFalse(common.whole)
        self.assertEqual(common.state.messages, {})
        assert common.ids_from is not None
        self.assertGreater(common.ids_from, self.old[-1].message_id)
        self.assertLessEqual(common.ids_from, given[0])
