"""What an operator reads of a damaged journal."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.storageformat.errors import JournalDamagedError


class DamageTests(SynchronousTestCase):
    def test_the_place_the_ids_and_the_way_out_are_named(self) -> None:
        text = str(JournalDamagedError("a.mqj", 77, [5, 6], "the checksum is wrong"))
        self.assertTrue(text.startswith("a.mqj: damaged at offset 77: the checksum is wrong; message ids at and around this place: 5, 6."))
        self.assertIn("mqbroker data recover", text)

    def test_many_ids_are_cut_short_in_the_text_alone(self) -> None:
        error = JournalDamagedError("a.mqj", 0, range(25), "cut off")
        self.assertIn("18, 19 and 5 more.", str(error))
        self.assertEqual(error.message_ids, tuple(range(25)))

    def test_it_is_said_when_no_id_could_be_read(self) -> None:
        self.assertIn("place: none could be read.", str(JournalDamagedError("a.mqj", 0, [], "cut off")))
