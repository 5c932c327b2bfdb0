"""Plain messages that end early."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.plain import PlainMessages
from mqclient.storageformat.records import (
    ACKNOWLEDGE,
    ACKNOWLEDGED,
    encode_message_head,
)
from mqclient.storageformat.replay_plain import replay_plain
from tests.unit.storage.files.test_plain import buffer_of, images_of


class CutTest(SynchronousTestCase):
    def test_cut_off_record_is_damage(self) -> None:
        buffer, headers = buffer_of(1, "a", None, True, 4)
        whole = encode_message_head(headers, len(buffer), [1]) + buffer
        for cut in (1, 10, len(whole) - 1):
            with self.assertRaises(JournalDamagedError):
                replay_plain(images_of([[[whole, whole[:cut]]]]), PlainMessages())
        with self.assertRaises(JournalDamagedError):
            replay_plain(images_of([[[ACKNOWLEDGED.pack(ACKNOWLEDGE, 1, 1)[:-1]]]]), PlainMessages())
