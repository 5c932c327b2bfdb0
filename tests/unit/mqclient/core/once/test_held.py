"""A held send tells its ledger what becomes of it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.core.once.held import Held
from mqclient.errors import MQError, SecurityError
from mqclient.wire.message import KEY_DUPLICATE_ID, encode_message
from mqclient.wire.properties import STRING


class Ledger:
    def __init__(self) -> None:
        self.told: list[tuple[str, Held]] = []

    def confirmed(self, held: Held) -> None:
        self.told.append(("confirmed", held))

    def unconfirmed(self, held: Held, error: MQError) -> None:
        self.told.append((str(error), held))


class HeldTests(SynchronousTestCase):
    def test_outcomes_go_to_the_ledger(self) -> None:
        ledger = Ledger()
        message = ClientMessage()
        held = Held(ledger, message, message, "a", 1, b"buffer", None)
        held.send_acknowledged(message)
        held.send_failed(message, SecurityError("no"))
        self.assertEqual(ledger.told, [("confirmed", held), ("no", held)])

    def test_a_transaction_holds_less_of_it_unless_it_is_large(self) -> None:
        message = ClientMessage(properties={KEY_DUPLICATE_ID: (STRING, "mine")})
        held = Held(Ledger(), message, message, "a", 1, encode_message(message), None)
        self.assertEqual((held.of_transaction, held.duplicate_id), ((1, "a", held.buffer), "mine"))
        large = Held(Ledger(), message, message, "a", 1, b"", None)
        self.assertEqual((large.of_transaction, large.duplicate_id), (large, "mine"))

    def test_size_in_memory(self) -> None:
        message = ClientMessage(body=b"x" * 500)
        self.assertEqual(Held(Ledger(), message, message, "a", 1, b"x" * 530, None).size, 530)
        large = Held(Ledger(), message, message, "a", 1, b"", None)
        self.assertEqual((large.large, large.size), (True, 500))
