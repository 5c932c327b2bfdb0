"""Changes as texts and JSON values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.record.changes import Kind, Recorded, wish_of
from mqbroker.imq.record.codec import change_from, change_of, text_of, values_of, wish_from, wish_values
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.queues.definitions import QueueDefinition
from tests.unit.imq.record.strategies import changes

GOOD: dict[str, Any] = {
    "position": 2,
    "kind": "UPDATE_DESTINATION",
    "key": "queue:q",
    "form": {"name": "q", "address": "q", "routing_type": "ANYCAST"},
    "origin": "b1:7676",
    "time": 5,
}
RESET: dict[str, Any] = {**GOOD, "kind": "RESET_PERSISTENCE", "key": "", "form": {"generation": "g", "former": []}}


class CodecTests(SynchronousTestCase):
    @given(changes())
    def test_a_change_comes_back(self, change: Change) -> None:
        wish = wish_of(change)
        recorded = Recorded(7, wish.kind, wish.key, {} if wish.kind.removes else wish.form, "b1:7676", 12)
        text = text_of(recorded)
        self.assertNotIn("\n", text)
        self.assertEqual(change_from(text), recorded)
        self.assertEqual(change_of(json.loads(json.dumps(values_of(recorded)))), recorded)

    @given(changes())
    def test_a_wish_comes_back(self, change: Change) -> None:
        wish = wish_of(change)
        self.assertEqual(wish_from(json.loads(json.dumps(wish_values(wish)))), wish)

    def test_the_reset_record(self) -> None:
        self.assertEqual(change_of(RESET).kind, Kind.RESET)

    def test_a_change_of_what_was_made_before(self) -> None:
        recorded = change_of({**GOOD, "made": 1})
        self.assertEqual((recorded.life, change_from(text_of(recorded))), (1, recorded))
        self.assertEqual(change_of(GOOD).life, 2)
        self.assertNotIn("made", values_of(change_of(GOOD)))
        recorded = change_of({**GOOD, "made": 7, "generation": "g"})
        self.assertEqual((recorded.life, recorded.generation, change_from(text_of(recorded))), (7, "g", recorded))

    def test_what_is_no_change(self) -> None:
        for values in (
            None,
            [],
            {},
            {**GOOD, "position": "2"},
            {**GOOD, "position": True},
            {**GOOD, "position": 0},
            {**GOOD, "made": "1"},
            {**GOOD, "made": 0},
            {**GOOD, "made": 2},
            {**GOOD, "made": 0, "generation": "g"},
            {**GOOD, "made": 1, "generation": 2},
            {**GOOD, "generation": "g"},
            {**GOOD, "kind": "NONE"},
            {**GOOD, "key": "queue:r"},
            {**GOOD, "form": {}},
            {**GOOD, "kind": "REM_DESTINATION", "key": "q"},
            {**RESET, "form": {}},
            {**RESET, "form": {"generation": "g", "former": "h"}},
            {**RESET, "key": "queue:q"},
        ):
            with self.assertRaises(ValueError):
                change_of(values)
        for text in ("", "{", "[" * 100_000):
            with self.assertRaises(ValueError):
                change_from(text)

    def test_what_is_no_wish(self) -> None:
        good = wish_values(wish_of(Change("create", QueueDefinition("q", "q"))))
        self.assertEqual(wish_from(good).action, "create")
        for values in (
            None,
            {**good, "action": "steal"},
            {**good, "action": "delete"},
            {**good, "kind": "RESET_PERSISTENCE"},
            {**good, "form": {}},
            {**good, "key": 1},
        ):
            with self.assertRaises(ValueError):
                wish_from(values)
