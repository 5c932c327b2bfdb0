"""Every packet is described, and its class says what the grammar says."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire.packets import PACKETS, grammar


class TableTests(SynchronousTestCase):
    def test_all_packets_are_described(self) -> None:
        self.assertEqual(set(PACKETS), set(grammar.GRAMMAR))

    def test_classes_say_what_the_grammar_says(self) -> None:
        for description in grammar.GRAMMAR.values():
            cls = PACKETS[description.type]
            self.assertEqual(
                (cls.TYPE, cls.NAME, cls.SINCE, cls.COUNTED, cls.RESPONSE),
                (description.type, description.name, description.since, description.counted, description.response),
            )

    def test_fields_have_the_order_and_types_of_the_grammar(self) -> None:
        for description in grammar.GRAMMAR.values():
            names = [entry[0] for entry in PACKETS[description.type].FIELDS if isinstance(entry, tuple)]
            if names:
                self.assertEqual(names, grammar.field_names(description), description.name)
