"""What the properties of a message ask of the broker, seen without decoding them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.runs.property_looks import id_behind, look_through
from mqclient.wire.properties import BYTE, BYTES, INT, STRING, TypedValue, encode_properties

PLAIN: dict[str, TypedValue] = {"colour": (STRING, "red"), "number": (INT, 5)}
ANYCAST: dict[str, TypedValue] = {"_AMQ_ROUTING_TYPE": (BYTE, 1)}
ID: dict[str, TypedValue] = {"_AMQ_DUPL_ID": (BYTES, b"abcd")}


def block(*parts: dict[str, TypedValue]) -> bytes:
    return encode_properties({name: value for part in parts for name, value in part.items()})


class LookTests(SynchronousTestCase):
    def test_properties_of_the_application_ask_for_nothing(self) -> None:
        data = block(PLAIN)
        look = look_through(data, 0, len(data))
        assert look is not None
        self.assertEqual((look.routing_type, look.id_at), (None, None))

    def test_a_routing_type_is_found_with_the_block_up_to_it(self) -> None:
        data = block(PLAIN, ANYCAST, {"more": (INT, 1)})
        look = look_through(data, 0, len(data))
        assert look is not None
        self.assertEqual((look.routing_type, look.entries, look.id_at), (1, 3, None))
        self.assertTrue(data.startswith(look.routed))

    def test_a_duplicate_id_is_found_where_it_stands(self) -> None:
        data = b"before" + block(ANYCAST, ID)
        look = look_through(data, 6, len(data))
        assert look is not None and look.id_at is not None
        self.assertEqual(data[slice(*look.id_at)], b"abcd")

    def test_anything_else_for_the_broker_is_not_plain(self) -> None:
        for more in (
            {"_AMQ_SCHED_DELIVERY": (INT, 5)},
            {"_AMQ_ROUTING_TYPE": (BYTE, 2)},
            {"_AMQ_ROUTING_TYPE": (INT, 1)},
            {"_AMQ_DUPL_ID": (INT, 1)},
            {"_AMQ_DUPL_ID": (BYTES, b"")},
        ):
            data = block(PLAIN, more)
            self.assertIsNone(look_through(data, 0, len(data)), more)

    def test_an_id_before_the_routing_type_is_not_plain(self) -> None:
        data = block(ID, ANYCAST)
        self.assertIsNone(look_through(data, 0, len(data)))

    def test_a_damaged_block_is_not_plain(self) -> None:
        data = block(ANYCAST, ID)
        self.assertIsNone(look_through(data[:-1], 0, len(data) - 1))


class BehindTests(SynchronousTestCase):
    def test_the_id_behind_a_known_beginning_is_found(self) -> None:
        start = len(block(ANYCAST))
        data = block(ANYCAST, ID, PLAIN)
        found = id_behind(data, start, len(data))
        assert found is not None
        self.assertEqual(data[slice(*found)], b"abcd")

    def test_what_is_no_id_is_not_taken_for_one(self) -> None:
        start = len(block(ANYCAST))
        for parts in ((ANYCAST, PLAIN), (ANYCAST, ID, {"_AMQ_LVQ_NAME": (STRING, "k")}), (ANYCAST, {"_AMQ_DUPL_ID": (INT, 4)})):
            data = block(*parts)
            self.assertIsNone(id_behind(data, start, len(data)))

    def test_an_id_that_is_cut_off_is_none(self) -> None:
        data = block(ANYCAST, ID)
        start = len(block(ANYCAST))
        for end in range(start, len(data)):
            self.assertIsNone(id_behind(data[:end], start, end))
