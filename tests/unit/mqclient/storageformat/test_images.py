"""Images of messages that are read back."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.files.plain import PlainMessages
from mqclient.storageformat.records import (
    encode_message_head,
)
from mqclient.storageformat.replay_plain import replay_plain
from tests.unit.storage.files.test_plain import buffer_of, images_of


class ImageTest(SynchronousTestCase):
    def test_messages_of_one_address_share_it(self) -> None:
        heads = []
        for number in (1, 2):
            buffer, headers = buffer_of(number, "an.address", None, True, 4)
            heads.append(encode_message_head(headers, len(buffer), [1]) + buffer)
        plain = PlainMessages()
        replay_plain(images_of([[heads[:1]], [heads[1:]]]), plain)
        first, second = plain.messages.values()
        self.assertIs(first.address, second.address)
