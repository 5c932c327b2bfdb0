"""Messages of the runtime and of the grammar are the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire.message import (
    decode_message,
    encode_message,
)
from mqclient.wire.packets import grammar_messages
from tests.unit.mqclient.wire.strategies import BINARY, examples
from tests.unit.mqclient.wire.test_message import HEADERS, grammar_headers, message_of, message_values


class GrammarTests(SynchronousTestCase):
    @examples(100)
    @given(values=HEADERS, body=BINARY)
    def test_message_has_the_bytes_and_values_of_the_grammar(self, values: dict[str, Any], body: bytes) -> None:
        message = message_of(values, body)
        data = encode_message(message)
        self.assertEqual(data, grammar_messages.MESSAGE.build({**grammar_headers(values), "body": body}))
        self.assertEqual(message_values(decode_message(data)), {**values, "body": body})
        self.assertEqual(encode_message(decode_message(data)), data)
