"""Messages that are stored together are written as if they had been stored one by one."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.turns.turn import Turn
from mqbroker.storage.files.journal.batch import FileBatch
from tests.unit.storage.support import Rig, ids, make_message


class BatchTests(TestCase):
    def test_messages_in_a_row(self) -> None:
        rig = Rig()
        rig.start()
        messages = [make_message(rig.store, bytes(size), address) for size, address in ((3, "a"), (4, "a"), (5, "b"), (0, "a"))]
        for queue_ids in ([7], [7, 8], []):
            known: tuple[dict[str, bytes], dict[str, bytes]] = {}, {}
            for _ in range(2):  # the second time the encoded addresses are known
                together, one_by_one = FileBatch(known[0]), FileBatch(known[1])
                together.add_messages(messages, queue_ids)
                for message in messages:
                    one_by_one.add_message(message, queue_ids)
                self.assertEqual(b"".join(together.parts), b"".join(one_by_one.parts))
                self.assertEqual((together.size, together.changes), (one_by_one.size, one_by_one.changes))
        empty = FileBatch({})
        empty.add_messages([], [7])
        self.assertEqual((empty.parts, empty.size), ([], 0))


class TurnTests(TestCase):
    def test_a_turn_writes_at_its_end_and_what_comes_outside_is_written_too(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        rig.settle()
        turn = Turn(rig.clock)
        rig.store.write_at_end_of(turn)
        turn.run(rig.add, queue)
        self.assertEqual((rig.writer.waiting, rig.clock.run_due()), (1, False))
        rig.writer.run_one()
        rig.add(queue)
        self.assertEqual(rig.writer.waiting, 0)
        rig.clock.run_due()
        self.assertEqual(rig.writer.waiting, 1)
        rig.writer.run_one()
        self.assertEqual(len(ids(rig.crash())), 2)
